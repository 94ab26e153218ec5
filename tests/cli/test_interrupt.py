"""Ctrl-C while hosts are at work: asked once, then the watching goes on to the result."""

from __future__ import annotations

import signal
import sys
import threading
from traceback import walk_stack

import pytest

from deployer.cli import run_hosts
from deployer.protocol.outcome import Outcome
from deployer.rollout.view import Report, View
from deployer.settings.model import Host


def press_ctrl_c_when(begun: threading.Event) -> None:
    """Once the work has begun, and the main thread waits for it."""
    main = threading.main_thread().ident
    assert main is not None

    def press() -> None:
        begun.wait(10)
        while "start" in (names := [entry.f_code.co_name for entry, _ in walk_stack(sys._current_frames()[main])]) \
                or "wait" not in names:
            pass
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def test_after_the_question_it_watches_to_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    begun, answered = threading.Event(), threading.Event()
    asked = []

    def act(host: Host, view: View) -> list[Report]:
        begun.set()
        assert answered.wait(10)
        return [Report(host.name, "x.service", Outcome.ROLLED_BACK, "rolled back")]

    def interrupted(view: View) -> None:
        asked.append(view)
        answered.set()

    press_ctrl_c_when(begun)
    code = run_hosts.run([Host("h1")], act, as_json=False, interrupted=interrupted)
    assert (code, len(asked)) == (4, 1)
    assert "rolled back" in capsys.readouterr().err


def test_with_nothing_to_ask_it_ends() -> None:
    begun, never = threading.Event(), threading.Event()

    def act(host: Host, view: View) -> list[Report]:
        begun.set()
        never.wait(10)
        return []

    press_ctrl_c_when(begun)
    with pytest.raises(KeyboardInterrupt):
        run_hosts.run([Host("h1")], act, as_json=False)
    never.set()
