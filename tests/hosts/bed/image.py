"""The root file system that all hosts share: made once by debootstrap, kept in the checkout's ignored cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hosts.bed.machine import Unable

CHECKOUT = Path(__file__).resolve().parents[3]
PACKAGES = (
    "curl", "dbus", "iproute2", "libpam-systemd", "openssh-server", "procps", "psmisc", "python3", "strace", "sudo",
    "systemd", "systemd-container", "systemd-sysv", "tmux", "util-linux",
)
PREPARE = Path(__file__).with_name("prepare.sh")
KEYRINGS = {"debian": "debian-archive-keyring.gpg", "ubuntu": "ubuntu-archive-keyring.gpg"}


def cache() -> Path:
    """Where large things that can be made again are kept: ``.cache`` in the checkout, or $DEPLOYER_CACHE."""
    return Path(os.environ.get("DEPLOYER_CACHE") or CHECKOUT / ".cache")


def image() -> Path:
    """The root file system, made now if it is not there. About 64 s and 300 MB; raises ``Unable``."""
    release = _os_release()
    suite = release["VERSION_CODENAME"]
    text = "\n".join((suite, *PACKAGES, PREPARE.read_text()))
    root = cache() / f"hosts-{suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if root.exists():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with locked(root.parent / "hosts.lock"):
        if not root.exists():
            _build(root, suite, _mirror(suite), release.get("ID", "debian"))
    return root


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds a kernel lock: a builder that dies lets go of it."""
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(root: Path, suite: str, mirror: str, distribution: str) -> None:
    for stale in root.parent.glob("hosts-building-*"):
        shutil.rmtree(stale)
    building = Path(tempfile.mkdtemp(prefix="hosts-building-", dir=root.parent))
    building.chmod(0o755)
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    keyring = Path("/usr/share/keyrings") / KEYRINGS.get(distribution, "")
    if keyring.is_file():
        command.append(f"--keyring={keyring}")
    if distribution == "ubuntu":
        command.append("--components=main,universe")
    _run([*command, suite, str(building), mirror])
    _run(["chroot", str(building), "/bin/sh", "-eu", "-c", PREPARE.read_text()])
    building.rename(root)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    if done.returncode:
        raise Unable(f"{command[0]} failed: {(done.stdout + done.stderr).strip()[-1000:]}")


def _mirror(suite: str) -> str:
    """The mirror that apt itself is configured with for ``suite``'s main packages."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True,
    ).stdout
    for line in targets.splitlines():
        release, component, address = line.split(" ", 2)
        if (release, component) == (suite, "main"):
            return address
    raise Unable(f"apt is configured with no mirror for {suite} main")


def _os_release() -> dict[str, str]:
    pairs = (line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return {name: value.strip('"') for name, value in pairs}
