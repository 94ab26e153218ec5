"""Observations of a start and what the gates make of them. Gates are pure folds: observations in, verdict out."""

from __future__ import annotations

import enum
from typing import Any, Dict

from deployer.protocol import records


@records.dataclass(frozen=True)
class Observation:
    """One thing seen at ``at`` (monotonic seconds).

    ``source`` is unit, log, socket, health, info, gpu, progress or answer.
    """

    source: str
    at: float
    value: Any


class GateState(enum.Enum):
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@records.dataclass(frozen=True)
class Verdict:
    """What one gate says now. ``text`` is for people: what it waits for, or why it failed. ``figures`` are for JSON."""

    gate: str
    state: GateState
    text: str = ""
    figures: Dict[str, Any] = records.field(default_factory=dict)
