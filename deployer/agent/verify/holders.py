"""Who holds the port and the GPUs, as values of ``socket`` and ``gpu`` observations."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Sequence

from deployer.agent.facts import process as processes
from deployer.agent.facts.gpu import read_gpus
from deployer.agent.facts.sockets import listening
from deployer.agent.verify.process import device_nodes
from deployer.protocol.facts import Socket

GPU_TIMEOUT = 10.0
_ANY = ("0.0.0.0", "::", "*", "")


def of_port(port: int, host: str, pids: Sequence[int], unit: str) -> List[Dict[str, Any]]:
    """The listening sockets of ``port``: whose, and whether they stand in the way of ``host``.

    The unit's own processes are looked at first, which is cheap; all of the machine's only where one is not theirs.
    """
    own = set(pids)
    found = {pid: process for pid in pids for process in [processes.read(pid)] if process is not None}
    rows = [row for row in listening(found) if row.port == port]
    if any(row.pid is None for row in rows):
        rows = [row for row in listening() if row.port == port]
    return [_row(row, row.pid in own or row.unit == unit, host) for row in rows]


def _row(row: Socket, own: bool, host: str) -> Dict[str, Any]:
    return {
        "address": row.address, "port": row.port, "pid": row.pid, "unit": row.unit, "command": row.command, "own": own,
        "foreign": not own and row.pid is not None and overlaps(row.address, host),
    }


def overlaps(address: str, host: str) -> bool:
    """Whether a socket at ``address`` takes what a server on ``host`` would bind: the same, or one of them is any."""
    host = {"localhost": "127.0.0.1"}.get(host, host).strip("[]")
    if address in _ANY or host in _ANY:
        return ":" not in address or ":" not in host or address in _ANY or host in _ANY
    return address == host


def of_gpus(processes_now: Callable[[], Sequence[int]], max_age: float = 0.0) -> Dict[str, Any]:
    """One reading of nvidia-smi, with the unit's processes of before and after it: they may begin or end meanwhile.

    ``max_age`` in seconds: a reading as old as that will do, for what has been running all along.
    Who has which device open is looked at only where none of them is listed.
    """
    own = set(processes_now())
    reading = read_gpus(GPU_TIMEOUT, max_age)
    own.update(processes_now())
    apps = [{"pid": app.pid, "gpu": app.gpu_uuid, "used": app.used_mib, "name": app.name,
             "unseen": not os.path.exists("/proc/{}".format(app.pid))} for app in reading.processes]
    value: Dict[str, Any] = {
        "gpus": [{"index": gpu.index, "uuid": gpu.uuid, "total": gpu.memory_total_mib, "used": gpu.memory_used_mib,
                  "free": gpu.memory_free_mib} for gpu in reading.gpus],
        "apps": apps, "errors": sorted({error.code for error in reading.errors}), "pids": sorted(own),
    }
    if not any(app["pid"] in own for app in apps):
        value["open"] = device_nodes(own)
    return value
