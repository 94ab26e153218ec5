"""From what one start said, and what systemd says of the unit, to its outcome and one cause."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from deployer.agent.log.attempt import Attempt
from deployer.agent.log.causes import BY_CODE, CAUSES, UNKNOWN
from deployer.agent.log.causes.network import timed_out
from deployer.agent.log.causes.process import advice
from deployer.agent.log.causes.units import STATUSES
from deployer.agent.log.explanation import FAILED, READY, STARTING, STOPPED
from deployer.agent.log.signs import SAID, Seen

GENERIC = "scheduler-exception"
_LATE = ("watchdog-timeout", "warmup-failed")    # what a rank's end brings about


class UnitState(NamedTuple):
    """Of ``systemctl show``: ``code`` 1 exited, 2 killed, 3 dumped (0: runs, or never ran)."""

    active: str = ""
    result: str = ""
    code: int = 0
    status: int = 0
    restarts: Optional[int] = None
    load: str = ""

    @property
    def dead(self) -> bool:
        """The last start has ended, by systemd's word."""
        if self.active in ("failed", "inactive"):
            return True
        return self.active in ("activating", "deactivating", "maintenance") and self.code in (1, 2, 3)

    @property
    def alive(self) -> bool:
        return self.active in ("active", "reloading") or (self.active == "activating" and self.code == 0)

    @property
    def refused(self) -> Optional[str]:
        """The cause where systemd never got as far as the program."""
        if self.code == 1 and self.status in STATUSES and self.dead:
            return STATUSES[self.status]
        return "unit-resources" if self.result == "resources" and self.dead else None


class Verdict(NamedTuple):
    outcome: str
    cause: Optional[str]
    evidence: str
    seen: Optional[Seen] = None


def read_state(values: Optional[Mapping[str, Any]]) -> Optional[UnitState]:
    """From ``systemctl show`` values, numbers or texts; None for none."""
    if not values:
        return None

    def number(name: str) -> Optional[int]:
        try:
            return int(str(values.get(name)))
        except ValueError:
            return None

    return UnitState(
        str(values.get("ActiveState") or ""), str(values.get("Result") or ""), number("ExecMainCode") or 0,
        number("ExecMainStatus") or 0, number("NRestarts"), str(values.get("LoadState") or ""),
    )


def judge(start: Attempt, unit: Optional[UnitState]) -> Verdict:
    """The outcome of ``start``; ``unit`` counts only for the last start of a log."""
    refused = unit.refused if unit else None
    if refused and not start.evidence.seen(refused):
        return Verdict(FAILED, refused, _facts(unit), None)
    if start.start_timeout:
        return Verdict(FAILED, "start-timeout", start.start_timeout)
    if start.unbound:
        return _failed(start, unit)
    if start.stop_asked and not start.fatal_before_stop:
        return Verdict(STOPPED, None, start.stop_line) if start.ready else _stopped_early(start)
    dead = start.ended or start.rebooted or bool(start.control and start.result) or bool(unit and unit.dead)
    if start.evidence.fatal or dead:
        return _ended(start, unit)
    if start.ready:
        return Verdict(READY, None, start.ready_line)
    if not (unit and unit.alive) and start.evidence.raised:
        return _failed(start, unit)
    return Verdict(STARTING, None, _telling(start))


def _ended(start: Attempt, unit: Optional[UnitState]) -> Verdict:
    if start.ready and not start.evidence.fatal:
        good = start.exit is None and not start.result and unit is not None and unit.active == "inactive" and (
            unit.result in ("", "success"))
        clean = start.exit is not None and start.exit.code == "exited" and start.exit.status.startswith("0")
        if (good or clean) and start.result in ("", "success"):
            return Verdict(STOPPED, None, start.exit_line or start.ready_line)
    verdict = _failed(start, unit)
    if verdict.cause in (UNKNOWN, "start-limit-hit") and unit and not start.ready:
        if unit.result == "timeout" and not start.stop_asked:
            return Verdict(FAILED, "start-timeout", _facts(unit))
        if unit.result == "success" and (unit.code, unit.status) == (2, 15) and not start.evidence.fatal:
            return Verdict(FAILED, "sigterm-during-start", _facts(unit))
    return verdict


def _stopped_early(start: Attempt) -> Verdict:
    """Stopped before it was ready: the line in which the main process died of the signal says it best."""
    died = start.exit_line if start.exit and start.exit.status.startswith(("15/", "2/")) else ""
    return Verdict(FAILED, "sigterm-during-start", died or start.stop_line)


