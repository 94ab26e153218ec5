"""Ending all of a control group at once: what forks faster than it can be looked at.

Only for the group of a unit that does not run: everything in it is that unit's, by systemd's own book-keeping.
"""

from __future__ import annotations

import os
import signal
import time
from typing import List, Optional

from deployer.agent.clean.ladder import grip
from deployer.agent.facts.cgroup import systemd_path
from deployer.agent.facts.process import read, start_of

MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
SWEEP = 2.0
"""Seconds of sweeping where the kernel (before 5.14, or cgroup v1) has no cgroup.kill."""


def end_group(path: str) -> str:
    """Kills what is in the group ``path`` (as /proc/PID/cgroup has it) and below; how, or "" where it is not found."""
    folders = [folder for folder in (mount + path for mount in MOUNTS) if os.path.exists(folder + "/cgroup.procs")]
    for folder in folders:
        try:
            with open(folder + "/cgroup.kill", "w") as file:
                file.write("1")
            return "SIGKILL to its control group"
        except OSError:
            continue
    return _sweep(folders[-1], path) if folders else ""


def _sweep(folder: str, path: str) -> str:
    """Reads the group's list and kills, again and again, until it is empty."""
    until = time.monotonic() + SWEEP
    while time.monotonic() < until:
        pids = _listed(folder)
        if not pids:
            break
        for pid in pids:
            _kill(pid, path)
    return "SIGKILL to its control group, one by one"


def _kill(pid: int, path: str) -> None:
    now = start_of(pid)
    held = grip(pid, now[0]) if now else None
    if held is None:
        return
    process = read(pid)
    if process and process.start == held.start and _inside(systemd_path(process.cgroup), path):
        held.send(signal.SIGKILL)
    held.close()


def _inside(path: str, group: str) -> bool:
    return path == group or path.startswith(group + "/")


def members(path: str) -> List[int]:
    """The pids that the kernel lists in the group ``path`` and below."""
    return sorted({pid for mount in MOUNTS for pid in _listed(mount + path)})


def _listed(folder: str) -> List[int]:
    """The members: without zombies, but with what is gone already, which may have left children behind.

    Where all that were listed have died meanwhile, the list is read again: a zombie that stays is listed both times.
    """
    before: Optional[List[int]] = None
    while True:
        found = _read(folder)
        members = [pid for pid in found if (start_of(pid) or (0, "R"))[1] not in "ZX"]
        if members or not found or found == before:
            return members
        before = found


def _read(folder: str) -> List[int]:
    found: List[int] = []
    for place, _, _ in os.walk(folder):
        try:
            with open(place + "/cgroup.procs") as file:
                found += [int(line) for line in file.read().split() if line != "0"]
        except OSError:
            continue
    return found


def group_of(cgroup: str, unit: str) -> str:
    """The path of the unit's own group, from the text of a member's /proc/PID/cgroup."""
    path = systemd_path(cgroup)
    return path.partition("/" + unit)[0] + "/" + unit


def groups_of(unit: str, root: str) -> List[str]:
    """Paths of groups of this name that have members, under the slices of this system (``root``)."""
    found: List[str] = []
    for mount in MOUNTS:
        waiting = [root]
        while waiting:
            path = waiting.pop()
            try:
                names = os.listdir(mount + path)
            except OSError:
                continue
            waiting += [path + "/" + name for name in names if name.endswith(".slice")]
            if unit in names and path + "/" + unit not in found and _listed(mount + path + "/" + unit):
                found.append(path + "/" + unit)
    return found
