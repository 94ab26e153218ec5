"""The states of many units in one question to systemd."""

from __future__ import annotations

from typing import Dict, Iterable, Union

from deployer.agent.door import run
from deployer.protocol import records
from deployer.protocol.codec import Unknown

_LIVE = ("active", "activating", "reloading", "deactivating", "refreshing", "maintenance")


@records.dataclass(frozen=True)
class UnitState:
    """Properties as ``systemctl show`` names them. A unit that systemd does not know is inactive."""

    active: str = "inactive"
    sub: str = "dead"
    load: str = "not-found"
    invocation: str = ""
    main_pid: int = 0
    restart: str = "no"
    begun: float = 0.0             # CLOCK_MONOTONIC seconds at which it last left the inactive state; 0: not known

    @property
    def live(self) -> bool:
        """Whether what is in its control group belongs to something that runs."""
        return self.active in _LIVE

    @property
    def restarting(self) -> bool:
        """Between two tries of its own: ending a process helps nothing, the unit has to be stopped."""
        return self.sub in ("auto-restart", "auto-restart-queued")


States = Union[Dict[str, UnitState], Unknown]
_PROPERTIES = {
    "ActiveState": "active", "SubState": "sub", "LoadState": "load", "InvocationID": "invocation", "Restart": "restart",
}
_BEGUN = "InactiveExitTimestampMonotonic"


def states(units: Iterable[str], timeout: float = 10.0) -> States:
    """Each unit's state, by the name it was asked by; Unknown where systemd does not answer."""
    names = sorted(set(units))
    if not names:
        return {}
    wanted = ",".join(["Id", "MainPID", _BEGUN, *_PROPERTIES])
    ran = run(["systemctl", "show", "--no-pager", "--property=" + wanted, "--", *names], timeout)
    blocks = [block for block in ran.out.split("\n\n") if block.strip()]
    if not ran.ok or len(blocks) != len(names):
        return Unknown("systemctl show: {}".format(ran.said))
    return {name: _state(block) for name, block in zip(names, blocks)}


def _state(block: str) -> UnitState:
    values = dict(line.partition("=")[::2] for line in block.splitlines())
    fields = {field: values[name] for name, field in _PROPERTIES.items() if name in values}
    begun = int(values.get(_BEGUN) or 0) / 1e6
    return UnitState(main_pid=int(values.get("MainPID") or 0), begun=begun, **fields)
