"""What a rollout tells while it runs, and what it comes to."""

from __future__ import annotations

from typing import Any, Protocol

from deployer.protocol.finding import Finding
from deployer.protocol.outcome import Outcome
from deployer.protocol.records import dataclass, field


class View(Protocol):
    """Whoever watches: a terminal, plain lines, or JSON. Called from several threads, one a host."""

    def tell(self, host: str, event: str, data: dict[str, Any]) -> None:
        """``event``: connect, finding, plan, step, gate, progress, log, rollback, recovery, hook, reconnect,
        turn, result.
        """
        ...


@dataclass(frozen=True)
class Report:
    """How it ended on one host for one unit: what happened, the state now, the next command."""

    host: str
    unit: str
    outcome: Outcome
    text: str = ""
    state_now: str = ""
    next: str = ""
    findings: tuple[Finding, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """The data of the last ``result`` event."""
        return {
            **self.data, "host": self.host, "unit": self.unit, "outcome": self.outcome.value, "text": self.text,
            "state_now": self.state_now, "next": self.next,
        }
