"""A container of this machine's, seen from outside: whose processes are inside it, and which of them hold GPUs.

Holders are the container's only if both hold: their control group lies in it, and their PID namespace is its own or a
descendant of it (ioctl_ns(2), NS_GET_PARENT).
"""

from __future__ import annotations

import fcntl
import os
import re
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Set, Tuple

from deployer.agent.clean.world import World
from deployer.agent.door import Refusal
from deployer.agent.facts.cgroup import Container, place, root_of, systemd_path
from deployer.agent.facts.process import Process, completed
from deployer.agent.facts.systemd import UnitState
from deployer.protocol import records
from deployer.protocol.codec import from_plain

NS_GET_PARENT = 0xB702


@records.dataclass(frozen=True)
class Inner:
    """What the agent inside told: its units by state, this tool's units, and the pids that it saw holding."""

    units: Dict[str, UnitState]
    ours: FrozenSet[str]
    seen: FrozenSet[int]


def inner_of(data: Mapping[str, Any]) -> Inner:
    """From a request. Raises DecodeError."""
    units = {str(name): from_plain(UnitState, value) for name, value in dict(data.get("units") or {}).items()}
    return Inner(units, frozenset(map(str, data.get("ours") or ())), frozenset(map(int, data.get("seen") or ())))


def container_world(processes: Mapping[int, Process], name: str, inner: Inner, root: str) -> World:
    """The container's system as a world of its own, with the processes that are provably inside it alone.

    Raises Refusal where no such container runs here. Processes that the agent inside has seen are its own to judge:
    they are left in, since others may descend from them, and filtered by the caller.
    """
    inside = {pid: completed(process) for pid, process in processes.items()
              if _is_in(place(process.cgroup, root).container, name)}
    spaces = _spaces(inside.values())
    if not spaces:
        raise Refusal("no-such-container", "no running container {!r} on this machine".format(name),
                      found=sorted(_known(processes, root)))
    members = {pid: process for pid, process in inside.items() if _within(pid, process.pidns, spaces)}
    init = min((process for process in members.values() if process.pidns in spaces and process.ns_pids[-1:] == (1,)),
               key=lambda process: process.start)
    return World(
        processes=members, units=inner.units, ours=inner.ours, root=root_of(init.cgroup) or systemd_path(init.cgroup),
        init=init.pid, contained=True,
    )


def _is_in(container: Optional[Container], name: str) -> bool:
    if container is None:
        return False
    short = re.fullmatch(r"[0-9a-f]{12,64}", name) is not None
    return container.id == name or (short and container.id.startswith(name))


def _spaces(processes: Iterable[Process]) -> FrozenSet[int]:
    """PID namespaces one level below this one whose init lies in the container's control group: the container's own."""
    return frozenset(process.pidns for process in processes
                     if process.pidns and len(process.ns_pids) == _depth() + 1 and process.ns_pids[-1] == 1)


def _depth() -> int:
    """How many PID namespaces deep this process is, counted as its own /proc tells."""
    me = completed(Process(os.getpid(), 0, 0, "R", ""))
    return len(me.ns_pids)


def _within(pid: int, pidns: int, spaces: FrozenSet[int]) -> bool:
    return pidns in spaces or bool(set(_lineage(pid)) & spaces)


def _lineage(pid: int) -> List[int]:
    """Inodes of the PID namespaces above a process's own, as far as they may be seen from here."""
    found: List[int] = []
    handles: List[int] = []
    try:
        handles.append(os.open("/proc/{}/ns/pid".format(pid), os.O_RDONLY | os.O_CLOEXEC))
        while len(handles) < 33:                   # the kernel nests 32 at most
            handles.append(fcntl.ioctl(handles[-1], NS_GET_PARENT))
            found.append(os.fstat(handles[-1]).st_ino)
    except OSError:
        pass                                       # EPERM: the next one is outside of what we may see
    finally:
        for handle in handles:
            os.close(handle)
    return found


def _known(processes: Mapping[int, Process], root: str) -> Set[str]:
    containers = {place(process.cgroup, root).container for process in processes.values()}
    return {str(container) for container in containers if container}


def pids_inside(holders: Iterable[Any]) -> Tuple[int, ...]:
    """The pids of holders as numbered inside their own PID namespace."""
    return tuple(holder.ns_pids[-1] for holder in holders if holder.ns_pids)
