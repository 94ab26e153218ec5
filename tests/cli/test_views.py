"""How a rollout is shown: JSON lines, plain lines, the board behind the live view."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from deployer.cli.board import Board
from deployer.cli.live import LiveView
from deployer.cli.views import JsonView, PlainView
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


@pytest.mark.parametrize(("width", "height", "hosts", "expected"), [
    (110, 40, 1, "GPU  0"), (40, 20, 1, "GPU  0"), (110, 40, 2, "gpu1"), (80, 12, 4, "log"),
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
