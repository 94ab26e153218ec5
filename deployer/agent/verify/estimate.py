"""How long a start will take yet: from earlier starts of the unit on this host, and from percentages. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from deployer.agent.log.median import median
from deployer.agent.verify.say import duration
from deployer.protocol import records

PHASES = ("init", "distributed", "weights", "kv-cache", "cuda-graph", "warmup")
"""In the order in which SGLang goes through them; the reader's own names."""


@records.dataclass(frozen=True)
class Estimate:
    """Seconds left; ``basis`` is "earlier starts" or "progress of this phase" (then of the phase alone)."""

    seconds: float
    basis: str

    @property
    def text(self) -> str:
        if self.basis == "progress of this phase":
            return "about {} for this phase".format(duration(self.seconds))
        return "about {} left".format(duration(self.seconds)) if self.seconds >= 1 else "should be ready by now"


def left(history: Sequence[Mapping[str, Any]], elapsed: float, phase: Optional[str], in_phase: float,
         percent: Optional[float]) -> Optional[Estimate]:
    """``elapsed`` and ``in_phase`` are seconds since the start and since the phase began; None: nothing to go by."""
    own = _by_percent(in_phase, percent)
    totals = _known(history, lambda figures: figures.get("seconds"))
    if not totals:
        return Estimate(own, "progress of this phase") if own is not None else None
    if phase not in PHASES:
        return Estimate(max(0.0, median(totals) - elapsed), "earlier starts")
    here, later = _phase(history, phase), 0.0
    if here is None:
        return Estimate(max(0.0, median(totals) - elapsed), "earlier starts")
    for name in PHASES[PHASES.index(phase) + 1:]:
        later += _phase(history, name) or 0.0
    rest = max(0.0, here - in_phase) if own is None else own
    return Estimate(rest + later, "earlier starts")


def _by_percent(in_phase: float, percent: Optional[float]) -> Optional[float]:
    """The first percents say little: below 5 % nothing is said."""
    if percent is None or percent < 5 or in_phase <= 0:
        return None
    return in_phase * (100.0 - min(percent, 100.0)) / percent


def _phase(history: Sequence[Mapping[str, Any]], name: str) -> Optional[float]:
    known = _known(history, lambda figures: (figures.get("phases") or {}).get(name))
    return median(known) if known else None


def _known(history: Sequence[Mapping[str, Any]], pick: Any) -> List[float]:
    """The figures of the last five starts that have one."""
    values = [pick(figures) for figures in history]
    return [float(value) for value in values if isinstance(value, (int, float)) and value > 0][-5:]
