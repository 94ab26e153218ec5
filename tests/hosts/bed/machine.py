"""Whether this machine can host systemd hosts, and the packages that it takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = {
    "debootstrap": "debootstrap",
    "systemd-nspawn": "systemd-container",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "bridge": "iproute2",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
}
"""Program -> the Debian package that brings it."""

INOTIFY_INSTANCES = 8192
"""With the usual 128 the 22nd systemd on one kernel gets no inotify instance and never finishes booting."""


class Unable(Exception):
    """This machine cannot host systemd hosts; the text says why."""


def enable() -> None:
    """Makes this machine able to host, by its own package manager where something is missing. Raises ``Unable``."""
    reason = obstacle()
    if reason:
        raise Unable(reason)
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program, path=_path())})
    if missing:
        _install(missing)
    _raise_limit(Path("/proc/sys/fs/inotify/max_user_instances"), INOTIFY_INSTANCES)


def obstacle() -> str | None:
    """What no package can mend, in words; None where nothing stands in the way."""
    if sys.platform != "linux":
        return f"this is {sys.platform}, not Linux"
    if os.geteuid() != 0:
        return "not root"
    if not shutil.which("apt-get"):
        return "no apt-get: hosts are made from Debian's or Ubuntu's own packages"
    if not Path("/sys/fs/cgroup").is_mount():
        return "no control groups in /sys/fs/cgroup"
    probe = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True, text=True)
    if probe.returncode:
        return f"no namespaces of its own: {probe.stderr.strip()}"
    return None


def _install(packages: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    done = subprocess.run(install, env=environment, capture_output=True, text=True)
    if done.returncode:
        subprocess.run(["apt-get", "update", "-q"], env=environment, capture_output=True)
        done = subprocess.run(install, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"apt-get install {' '.join(packages)} failed: {done.stderr.strip()[-500:]}")


def _raise_limit(file: Path, value: int) -> None:
    if int(file.read_text()) < value:
        file.write_text(str(value))


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
