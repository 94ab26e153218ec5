"""The gates in their order, and the one that needs time: settle. A fold: observations and the time in, verdicts out."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from deployer.agent.verify import answering, memory, serving, starting
from deployer.agent.verify.say import duration, fails, passes, skips, waits
from deployer.agent.verify.seen import Seen, fold
from deployer.agent.verify.serving import History
from deployer.protocol import records
from deployer.protocol.expectations import Expectations
from deployer.protocol.verdict import GateState, Observation, Verdict

ORDER = ("unit", "log", "port", "health", "declared", "memory", "capacity", "accuracy", "answer", "load", "settle")
AT_ONCE = ("unit", "log", "port", "health", "settle")
"""Gates whose failure ends the wait at once; the others are all judged first, so that one push tells all of them."""
GOOD = (GateState.PASSED, GateState.SKIPPED)


class Gates:
    """``begun``: when the watch began. ``history``: figures of earlier releases, oldest first."""

    def __init__(self, expected: Expectations, begun: float, *, history: History = (), marked: bool = True,
                 old_invocation: str = "", old_restarts: int = 0) -> None:
        self.expected = expected
        self.history = history
        self.seen = Seen(begun, marked, old_invocation, old_restarts)
        self._good_since: Optional[float] = None
        self._asked_since: Optional[float] = None

    def see(self, observation: Observation) -> None:
        self.seen = fold(self.seen, observation)

    def judge(self, now: float) -> Tuple[Verdict, ...]:
        """All gates in order, as they stand at ``now``."""
        seen, expected = self.seen, self.expected
        verdicts: List[Verdict] = [
            starting.unit(seen, expected, now), starting.log(seen, expected, now), starting.port(seen, expected, now),
            starting.health(seen, expected, now), serving.declared(seen, expected, now),
            memory.memory(seen, expected, now), serving.capacity(seen, expected, self.history),
            serving.accuracy(seen, expected), answering.answer(seen, expected),
        ]
        if expected.load is not None:
            verdicts.append(answering.load(seen, expected, self.history))
        verdicts.append(self._settle(verdicts, now))
        return tuple(verdicts)

    def _settle(self, before: Sequence[Verdict], now: float) -> Verdict:
        """Everything has been good for ``settle`` seconds without a break, health at the end of it too."""
        expected, seen = self.expected, self.seen
        if not all(verdict.state in GOOD for verdict in before) or seen.misses >= 2:
            self._good_since = None
            return waits("settle", "waits for the other gates")
        if self._good_since is None:
            self._good_since = now
        wanted, good = expected.settle, now - self._good_since
        if wanted <= 0:
            return skips("settle", "no time to settle is declared")
        if good < wanted:
            return waits("settle", "good for {} of {}".format(duration(good), duration(wanted)), since=self._good_since)
        if seen.misses:
            return waits("settle", "waits for a health answer that is missing")
        return passes("settle", "good for {}".format(duration(good)), seconds=round(good, 1))

    @property
    def settling_since(self) -> Optional[float]:
        """When the gates before *settle* became good, unless one of them is not any more."""
        return self._good_since


def passed(verdicts: Sequence[Verdict]) -> bool:
    return all(verdict.state in GOOD for verdict in verdicts)


def failed(verdicts: Sequence[Verdict]) -> bool:
    """Whether the wait is over: a gate of the start failed, or another did and no other one can be judged yet."""
    states = {verdict.gate: verdict.state for verdict in verdicts}
    if any(states.get(gate) is GateState.FAILED for gate in AT_ONCE):
        return True
    judged = ("declared", "memory", "capacity", "accuracy")
    return GateState.FAILED in states.values() and not any(states.get(gate) is GateState.WAITING for gate in judged)


def overdue(verdicts: Sequence[Verdict], why: str) -> Tuple[Verdict, ...]:
    """Gates that still waited when the time was over, as failed."""
    return tuple(
        records.replace(fails(verdict.gate, "{}: {}".format(why, verdict.text)), figures=verdict.figures)
        if verdict.state is GateState.WAITING and verdict.gate != "settle" else verdict
        for verdict in verdicts
    )
