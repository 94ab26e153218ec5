"""What is known when it is decided whose a process is. Plain values: ``identity`` needs nothing else."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterator, Mapping, Optional

from deployer.agent.facts.cgroup import Place, place, systemd_path
from deployer.agent.facts.process import Process
from deployer.agent.facts.systemd import States, UnitState
from deployer.protocol import records
from deployer.protocol.codec import Unknown

LIVE = UnitState(active="active", sub="unknown")
"""A unit whose state could not be asked counts as live: nothing of it is ended by guess."""


@records.dataclass(frozen=True)
class World:
    """One system: this host, or a container seen from its hypervisor.

    ``init`` is the pid of the system's PID 1 as seen from here, ``root`` the control group under which its units lie.
    ``ours`` are the units that this tool keeps here. ``pidns`` is the system's PID namespace (0: not known).
    ``contained``: all processes are known to be inside it, so that one outside ``root`` was attached to it.
    """

    processes: Mapping[int, Process]
    units: States
    ours: FrozenSet[str] = frozenset()
    root: str = ""
    init: int = 1
    pidns: int = 0
    contained: bool = False
    _places: Dict[str, Place] = records.field(default_factory=dict, compare=False, repr=False)

    def place(self, process: Process) -> Place:
        """Where its control group says that it belongs."""
        if process.cgroup not in self._places:
            path = systemd_path(process.cgroup)
            outside = self.contained and path != self.root and not path.startswith(self.root + "/")
            self._places[process.cgroup] = Place("/") if outside else place(process.cgroup, self.root)
        return self._places[process.cgroup]

    def state(self, unit: str) -> UnitState:
        """The unit's state; live where systemd did not say."""
        if isinstance(self.units, Unknown):
            return LIVE
        return self.units.get(unit, UnitState())

    def parent(self, process: Process) -> Optional[Process]:
        """The process's parent; None at PID 1, and where the parent is outside this PID namespace."""
        return self.processes.get(process.ppid)

    def ancestors(self, process: Process) -> Iterator[Process]:
        """Parents, nearest first, up to and without the system's PID 1."""
        seen = {process.pid}
        parent = self.parent(process)
        while parent and parent.pid != self.init and parent.pid not in seen:
            seen.add(parent.pid)
            yield parent
            parent = self.parent(parent)

    def adopted(self, process: Process) -> bool:
        """Whether its own parent is the system's PID 1: whoever started it is gone."""
        return process.ppid == self.init
