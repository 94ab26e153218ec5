"""A process that holds GPU memory or an open /dev/nvidia*."""

from __future__ import annotations

import enum
from typing import Dict, Optional, Tuple

from deployer.protocol import records


class HolderClass(enum.Enum):
    """Whose a holder is, as far as it is proven."""

    OWN = "own"                # provably of a unit of this tool; ``Holder.unit`` says which
    ORPHAN = "orphan"          # SGLang that belongs to no live unit, session or container
    FOREIGN = "foreign"        # of a live unit, container or login session (a closing one too), or unproven
    SYSTEM = "system"          # Xorg, persistenced, DCGM, monitoring: never touched
    HIDDEN = "hidden"          # memory in use whose holder cannot be seen from here


@records.dataclass(frozen=True)
class Parent:
    """One ancestor, nearest first."""

    pid: int
    start: int
    command: str


@records.dataclass(frozen=True)
class Holder:
    """One holder with what proves whose it is.

    ``start`` is the start time in clock ticks since boot (/proc/PID/stat field 22): pid and start together are the
    process. ``pidns`` is the inode of its PID namespace. ``memory`` maps GPU UUID to MiB (None: not known).
    ``devices`` are the /dev/nvidia* it has open. ``proof`` says in words why it has its class.
    """

    pid: int
    start: int
    pidns: int
    user: str
    argv: Tuple[str, ...]
    cgroup: str
    unit: Optional[str] = None
    container: Optional[str] = None
    session: Optional[str] = None
    parents: Tuple[Parent, ...] = ()
    memory: Dict[str, Optional[int]] = records.field(default_factory=dict)
    devices: Tuple[str, ...] = ()
    compute: bool = False          # holds GPU memory: nvidia-smi lists it, or it uses CUDA and no list can say
    live: bool = False             # part of something that runs: a unit, container or session
    ns_pids: Tuple[int, ...] = ()  # its pids from the observer's PID namespace inwards
    state: str = ""
    since: Optional[float] = None
    holder_class: HolderClass = HolderClass.FOREIGN
    proof: str = ""
