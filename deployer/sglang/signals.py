"""How a release ends, and what systemd has to be told so that it judges that end rightly.

Facts: up to 0.5.18 SGLang ends itself by ``kill_process_tree`` (SIGKILL of itself) after a clean stop and after a
crash alike; from 0.5.19 a clean stop ends with status 0. Arguments that are not understood end with status 2.
Tried on systemd 252: SuccessExitStatus=SIGKILL with Restart=on-failure alone never restarts a crash.
"""

from __future__ import annotations

from deployer.protocol.records import dataclass
from deployer.sglang.health import before

CLEAN_EXIT_SINCE = "0.5.19"

SCHEDULER_GRACE = 15.0
"""Seconds that each scheduler is given to end after the drain (from 0.5.16 on)."""

REAP_GRACE = 60.0
"""Seconds for which the main process waits for killed children (from 0.5.19 on); pinned memory takes its time."""


@dataclass(frozen=True)
class ExitSemantics:
    """Values of SuccessExitStatus=, RestartForceExitStatus= and RestartPreventExitStatus=; empty: none."""

    success: str = ""
    restart_force: str = ""
    restart_prevent: str = "2"


def exit_semantics(lowest: str, program: str = "sglang") -> ExitSemantics:
    """For the lowest release that the settings allow: what old ones need does no harm to later ones."""
    if program == "router" or (lowest and not before(lowest, CLEAN_EXIT_SINCE)):
        return ExitSemantics()
    return ExitSemantics(success="SIGKILL", restart_force="SIGKILL")


def stop_timeout(drain: float) -> float:
    """Seconds that a stop may take: the drain has no upper bound of its own, then children end and memory is torn
    down."""
    return drain + SCHEDULER_GRACE + REAP_GRACE
