"""The watch over a start, or over what runs: feeds the gates until they have all passed or one never will.

It ends at once on a final state, has one deadline, and takes its clock from its sources: no test waits for real time.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from deployer.agent.door import Emit
from deployer.agent.log.explanation import Explanation
from deployer.agent.verify import estimate, progress
from deployer.agent.verify.feed import Sources
from deployer.agent.verify.gates import GOOD, Gates, failed, overdue, passed
from deployer.agent.verify.logfold import LogFold, shown_line
from deployer.agent.verify.mark import StartMark
from deployer.agent.verify.memory import Curve, chosen
from deployer.agent.verify.say import duration
from deployer.agent.verify.serving import tokens
from deployer.agent.verify.sources import HostSources
from deployer.agent.verify.view import View
from deployer.protocol import records
from deployer.protocol.expectations import Expectations
from deployer.protocol.redact import Redactor
from deployer.protocol.verdict import GateState, Observation, Verdict

TICK = 1.0
LAST_WORDS = 0.8
QUIET = 0.3
"""Seconds that a failed start's last log lines are waited for: at most, and after the last one that came."""


@records.dataclass(frozen=True)
class Verification:
    """``figures`` are kept with the release. ``explanation``: of the start's log, with the cause where it failed."""

    passed: bool
    verdicts: Tuple[Verdict, ...]
    explanation: Optional[Explanation]
    figures: Dict[str, Any]
    aborted: bool = False


def watch(
    unit: str, expectations: Expectations, mark: Optional[StartMark], emit: Emit, *,
    secrets: Optional[Mapping[str, str]] = None, redactor: Optional[Redactor] = None,
    aborted: Callable[[], bool] = lambda: False, history: Sequence[Mapping[str, Any]] = (),
    sources: Optional[Sources] = None,
) -> Verification:
    """Judges ``unit`` by ``expectations``; ``mark`` is that of the start to watch, None: what runs already.

    ``history``: figures of earlier releases that served, oldest first. ``sources``: where observations come from, this
    host by default. Emits ``gate`` and ``progress`` events; changes nothing.
    """
    known = dict(secrets or {})
    own = sources or HostSources(unit, expectations, mark, known)
    try:
        return _Watch(unit, expectations, mark, own, emit, redactor or Redactor(known.values()), history).run(aborted)
    finally:
        own.close()