def _failed(start: Attempt, unit: Optional[UnitState]) -> Verdict:
    """The root among the causes that left a sign."""
    found: Dict[str, Seen] = {}
    for cause in CAUSES:
        seen = start.evidence.seen(cause.code)
        if seen:
            found[cause.code] = seen
    if unit and unit.result == "oom-kill" and "host-oom-kill" not in found:
        return Verdict(FAILED, "host-oom-kill", (start.result and start.exit_line) or _facts(unit))
    said = [code for code, seen in found.items() if seen.kind == SAID or seen.armed]
    code = next((cause.code for cause in CAUSES if cause.code in (said or found)), "")
    main = found.get(code)
    last = start.evidence.last_exception()
    if main and last and code in _LATE and start.evidence.triggers and start.evidence.triggers[0] < main.index:
        code, main = GENERIC, None
    if not code and start.evidence.parent_gone:
        return _left_alone(start, unit, last)
    if not code:
        code = GENERIC if start.evidence.triggers and last else UNKNOWN
        if code == UNKNOWN and start.limit:
            code = "start-limit-hit"
        elif code == UNKNOWN and start.control and not start.evidence.fatal and not start.evidence.exceptions:
            code = "start-pre-failed"
    explained = _explained(start, code, main, last)
    if explained:
        return Verdict(FAILED, explained.code, explained.text, explained)
    if main:
        return Verdict(FAILED, code, main.text, main)
    if code == "start-limit-hit":
        return Verdict(FAILED, code, start.limit)
    if code == "start-pre-failed":
        return Verdict(FAILED, code, start.control)
    return Verdict(FAILED, code, last or start.evidence.fatal_line or _telling(start))


def _left_alone(start: Attempt, unit: Optional[UnitState], last: str) -> Verdict:
    """A rank that lost its parent (it was stopped while it loaded) can be heard before systemd says of what it died."""
    by_signal = start.exit is not None and start.exit.status.startswith("15/")
    if not start.ready and (by_signal or (unit is not None and (unit.code, unit.status) == (2, 15))):
        return Verdict(FAILED, "sigterm-during-start", start.exit_line if by_signal else _facts(unit))
    return Verdict(FAILED, UNKNOWN, last)


def _explained(start: Attempt, code: str, main: Optional[Seen], last: str) -> Optional[Seen]:
    """The hint that stands behind ``code``, of the most root cause."""
    hints: List[Seen] = []
    for cause in CAUSES:
        hint = start.evidence.hint(cause.code)
        if not hint:
            continue
        waited = timed_out(main.text if main else "") or timed_out(last)
        if cause.code == "deepgemm-slow" and not (start.known.compiling and waited):
            continue
        if (cause.code == code and main and hint.strength > main.strength) or code in cause.explains:
            hints.append(hint)
    return hints[0] if hints else None


def _facts(unit: Optional[UnitState]) -> str:
    if unit is None:
        return ""
    words = {1: "exited", 2: "killed", 3: "dumped"}.get(unit.code, str(unit.code))
    return "systemctl show: ActiveState={}, Result={}, ExecMainCode={} ({}), ExecMainStatus={}".format(
        unit.active, unit.result, unit.code, words, unit.status)


def _telling(start: Attempt) -> str:
    """The last line that tells something; on a start that compiles kernels the one that says so."""
    known = start.known
    if known.compiling:
        return known.compiling_line
    for text in reversed(start.tail):
        bare = text.strip()
        if not bare.startswith(("File \"", "~", "^")) and len(bare) > 3:
            return text
    return start.tail[-1] if start.tail else ""


def remedy(start: Attempt, verdict: Verdict, unit: Optional[UnitState]) -> str:
    """What to do, with the log's own figures; "" where there is nothing to do."""
    if not verdict.cause:
        return ""
    if verdict.cause == UNKNOWN:
        text = advice(verdict.evidence) or "No known cause: read the last lines of the log"
        if (unit and unit.code == 2) or (start.exit and start.exit.code == "killed"):
            text += (
                "; a process that was killed without a word of its own may have met the OOM killer (`journalctl -k`, "
                "`dmesg -T`)"
            )
        return text.rstrip(".") + ", then start once by hand as the unit's user with the same arguments."
    seen = verdict.seen or Seen(verdict.cause, 0, 0, verdict.evidence, SAID, True, None)
    return BY_CODE[verdict.cause].remedy(start.known, seen)
