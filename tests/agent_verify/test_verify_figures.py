"""Estimate, movement, memory curve, and what is shown while it goes on."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from deployer.agent.verify import estimate, progress
from deployer.agent.verify.answering import nonsense
from deployer.agent.verify.holders import overlaps
from deployer.agent.verify.memory import POINTS, Curve
from deployer.agent.verify.say import duration
from deployer.agent.verify.view import View
from deployer.protocol.redact import Redactor
from deployer.protocol.verdict import GateState, Observation, Verdict

HISTORY = [{"seconds": 75.0, "phases": {"weights": 30.0, "cuda-graph": 20.0, "warmup": 5.0}},
           {"seconds": 85.0, "phases": {"weights": 40.0, "cuda-graph": 20.0, "warmup": 5.0}}]


def seconds(*arguments: Any) -> float | None:
    found = estimate.left(*arguments)
    return None if found is None else round(found.seconds, 1)


def test_estimate() -> None:
    assert seconds([], 10.0, "weights", 5.0, None) is None
    assert seconds([], 10.0, "weights", 5.0, 25.0) == 15.0
    assert seconds(HISTORY, 10.0, None, 10.0, None) == 70.0
    assert seconds(HISTORY, 20.0, "weights", 5.0, None) == 55.0, "30 s of the phase and 25 s of those after it"
    assert seconds(HISTORY, 20.0, "weights", 5.0, 50.0) == 30.0, "the percentage knows better"
    assert seconds(HISTORY, 200.0, "weights", 90.0, None) == 25.0
    assert seconds(HISTORY, 200.0, "something new", 90.0, 2.0) == 0.0
    assert seconds([{"seconds": None}, {"phases": {}}], 1.0, "weights", 1.0, 1.0) is None


def test_durations() -> None:
    said = [duration(value) for value in (0.4, 75.2, 190, 1200, 7300)]
    assert said == ["0.4 s", "75 s", "3 min 10 s", "20 min", "2 h 1 min"]


@pytest.mark.parametrize(("text", "fault"), [
    ("", True), (" \n ", True), ("!!!!!!", True), ("!!! !!!", True), ("the the the the the the", True),
    ("Paris", False), ("aaa", False), ("no no no", False), ("42", False), ("0", False),
])
def test_nonsense(text: str, fault: bool) -> None:
    assert bool(nonsense(text)) is fault


@pytest.mark.parametrize(("address", "host", "result"), [
    ("127.0.0.1", "127.0.0.1", True), ("0.0.0.0", "127.0.0.1", True), ("127.0.0.1", "0.0.0.0", True),
    ("::", "0.0.0.0", True), ("::", "127.0.0.1", True),
    ("10.0.0.5", "127.0.0.1", False), ("127.0.0.1", "localhost", True), ("::1", "127.0.0.1", False),
    ("::1", "[::1]", True),
])
def test_overlapping_addresses(address: str, host: str, result: bool) -> None:
    assert overlaps(address, host) is result


def moved(*rows: tuple[str, float, dict[str, Any]]) -> progress.Movement:
    movement = progress.begin(0.0)
    for source, at, value in rows:
        movement = progress.move(movement, Observation(source, at, value))
    return movement


def test_what_moves() -> None:
    quiet = {"cpu": 1.0, "io": 0, "pids": [1]}
    assert moved(("progress", 1.0, quiet), ("progress", 9.0, quiet)).at == 1.0, "the processes were new at 1 s"
    assert moved(("progress", 1.0, quiet), ("progress", 9.0, dict(quiet, io=2 << 20))).by == "reading"
    slow = [("progress", float(t), dict(quiet, io=t * 50_000)) for t in range(1, 60)]
    assert moved(*slow).at == 1.0, "what an idle server reads is no movement"
    assert moved(("gpu", 1.0, {"gpus": [{"used": 100}]}), ("gpu", 3.0, {"gpus": [{"used": 900}]})).at == 3.0
    assert moved(("gpu", 1.0, {"gpus": [{"used": 100}]}), ("gpu", 3.0, {"gpus": [{"used": 104}]})).at == 0.0
    assert moved(("gpu", 1.0, {"gpus": []}), ("gpu", 3.0, {"gpus": [{"used": None}]})).at == 0.0
    busy = moved(("progress", 1.0, quiet), ("progress", 9.0, dict(quiet, cpu=8.0)))
    assert (busy.at, busy.cpu_at) == (1.0, 9.0)
    idle = moved(("progress", 1.0, quiet), ("progress", 9.0, dict(quiet, cpu=1.1)))
    assert idle.cpu_at == 0.0


def test_a_curve_stays_small() -> None:
    curve = Curve(100.0)
    for second in range(20_000):
        curve.add(100.0 + second, [second, None])
    points = curve.plain()
    assert len(points) <= POINTS
    assert points[0] == [0.0, 0, None] and points[-1][0] > 19_000
    gaps = {round(float(b[0] or 0) - float(a[0] or 0)) for a, b in itertools.pairwise(points)}
    assert max(gaps) <= 4 * min(gaps), gaps


def test_events_only_on_change_and_redacted() -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    view = View(lambda event, data: told.append((event, data)), Redactor(["canary-1"]))
    for now, text in ((0.0, "a"), (0.5, "b"), (1.2, "b"), (1.3, "b"), (2.5, "canary-1")):
        view.gates([Verdict("log", GateState.WAITING, text)], now)
    view.gates([Verdict("log", GateState.PASSED, "done", {"key": "canary-1"})], 2.6)
    assert [data["text"] for _, data in told] == ["a", "b", "[redacted]", "done"]
    assert "canary-1" not in str(told)
    told.clear()
    for now in (0.0, 0.5, 1.5, 3.0):
        rows = [{"index": 0, "used": 5, "total": 9}]
        view.progress(now, 0.0, {"phase": "weights", "percent": 40}, rows, "line", None, None)
    assert len(told) == 1 and told[0][1]["text"] == "weights 40 %, 0.0 s"
