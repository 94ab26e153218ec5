"""Where a watch's observations come from: a host, or in tests a timeline."""

from __future__ import annotations

from typing import Any, Dict, List, Protocol, Set

from deployer.protocol.verdict import Observation


class Sources(Protocol):
    """Where observations come from. Times are of ``now()``'s clock, monotonic seconds."""

    def now(self) -> float: ...

    def wait(self, until: float) -> List[Observation]:
        """Returns as soon as there is something, at ``until`` with nothing."""
        ...

    def want(self, wants: Set[str]) -> None:
        """What the gates wait for that is only asked then: "answer", "load", "log", "settle"."""
        ...

    def waiting(self) -> List[Dict[str, Any]]:
        """What the unit's processes wait in, as ``process.waiting`` tells it."""
        ...

    def log_is_read(self) -> None:
        """The start of a server that runs already has been read: from now on only what is new is of interest."""
        ...

    def close(self) -> None: ...
