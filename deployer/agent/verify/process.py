"""What the unit's processes did and wait in, from /proc alone."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Optional, Tuple

_TICKS = os.sysconf("SC_CLK_TCK")


def measure(pids: Iterable[int]) -> Dict[str, Any]:
    """The value of a ``progress`` observation: ``cpu`` in seconds, ``io`` in bytes read, over all of ``pids``.

    Bytes count twice where a read goes to the disk (rchar and read_bytes): a memory-mapped checkpoint shows only in
    read_bytes, a warm one only in rchar. What counts is that they grow.
    """
    cpu, io, alive = 0, 0, []
    for pid in pids:
        stat = _stat(pid)
        if stat is None:
            continue
        alive.append(pid)
        cpu += stat[1]
        io += _read_bytes(pid)
    return {"cpu": cpu / _TICKS, "io": io, "pids": alive}


def _stat(pid: int) -> Optional[Tuple[str, int]]:
    """State and ticks of CPU time, with that of children that were reaped."""
    try:
        with open("/proc/{}/stat".format(pid), "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode("ascii"), sum(int(field) for field in fields[11:15])
    except (OSError, ValueError, IndexError):
        return None


def _read_bytes(pid: int) -> int:
    try:
        with open("/proc/{}/io".format(pid), "rb") as file:
            rows = dict(line.split(b":") for line in file.read().splitlines())
        return int(rows[b"rchar"]) + int(rows[b"read_bytes"])
    except (OSError, ValueError, KeyError):
        return 0


def waiting(pids: Iterable[int]) -> List[Dict[str, Any]]:
    """What each process waits in: ``pid``, ``comm``, ``state`` (one letter) and ``wchan`` ("" where not told)."""
    found = []
    for pid in pids:
        stat = _stat(pid)
        if stat is not None:
            found.append({"pid": pid, "comm": _line(pid, "comm"), "state": stat[0], "wchan": _line(pid, "wchan")})
    return found


def _line(pid: int, name: str) -> str:
    try:
        with open("/proc/{}/{}".format(pid, name), encoding="utf-8", errors="replace") as file:
            text = file.read().strip()
    except OSError:
        return ""
    return "" if text == "0" else text


def device_nodes(pids: Iterable[int]) -> Dict[str, List[str]]:
    """Process id (as text) to the /dev/nvidiaN that it has open."""
    found: Dict[str, List[str]] = {}
    for pid in pids:
        folder = "/proc/{}/fd".format(pid)
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        nodes = set()
        for name in names:
            try:
                target = os.readlink(os.path.join(folder, name))
            except OSError:
                continue
            if target.startswith("/dev/nvidia") and target[11:].isdigit():
                nodes.add(target)
        if nodes:
            found[str(pid)] = sorted(nodes)
    return found
