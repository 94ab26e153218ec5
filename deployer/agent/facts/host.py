"""The machine itself."""

from __future__ import annotations

import os
import re
import socket
import sys
from typing import Dict, Sequence, Union

from deployer.agent.door import run
from deployer.protocol import patterns
from deployer.protocol.codec import Unknown
from deployer.protocol.facts import HostFacts

_LIBRARY = patterns.compile(r"/libsystemd-(?:core|shared)-(\d+)[-.~\w]*\.so")


def host_facts(disk_paths: Sequence[str] = ()) -> HostFacts:
    """Never fails: what cannot be found out is ``Unknown``."""
    memory = _meminfo()
    return HostFacts(
        hostname=socket.gethostname(),
        boot_id=_read("/proc/sys/kernel/random/boot_id").strip(),
        kernel=os.uname().release,
        os_name=_os_name(),
        systemd=systemd_version(),
        python=".".join(str(part) for part in sys.version_info[:3]),
        memory_total=memory.get("MemTotal", Unknown("/proc/meminfo does not say")),
        memory_available=memory.get("MemAvailable", Unknown("/proc/meminfo does not say")),
        free_disk={path: free for path in disk_paths for free in [_free(path)] if free is not None},
        local_ports=_local_ports(),
        virtualization=_virtualization(),
    )


def systemd_version() -> Union[int, Unknown]:
    """The manager's: the number before any "-" or "." of the distribution's.

    It stands in the name of the library that PID 1 has loaded; systemctl is asked where that may not be seen.
    """
    if not os.path.isdir("/run/systemd/system"):
        return Unknown("systemd does not run this machine (sd_booted(3))")
    loaded = _LIBRARY.search(_read("/proc/1/maps"))
    if loaded:
        return int(loaded.group(1))
    ran = run(["systemctl", "--version"], timeout=10)
    match = re.match(r"systemd (\d+)", ran.out)
    return int(match.group(1)) if match else Unknown("systemctl --version: {}".format(ran.said))


def _meminfo() -> Dict[str, int]:
    lines = re.findall(r"^(\w+):\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in lines}


def _free(path: str) -> Union[int, None]:
    """Free bytes for an ordinary user of the file system under ``path``, or under its nearest parent that exists."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    try:
        status = os.statvfs(path or "/")
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _local_ports() -> Union[str, Unknown]:
    text = " ".join(_read("/proc/sys/net/ipv4/ip_local_port_range").split())
    return text or Unknown("net.ipv4.ip_local_port_range is not readable")


def _os_name() -> str:
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read("/etc/os-release"), re.MULTILINE)
    return match.group(1) if match else ""


def _virtualization() -> str:
    return _read("/run/systemd/container").strip()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
