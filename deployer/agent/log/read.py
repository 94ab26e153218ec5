"""Reads SGLang's start-up logs: line by line for who watches a start, or a whole log at once.

Pure: no clock, no file, no process. Formats of the releases 0.4.0 to 0.5.23, plain or as journalctl gives them.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from deployer.agent.log import systemd
from deployer.agent.log.attempt import SOURCE, Attempt
from deployer.agent.log.causes import BY_CODE, UNKNOWN
from deployer.agent.log.evidence import TELLING
from deployer.agent.log.explanation import FAILED, STARTING, Explanation, Note, PhaseTime
from deployer.agent.log.figures import capacity_of, gaps_of
from deployer.agent.log.findings import compile_advice
from deployer.agent.log.judge import UnitState, Verdict, judge, read_state, remedy
from deployer.agent.log.lines import Line, Splitter
from deployer.agent.log.phases import WEIGHTS

_OF_ARGPARSE = ("usage: launch_server.py", "usage: sglang serve", "usage: python", "usage: -m sglang")
_KEPT = 64
# Of a journal's object: the unit's name stands in each, so systemd's own lines are told by their writer.
_TELLING_OBJECTS = (*(needle for needle in TELLING if needle != ".service"), '"systemd', '"_PID":"1"', '"_PID": "1"')
_NO_CAUSE = (None, UNKNOWN, "start-limit-hit", "start-pre-failed")


class Now(NamedTuple):
    """The phase under way: ``since`` is the ``at`` of the line that began it, ``percent`` of its progress bar."""

    name: str
    since: Optional[float]
    percent: Optional[int]
    detail: str = ""


class LogReader:
    """Fed with lines as they come; says at any time what is known. Cheap for the lines of a server that serves.

    ``unit``: the unit's name where it is known; lines of systemd about other units are then passed over.
    """

    def __init__(self, unit: str = "") -> None:
        self._splitter = Splitter()
        self._index = 0
        self._named = unit
        self._start = Attempt(unit)
        self._past: List[Dict[str, Any]] = []
        self._before: Optional[Attempt] = None
        self._restart_due = False
        self._skipped: Deque[str] = deque(maxlen=6)
        self._well = False
        self._secrets: Set[str] = set()
        self._since: Optional[float] = None
        self._phase = ""

    def feed(self, raw: str, at: Optional[float] = None) -> None:
        """One line with or without its line break. ``at``: when it came, by any clock of the caller's (seconds)."""
        self._index += 1
        if ("Decode batch" in raw or "Prefill batch" in raw or " HTTP/1." in raw) and self._routine(raw):
            self._start.served += 1
            self._skipped.append(raw)
            return
        if self._well and not self._telling(raw):
            self._skipped.append(raw)
            return
        if raw.startswith(SOURCE) and not self._splitter.indented and "\r" not in raw and "%" not in raw:
            self._start.source(raw.rstrip("\n"))
            return
        self._recall()
        for line in self._splitter.split(raw):
            self._line(line)
        start = self._start
        self._well = bool(start.ready_line) and not (start.evidence.fatal or start.stop_asked or start.ended)
        phase = self._start.known.timeline.current
        if phase != self._phase:
            self._phase, self._since = phase, at

    def _routine(self, raw: str) -> bool:
        """A line of a batch or of the access log, which never says how a start goes."""
        if not ("atch, #" in raw or "atch. #" in raw or "atch [" in raw or " HTTP/1." in raw):
            return False
        return not ("\r" in raw or "Traceback" in raw or "rror: " in raw or "%|" in raw)

    def _telling(self, raw: str) -> bool:
        """Whether a line can mean anything to a server that is ready and well."""
        if raw[:1] != "{":
            return any(needle in raw for needle in TELLING)
        if ('"MESSAGE":"' not in raw and '"MESSAGE": "' not in raw) or self._start.invocation not in raw:
            return True
        return any(needle in raw for needle in _TELLING_OBJECTS)

    def _line(self, line: Line) -> None:
        event = systemd.event(line)
        if event and not self._ours(event):
            return
        if self._begins(line, event):
            self._close()
        if line.invocation and not self._start.invocation:
            self._start.invocation = line.invocation
        if line.source == "process" and line.unit.endswith(".service"):
            self._start.unit = self._start.unit or line.unit
        if event and event.kind == systemd.RESTART:
            self._restart_due = True
        self._start.feed(line, self._index, event)

    # -- which lines belong to which start ------------------------------------------------------------------------

    def _ours(self, event: systemd.Event) -> bool:
        if not event.unit or event.kind == systemd.REBOOT:
            return event.kind != systemd.OTHER or bool(event.what)
        known = self._named or self._start.unit
        if known and event.unit != known and (self._named or self._start.ran):
            return False
        if not event.unit.endswith(".service"):
            return False
        if event.kind in (systemd.STARTING, systemd.STARTED, systemd.EXITED, systemd.RESULT) or not known:
            self._start.unit = self._start.unit or event.unit
        return True

    def _begins(self, line: Line, event: Optional[systemd.Event]) -> bool:
        """Whether ``line`` is the first of a new start."""
        start = self._start
        if not start.lines:
            return False
        if line.invocation and start.invocation and line.invocation != start.invocation:
            return True
        if event:
            if event.kind == systemd.STARTING:
                return True
            if event.kind == systemd.STARTED:
                if start.begun_by == systemd.STARTING and not start.ended and not start.started:
                    return False
                return bool(event.unit) or start.ended or start.stop_asked or not start.ran
            return start.rebooted
        if start.rebooted and line.text.strip():
            return True
        body = line.body
        if not start.known.args or line.bar:
            return False
        if "server_args=" in body and line.own and body.startswith("server_args="):
            return True
        return body.startswith(_OF_ARGPARSE) or ("launch_server.py:" in body and "still supported, but" in body)

    def _close(self) -> None:
        """Ends the start under way: another one begins."""
        old = self._start
        self._secrets |= old.known.secrets()
        if old.ran or old.ended or old.control:
            verdict = judge(old, None)
            outcome = FAILED if verdict.outcome == STARTING else verdict.outcome
            cause = verdict.cause or (UNKNOWN if outcome == FAILED else None)
            if self._past and (self._past[-1]["outcome"], self._past[-1]["cause"]) == (outcome, cause):
                self._past[-1]["count"] += 1
            else:
                self._past.append({"outcome": outcome, "cause": cause, "count": 1})
                del self._past[:-_KEPT]
            self._before = old
        self._start = Attempt(self._named or old.unit)
        self._start.by_restart, self._restart_due = self._restart_due, False

    # -- what is known now ----------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """The ready line of this start was seen and its port was not another's."""
        return self._start.ready and not self.fatal

    @property
    def fatal(self) -> bool:
        """A line has come after which this start can only end."""
        start = self._start
        return bool(start.evidence.fatal or start.start_timeout or start.unbound or start.ended or start.limit)

    @property
    def heard(self) -> bool:
        """Whether any line came from SGLang, or from systemd about a unit."""
        start, known = self._start, self._start.known
        batch = any("ecode batch" in line or "refill batch" in line for line in (*self._skipped, *start.tail))
        return bool(
            batch or self._past or start.ran or start.unit or start.begun_by or start.stop_asked or start.ended
            or known.timeline.current or known.shard_bars or (known.bar and "apturing" in known.bar.name)
        )

    @property
    def cause(self) -> Optional[str]:
        """The cause as soon as it is certain: a known one, or any once the main process is gone."""
        if not self.fatal:
            return None
        cause = judge(self._start, None).cause
        settled = cause not in (UNKNOWN, "scheduler-exception") or self._start.ended
        return cause if settled else None

    @property
    def phase(self) -> Now:
        """Where the start stands."""
        timeline, bar = self._start.known.timeline, self._start.known.bar
        return Now(timeline.current, self._since, bar.percent if bar and not self.ready else None, timeline.detail)

    @property
    def capacity(self) -> Dict[str, Any]:
        """Figures so far: tokens, requests, context, GB."""
        return capacity_of(self._start)

    @property
    def secrets(self) -> Tuple[str, ...]:
        """Values of secret arguments that the log shows, for who redacts what it prints."""
        return tuple(sorted(self._secrets | self._start.known.secrets()))

    @property
    def last_lines(self) -> List[str]:
        self._recall()
        return list(self._start.tail)

    def explanation(self, unit_state: Optional[Mapping[str, Any]] = None) -> Explanation:
        """What the lines so far come to, with ``systemctl show`` values of the unit where given."""
        self._recall()
        unit = read_state(unit_state)
        start, shared = self._counted(unit)
        verdict = judge(start, unit if not shared else None)
        if verdict.cause in (UNKNOWN, "start-limit-hit") and not shared:
            verdict = self._shared(start, verdict) or verdict
        return self._explanation(start, verdict, unit)

    def _counted(self, unit: Optional[UnitState]) -> "tuple[Attempt, bool]":
        """The start that counts: the last, or the one before when systemd has only just begun to try again."""
        start, before = self._start, self._before
        only_begun = start.by_restart and not start.process_lines and not start.ended
        if before and before.ended and only_begun and (unit is None or unit.code in (1, 2, 3) or unit.dead):
            return before, True
        return start, False

    def _shared(self, start: Attempt, verdict: Verdict) -> Optional[Verdict]:
        """Identical failed attempts share one diagnosis: that of the one before, when this one's words were lost."""
        before = self._before
        if not before or (start.process_lines > 2 and not start.gaps) or not start.ended:
            return None
        same = before.exit and start.exit and before.exit.status == start.exit.status
        if not (same or (start.limit and not start.exit)):
            return None
        earlier = judge(before, None)
        return earlier if earlier.outcome == FAILED and earlier.cause not in _NO_CAUSE else None

    def _recall(self) -> None:
        """Lines that were passed over become the last lines of the start, before one that was not."""
        if self._skipped:
            splitter = Splitter()
            self._start.tail.extend(line.text for raw in self._skipped for line in splitter.split(raw) if line.text)
            self._skipped.clear()

    def _explanation(self, start: Attempt, verdict: Verdict, unit: Optional[UnitState]) -> Explanation:
        known, line = start.known, start.known.timeline
        refused = unit is not None and unit.refused is not None and unit.refused == verdict.cause
        step = bool(verdict.cause and verdict.cause in BY_CODE and BY_CODE[verdict.cause].rank == 1)
        notes = start.findings.all(known, verdict.outcome == STARTING, verdict.cause)
        text = remedy(start, verdict, unit)
        if verdict.outcome == STARTING and any(note.code == "deepgemm-slow" for note in notes):
            text = compile_advice(known)
        elif verdict.outcome == STARTING and notes:
            text = " ".join(note.advice for note in notes if note.code == "weights-stalled")
        evidence = verdict.evidence
        stalled = next((note.line for note in notes if note.code == "weights-stalled"), "")
        if verdict.outcome == STARTING and stalled and not known.compiling and line.current == WEIGHTS:
            evidence = stalled
        phases = [] if step or refused else line.phases(bound=not start.unbound)
        bar = known.bar
        return Explanation(
            outcome=verdict.outcome, cause=verdict.cause, evidence=evidence.strip()[:4000],
            phases=tuple(PhaseTime(*phase) for phase in phases),
            max_total_num_tokens=None if step else known.max_total_num_tokens,
            kv_cache_dtype=None if step else known.kv_cache_dtype,
            findings=() if step else tuple(note.code for note in notes),
            remedy=text, meaning=BY_CODE[verdict.cause].meaning if verdict.cause in BY_CODE else "",
            notes=() if step else tuple(Note(*note) for note in notes), capacity={} if step else capacity_of(start),
            loads=tuple(line.loads()), graphs=tuple(PhaseTime(*capture) for capture in line.captures()),
            phase=line.current, detail=line.detail,
            percent=bar.percent if bar and verdict.outcome == STARTING else None,
            last_lines=tuple(start.tail), gaps=tuple(gaps_of(start)),
            attempts=tuple(dict(past) for past in self._past), restarts=unit.restarts if unit else None,
                unit=start.unit,
        )


def explain(lines: Iterable[str], unit_state: Optional[Mapping[str, Any]] = None, unit: str = "") -> Explanation:
    """What a whole log comes to. ``unit_state``: values of ``systemctl show`` where there are any."""
    reader = LogReader(unit)
    for line in lines:
        reader.feed(line)
    return reader.explanation(unit_state)