class _Watch:
    def __init__(self, unit: str, expected: Expectations, mark: Optional[StartMark], sources: Sources, emit: Emit,
                 redactor: Redactor, history: Sequence[Mapping[str, Any]]) -> None:
        self.expected, self.sources, self.redactor, self.history = expected, sources, redactor, history
        self.marked = mark is not None
        self.begun = sources.now()
        old = mark.invocation if mark else ""
        self.gates = Gates(expected, self.begun, history=history, marked=self.marked, old_invocation=old,
                           old_restarts=mark.restarts if mark else 0)
        self.log = LogFold(self.marked, old, unit)
        self.movement = progress.begin(self.begun)
        self.curve = Curve(self.begun)
        self.view = View(emit, redactor)
        self.phase: Tuple[Optional[str], float] = (None, self.begun)
        self.healthy_after: Optional[float] = None
        self.last_line_at = self.begun

    def run(self, aborted: Callable[[], bool]) -> Verification:
        while True:
            now = self.sources.now()
            verdicts = self.gates.judge(now)
            self._tell(verdicts, now)
            if passed(verdicts):
                return self._end(True, verdicts)
            if failed(verdicts):
                return self._end(False, self._last_words())
            if aborted():
                return self._end(False, verdicts, aborted=True)
            over = self._over(verdicts, now)
            if over:
                return self._end(False, over)
            self.sources.want(self._wants(verdicts))
            self._take(self.sources.wait(self._next(now)))

    def _next(self, now: float) -> float:
        """When to look again though nothing comes: in a second, at the deadline, when the settling is over."""
        times = [now + TICK, max(now, self.begun + self.expected.deadline)]
        if self.gates.settling_since is not None:
            times.append(max(now, self.gates.settling_since + self.expected.settle))
        return min(times)

    def _take(self, observations: Sequence[Observation]) -> None:
        for observation in observations:
            if observation.source == "lines":
                self.last_line_at = observation.at
                observation = Observation("log", observation.at, self._read(observation.value))
            elif observation.source == "unit":
                self._start_known(observation)
            elif observation.source == "gpu":
                self._sample(observation)
            self.gates.see(observation)
            self.movement = progress.move(self.movement, observation)

    def _start_known(self, observation: Observation) -> None:
        """The unit's new invocation is known: lines that were held until then are read."""
        if self.log.start_is(str(observation.value.get("invocation", ""))):
            self.gates.see(Observation("log", observation.at, self._read([], observation.value)))

    def _read(self, entries: Sequence[Any], unit: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        value = self.log.feed(entries)
        state = unit or self.gates.seen.unit or {}
        value["elsewhere"] = bool(state.get("elsewhere"))
        if value.get("ready") or value.get("given_up"):
            self.sources.log_is_read()
        return value

    def _sample(self, observation: Observation) -> None:
        rows, _ = chosen(observation.value, self.expected)
        if rows:
            self.curve.add(observation.at, [row.get("used") for row in rows])

    def _wants(self, verdicts: Sequence[Verdict]) -> Set[str]:
        states = {verdict.gate: verdict.state for verdict in verdicts}
        ready = all(states[gate] in GOOD for gate in ("unit", "log", "port", "health"))
        wants = {"settle"} if self.gates.settling_since is not None else set()
        if (states["log"] is GateState.WAITING and self.gates.seen.answered_at is not None
                and self.expected.health.means_ready):
            wants.add("log")
        if ready and states.get("answer") is GateState.WAITING:
            wants.add("answer")
        elif ready and states.get("load") is GateState.WAITING:
            wants.add("load")
        return wants

    def _over(self, verdicts: Sequence[Verdict], now: float) -> Optional[Tuple[Verdict, ...]]:
        """The verdicts of a wait that has no sense any more: the time is over, or nothing moves."""
        expected = self.expected
        if now - self.begun >= expected.deadline:
            return overdue(verdicts, "not within {}".format(duration(expected.deadline)))
        if self.gates.seen.answered_at is None and progress.stuck(self.movement, now, expected.stall):
            quiet, silent = progress.idle(self.movement, now)
            why = "stuck: nothing has moved for {}".format(duration(silent))
            if silent < expected.stall:
                why = "stuck: nothing but CPU time has moved for {}".format(duration(quiet))
            where = progress.waiting_in(self.sources.waiting())
            why += ", last was {}".format(self.movement.by)
            return overdue(verdicts, "{}; {}".format(why, where) if where else why)
        return None

    def _last_words(self) -> Tuple[Verdict, ...]:
        """A start that failed: its last lines and systemd's verdict come within a moment, and hold the cause."""
        until = self.sources.now() + LAST_WORDS
        self.sources.want({"log"})
        self.last_line_at = self.sources.now()
        while self.sources.now() < min(until, self.last_line_at + QUIET):
            self._take(self.sources.wait(min(until, self.last_line_at + QUIET)))
        now = self.sources.now()
        verdicts = self.gates.judge(now)
        self._tell(verdicts, now)
        return verdicts

    def _tell(self, verdicts: Sequence[Verdict], now: float) -> None:
        if self.healthy_after is None and any(v.gate == "health" and v.state is GateState.PASSED for v in verdicts):
            self.healthy_after = now - self.begun
        log = dict(self.gates.seen.log or {})
        if log.get("phase") != self.phase[0]:
            self.phase = (log.get("phase"), now)
        left = None
        if self.marked and self.healthy_after is None:
            left = estimate.left(self.history, now - self.begun, self.phase[0], now - self.phase[1], log.get("percent"))
        rows, _ = chosen(self.gates.seen.gpu or {}, self.expected)
        line = shown_line(self.log.last_line, self.redactor.text)
        self.view.progress(now, self.begun, log, [dict(row) for row in rows], line, left.text if left else None,
                           left.seconds if left else None)
        self.view.gates(verdicts, now)

    def _end(self, good: bool, verdicts: Sequence[Verdict], aborted: bool = False) -> Verification:
        self.view.gates(verdicts, self.sources.now())
        explanation = self.log.explanation(_unit_state(self.gates.seen.unit))
        clean = [records.replace(verdict, text=self.redactor.text(verdict.text),
                                     figures=self.redactor.plain(verdict.figures)) for verdict in verdicts]
        return Verification(good, tuple(clean), explanation, self.redactor.plain(self._figures(verdicts, explanation)),
                            aborted)

    def _figures(self, verdicts: Sequence[Verdict], explanation: Explanation) -> Dict[str, Any]:
        seen = self.gates.seen
        figures: Dict[str, Any] = {"watched": round(self.sources.now() - self.begun, 2)}
        if self.marked and self.healthy_after is not None:
            figures["seconds"] = round(self.healthy_after, 2)
        phases = {phase.name: phase.seconds for phase in explanation.phases if phase.seconds is not None}
        if phases:
            figures["phases"] = phases
        by_gate = {verdict.gate: verdict.figures for verdict in verdicts}
        logged, told = tokens(seen)
        pairs: List[Tuple[str, Any]] = [
            ("max_total_num_tokens", told if told is not None else logged),
            ("kv_cache_dtype", by_gate["accuracy"].get("kv_cache_dtype")),
            ("resolved", by_gate["declared"].get("resolved")), ("differences", by_gate["declared"].get("differences")),
            ("gpus", by_gate["memory"].get("gpus")), ("memory_curve", self.curve.plain()),
            ("answer_seconds", by_gate["answer"].get("seconds")), ("load", by_gate.get("load")),
        ]
        figures.update({name: value for name, value in pairs if value})
        return figures


def _unit_state(state: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """Systemd's properties by its own names and as numbers where they are, as the log reader takes them."""
    if state is None:
        return None
    def number(key: str) -> int:
        text = str(state.get(key) or "0")
        return int(text) if text.isdigit() else 0
    return {
        "Result": state.get("result", ""), "ActiveState": state.get("active", ""), "SubState": state.get("sub", ""),
        "ExecMainCode": number("exit_code"), "ExecMainStatus": number("exit_status"), "NRestarts": number("restarts"),
        "LoadState": state.get("load", ""),
    }
