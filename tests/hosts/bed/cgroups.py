"""A control group tree of its own for each host, in every hierarchy that systemd looks into.

Hosts that share one disturb each other: units of the same name on two of them are one control group then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")


def hierarchies() -> list[Path]:
    """Where groups are made: the unified hierarchy, systemd's named one, or both (hybrid)."""
    return [Path(mount) for mount in MOUNTS if (Path(mount) / "cgroup.procs").exists()]


def make(path: str) -> list[Path]:
    """Makes the group ``path`` in each hierarchy; returns the files that a process enters it by."""
    entries = []
    for hierarchy in hierarchies():
        group = hierarchy / path
        group.mkdir(parents=True, exist_ok=True)
        entries.append(group / "cgroup.procs")
    return entries


def members(path: str) -> list[int]:
    """The processes in ``path`` and below it."""
    found: set[int] = set()
    for mount in MOUNTS:
        # os.walk: a group may go while it is looked into, when systemd removes it.
        for folder, _, _ in os.walk(f"{mount}/{path}"):
            try:
                with open(folder + "/cgroup.procs") as file:
                    found.update(map(int, file.read().split()))
            except OSError:
                continue
    found.discard(0)
    return sorted(found)


def numbers(pid: int) -> list[int]:
    """A process's numbers, from the outermost PID namespace to its own; none: it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return next([int(word) for word in line.split()[1:]] for line in lines if line.startswith("NSpid:"))


def number_outside(path: str, inside: int) -> int:
    """The number here of the process that is ``inside`` in its own PID namespace, in ``path``. Raises LookupError."""
    for pid in members(path):
        if numbers(pid)[-1:] == [inside]:
            return pid
    raise LookupError(f"no process {inside} in {path}")


def remove(path: str) -> None:
    """Removes the emptied group and those below it."""
    for group in sorted(_groups(path), reverse=True):
        group.rmdir()


def _groups(path: str) -> Iterator[Path]:
    for hierarchy in hierarchies():
        top = hierarchy / path
        if top.is_dir():
            yield from (Path(folder) for folder, _, _ in os.walk(top))
