"""How a rollout is shown: JSON lines, plain lines, the board behind the live view."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from deployer.cli.board import Board
from deployer.cli.live import LiveView
from deployer.cli.views import JsonView, PlainView, summary
from deployer.protocol.outcome import Outcome
from deployer.rollout.view import Report

STORY: list[tuple[str, dict[str, object]]] = [
    ("connect", {"state": "begin"}), ("connect", {"state": "done"}),
    ("plan", {"unit": "q.service", "changes": "--port 1 → 2"}),
    ("step", {"step": "stop", "state": "begin", "text": "waits"}),
    ("step", {"step": "stop", "state": "done", "seconds": 1.25}),
    ("step", {"step": "verify", "state": "begin", "text": ""}),
    ("gate", {"gate": "unit", "state": "passed", "text": "active"}),
    ("gate", {"gate": "log", "state": "waiting", "text": "weights 40 %"}),
    ("progress", {"phase": "weights", "percent": 40, "line": "last line", "text": "weights 40 %, 3 s",
                  "memory": [{"gpu": 0, "used": 40000, "total": 97887}]}),
]
END = Report("gpu1", "q.service", Outcome.ROLLED_BACK, "the push failed in the step verify: port-in-use",
             "release 1 of q.service serves again, verified", "deployer logs gpu1 -u q --release 2",
             data={"explanation": {"evidence": "[Errno 98]", "remedy": "another --port"}})


def test_json_is_one_object_a_line_and_the_last_is_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonView()
    for event, data in STORY:
        view.tell("gpu1", event, data)
    view.finish([END])
    out = capsys.readouterr()
    lines = [json.loads(line) for line in out.out.splitlines()]
    assert [line["event"] for line in lines] == [event for event, _ in STORY] + ["result"]
    assert (lines[-1]["outcome"], lines[-1]["host"], lines[-1]["unit"]) == ("rolled-back", "gpu1", "q.service")
    assert out.err == ""


def test_json_of_several_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    JsonView().finish([END, Report("gpu2", "q.service", Outcome.DONE)])
    last = json.loads(capsys.readouterr().out)
    assert [host["outcome"] for host in last["hosts"]] == ["rolled-back", "done"]


def test_plain_lines_and_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(many=False)
    for event, data in STORY:
        view.tell("gpu1", event, data)
    view.finish([END])
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.splitlines() == [
        "q: --port 1 → 2",
        "stop                   done    1.2 s",
        "  unit       ok     active",
        "gpu1 q: FAILED, ROLLED BACK: the push failed in the step verify: port-in-use",
        "  evidence: [Errno 98]",
        "  remedy:   another --port",
        "  now:      release 1 of q.service serves again, verified",
        "  next:     deployer logs gpu1 -u q --release 2",
    ]


def test_a_wait_that_has_only_begun_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(many=False)
    for seconds in (0.0, 3.2, 12.0):
        view.tell("gpu1", "progress", {"text": f"{seconds} s", "seconds": seconds, "memory": []})
    view.tell("gpu2", "progress", {"text": "waits for the server", "step": "stop"})
    assert capsys.readouterr().err == "  … 12.0 s\n  … waits for the server\n"


def test_several_hosts_have_their_name_in_front(capsys: pytest.CaptureFixture[str]) -> None:
    PlainView(many=True).tell("gpu2", "plan", {"unit": "q.service", "changes": "nothing to change"})
    assert capsys.readouterr().err == "gpu2: q: nothing to change\n"


def test_board_keeps_what_is_waited_for() -> None:
    board = Board("gpu1")
    for event, data in STORY:
        board.take(event, data)
    assert [(row.name, row.state) for row in board.rows] == [("connect", "done"), ("stop", "done"), ("verify", "begin")]
    assert board.gates["log"].text == "weights 40 %"
    assert (board.percent, board.line) == (40, "last line")
    board.take("step", {"step": "verify", "state": "failed", "text": "no", "seconds": 3.0})
    assert board.memory == [] and board.line == ""
    board.close()
    assert not any(row.running for row in [*board.rows, *board.gates.values()])


def test_the_gates_stand_below_the_step_that_they_belong_to() -> None:
    board = Board("gpu1")
    for event, data in [*STORY, ("step", {"step": "verify", "state": "done", "seconds": 3.0}),
                        ("step", {"step": "keep", "state": "done", "seconds": 0.1})]:
        board.take(event, data)
    names = [indent + row.name for indent, row in board.shown(20)]
    assert names == ["connect", "stop", "verify", "  unit", "  log", "keep"]


@pytest.mark.parametrize(("room", "names"), [
    (6, ["connect", "stop", "verify", "  unit", "  log", "  port"]),
    (5, ["connect", "stop", "verify", "  log", "  port"]),
    (4, ["connect", "stop", "verify", "  log"]), (3, ["verify", "  log"]), (1, ["verify", "  log"]),
])
def test_what_has_passed_makes_way(room: int, names: list[str]) -> None:
    board = Board("gpu1")
    for event, data in [*STORY, ("gate", {"gate": "port", "state": "waiting", "text": "waits for port 1"})]:
        board.take(event, data)
    assert [indent + row.name for indent, row in board.shown(room)] == names


def test_a_host_in_one_row() -> None:
    board = Board("gpu1")
    assert board.now() is None
    seen = []
    for event, data in [*STORY, ("step", {"step": "verify", "state": "failed", "text": "no", "seconds": 3.0}),
                        ("step", {"step": "back-stop", "state": "begin"})]:
        board.take(event, data)
        row = board.now()
        assert row is not None
        seen.append((row.name, row.text))
    assert seen[1:] == [
        ("connect", ""), ("connect", ""), ("stop", "waits"), ("stop", ""), ("verify", ""), ("verify", ""),
        ("verify", "log: weights 40 %"), ("verify", "weights 40 %, 3 s"), ("verify", "no"), ("verify", "no")]
    alone = Board("gpu1")
    for event, data in [STORY[0], STORY[1], *STORY[6:8]]:
        alone.take(event, data)
    row = alone.now()
    assert row is not None and (row.name, row.text) == ("log", "weights 40 %")


def test_how_long_it_has_been_is_no_estimate() -> None:
    board = Board("gpu1")
    for data, expected in (({"text": "0.0 s", "seconds": 0.0, "phase": None}, ""),
                           ({"text": "weights, 3.0 s", "seconds": 3.0, "phase": "weights"}, "weights, 3.0 s"),
                           ({"text": "3.0 s, about 4 s left", "seconds": 3.0, "phase": None}, "3.0 s, about 4 s left")):
        board.take("progress", data)
        assert board.estimate == expected


def test_after_a_question_nothing_that_was_said_is_wiped_out() -> None:
    view = LiveView(["gpu1"])
    view._live.stop()
    output = io.StringIO()
    view._console = Console(file=output, width=80, height=24, force_terminal=True, color_system=None)
    view._live = view._moving()
    view._live.start()
    for event, data in STORY:
        view.tell("gpu1", event, data)
    view._live.refresh()
    with view.paused():
        output.seek(0)
        output.truncate()
    begun = output.getvalue()
    assert "gpu1" not in begun and "verify" in begun
    assert "\x1b[1A" not in begun.split("verify")[0], "the cursor goes up over the question"
    view.close()


def test_a_host_that_was_not_begun_is_not_said_to_connect() -> None:
    view = LiveView(["gpu1", "gpu2"])
    view._live.stop()
    view.tell("gpu1", "connect", {"state": "begin"})
    screen = Console(file=io.StringIO(), width=110, height=40, force_terminal=True, color_system=None)
    view._console = screen
    screen.print(view._draw())
    view.close()
    first, last = screen.file.getvalue().split("╭", 1)[0], screen.file.getvalue()  # type: ignore[attr-defined]
    assert first == "" and "waits for its turn" in last and "not begun" in last


def test_a_summary_is_folded_between_words_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    long = Report("gpu1", "q.service", Outcome.ROLLED_BACK, "the push failed in the step verify: " + "some words " * 9,
                  "release 1 serves " * 6, "deployer logs gpu1 -u q --release 2; " * 3,
                  data={"explanation": {"evidence": "word " * 30, "remedy": "other " * 30}})
    summary(long)
    lines = capsys.readouterr().err.splitlines()
    assert max(len(line) for line in lines if "deployer logs" not in line) <= 60
    assert sum("deployer logs" in line for line in lines) == 1, "a command is not folded"
    assert [line for line in lines if line.startswith("            ")]


@pytest.mark.parametrize(("width", "height", "hosts", "expected"), [
    (60, 14, 1, "GPU  0"), (100, 18, 2, "weights 40 %"),
    (110, 40, 1, "GPU  0"), (40, 20, 1, "GPU  0"), (110, 40, 2, "gpu1"), (80, 12, 4, "weights 40 %"),
])
def test_the_live_picture_fits_the_terminal(width: int, height: int, hosts: int, expected: str) -> None:
    names = [f"gpu{number}" for number in range(1, hosts + 1)]
    view = LiveView(names)
    view._live.stop()
    for name in names:
        for event, data in STORY:
            view.tell(name, event, data)
    screen = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    view._console = screen
    screen.print(view._draw())
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert any(expected in line for line in lines)
    assert max(len(line) for line in lines) <= width
    assert len(lines) <= height
