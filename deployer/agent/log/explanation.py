"""What the reader makes of a log: the outcome of the last start, and for a failure one cause."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from deployer.protocol.records import dataclass, field

READY, FAILED, STARTING, STOPPED = "ready", "failed", "starting", "stopped"
FOREIGN = "foreign"
"""Of a whole text that was given to be explained: no line of it comes from SGLang or systemd."""


@dataclass(frozen=True)
class PhaseTime:
    """``seconds``: None where the phase began and did not finish, or where the log cannot tell."""

    name: str
    seconds: Optional[float]


@dataclass(frozen=True)
class Note:
    """A finding with the line it was read from ("" where that may hold a secret) and what to do about it."""

    code: str
    line: str
    advice: str


@dataclass(frozen=True)
class Explanation:
    """``outcome``: ready, failed, starting, or stopped (it was ready, then ended in an orderly way).

    ``cause`` is a code of ``causes.BY_CODE`` or "unknown",
        set only on failure; ``evidence`` is the line that proves it,
    or the ready line, or the last telling line. ``remedy`` is text; on a start that goes on what helps against its
    slowness. ``capacity`` are figures of the log (tokens, GB). ``gaps``: where the journal lost lines. ``attempts`` are
    the starts before the last one, oldest first, ``{"outcome", "cause", "count"}``. ``secret`` values are not masked
    here: what shows an explanation passes it through the redactor.
    """

    outcome: str
    cause: Optional[str]
    evidence: str
    phases: Tuple[PhaseTime, ...]
    max_total_num_tokens: Optional[int]
    kv_cache_dtype: Optional[str]
    findings: Tuple[str, ...]
    remedy: str
    sglang_version: Optional[str] = None
    meaning: str = ""
    notes: Tuple[Note, ...] = ()
    capacity: Dict[str, Any] = field(default_factory=dict)
    loads: Tuple[Optional[float], ...] = ()
    graphs: Tuple[PhaseTime, ...] = ()
    phase: str = ""
    detail: str = ""
    percent: Optional[int] = None
    last_lines: Tuple[str, ...] = ()
    gaps: Tuple[str, ...] = ()
    attempts: Tuple[Dict[str, Any], ...] = ()
    restarts: Optional[int] = None
    unit: str = ""
