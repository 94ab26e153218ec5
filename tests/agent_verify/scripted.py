"""Sources that play a timeline: observations come at their time, and the clock is the timeline's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployer.agent.verify.journal import Entry
from deployer.protocol.verdict import Observation

UNIT = {
    "load": "loaded", "active": "active", "sub": "running", "result": "success", "main_pid": 100, "restarts": 0,
    "exit_code": "0", "exit_status": "0", "invocation": "new", "job": False, "condition": "yes", "pids": [100, 101],
    "argv": [], "elsewhere": False,
}


def observation(row: dict[str, Any]) -> Observation:
    """``{"at": 1.5, "health": {...}}``: one source a row. A unit's value is laid over one that runs well."""
    (source, value), = [(key, item) for key, item in row.items() if key not in ("at", "note")]
    if source == "unit":
        value = dict(UNIT, **value)
    if source == "lines":
        value = [entry(item) for item in value]
    return Observation(source, float(row["at"]), value)


def entry(item: Any) -> Entry:
    if isinstance(item, str):
        return Entry(item, "new", 100)
    return Entry(**dict({"text": "", "invocation": "new"}, **item))


class Scripted:
    """``answers``: observations that come only once they are wanted, by name, with the seconds that they take."""

    def __init__(self, timeline: Sequence[dict[str, Any]], answers: Mapping[str, Any], waiting: Sequence[Any]) -> None:
        self.clock = 0.0
        self._timeline = sorted((observation(row) for row in timeline), key=lambda one: one.at)
        self._answers = dict(answers)
        self._waiting = list(waiting)
        self.closed = False
        self.whole = False

    def now(self) -> float:
        return self.clock

    def wait(self, until: float) -> list[Observation]:
        if self._timeline and self._timeline[0].at <= until:
            self.clock = max(self.clock, self._timeline[0].at)
            found = [one for one in self._timeline if one.at <= self.clock]
            self._timeline = self._timeline[len(found):]
            return found
        self.clock = max(self.clock, until)
        return []

    def want(self, wants: set[str]) -> None:
        for name in sorted(wants & set(self._answers)):
            value = self._answers.pop(name)
            self._timeline.append(Observation(name, self.clock + value.get("seconds", 0.0), value))
            self._timeline.sort(key=lambda one: one.at)

    def waiting(self) -> list[dict[str, Any]]:
        return self._waiting

    def log_is_read(self) -> None:
        self.whole = True

    def close(self) -> None:
        self.closed = True


Told = list[tuple[float, str, dict[str, Any]]]
