"""The agent's server over two pipes, under this Python and under Python 3.9 where it is installed."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployer.protocol.message import VERSION, Hello, Request, decode_event, decode_hello, encode

REPOSITORY = Path(__file__).parents[2]
OPERATIONS = Path(__file__).with_name("serve_operations.py")


def old_python() -> str | None:
    """A Python 3.9 that runs (a version manager's wrapper may not)."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for place in filter(None, [shutil.which("python3.9"), *map(str, kept.glob("3.9.*/bin/python"))]):
        if subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode == 0:
            return place
    return None


PYTHONS = [sys.executable] + ([old_python()] if old_python() else [])


class Agent:
    """A server with the operations of ``serve_operations``."""

    def __init__(self, python: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [python, str(OPERATIONS), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}, bufsize=0)
        self.buffer = b""
        self.hello: Hello = decode_hello(self.line())

    def line(self, timeout: float = 10.0) -> bytes:
        assert self.process.stdout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], timeout)
            assert ready, "no line in time"
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, "the agent ended: " + (self.process.stderr.read().decode() if self.process.stderr else "")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def send(self, op: str, **data: Any) -> None:
        self.raw(encode(Request(op, data)))

    def raw(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)

    def events(self) -> list[Any]:
        """Up to and with the last event of an answer."""
        found = [decode_event(self.line())]
        while not found[-1].last:
            found.append(decode_event(self.line()))
        return found

    def ask(self, op: str, **data: Any) -> list[Any]:
        self.send(op, **data)
        return self.events()

    def close_input(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(params=PYTHONS, ids=lambda path: "3.9" if "3.9" in path else "this")
def agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    made = Agent(request.param)
    yield made
    made.end()


def test_speaks_first_and_answers_in_order(agent: Agent) -> None:
    assert agent.hello.v == VERSION
    assert agent.hello.uid == os.geteuid()
    assert agent.hello.pid == agent.process.pid
    assert agent.hello.hash == ""
    events = agent.ask("count", to=3)
    assert [(event.event, event.seq) for event in events] == [("number", 1), ("number", 2), ("number", 3), ("reply", 4)]
    assert events[-1].data == {"counted": 3}
    assert agent.ask("ping", a=["ü", None])[-1].data["echo"] == {"a": ["ü", None]}
    assert agent.ask("count", to=0)[-1].seq == 1, "each request has a stream of its own"


def test_an_event_numbered_elsewhere_keeps_its_number(agent: Agent) -> None:
    first = agent.ask("numbered")[0]
    assert (first.seq, first.at) == (41, 1.5)


@pytest.mark.parametrize(("line", "code"), [
    (b"not json\n", "bad-request"),
    (b"[1, 2]\n", "bad-request"),
    (b'{"op": 5}\n', "bad-request"),
    (b'{"data": {}}\n', "bad-request"),
    (b'\xff\xfe\n', "bad-request"),
    (b'{"op": "ping", "v": 99}\n', "protocol-version"),
    (b'{"op": "no-such"}\n', "unknown-operation"),
    (b'{"op": "missing"}\n', "agent-fault"),
    (b'{"op": "count", "data": {}}\n', "agent-fault"),
    (b'{"op": "unserialisable"}\n', "agent-fault"),
    (b'{"op": "exits"}\n', "agent-fault"),
])
def test_what_cannot_be_answered_is_an_error_and_the_agent_goes_on(agent: Agent, line: bytes, code: str) -> None:
    agent.raw(line)
    assert [(event.event, event.data["code"]) for event in agent.events()] == [("error", code)]
    assert agent.ask("ping")[-1].event == "reply"


def test_a_fault_shows_its_trace_without_secrets(agent: Agent) -> None:
    [event] = agent.ask("fault")
    assert event.data["code"] == "agent-fault"
    assert "KeyError" in event.data["message"]
    assert "serve_operations.py" in event.data["trace"]
    assert "supersecret" not in json.dumps(event.data)


def test_a_refusal_keeps_code_and_figures(agent: Agent) -> None:
    [event] = agent.ask("refuse")
    assert event.data == {"code": "too-late", "message": "it is too late", "since": 5}


def test_stray_output_and_input_are_kept_from_the_protocol(agent: Agent) -> None:
    assert agent.ask("prints")[-1].data == {"read": ""}
    assert agent.ask("ping")[-1].event == "reply"


def test_requests_that_came_before_the_end_of_input_are_answered(agent: Agent) -> None:
    agent.send("count", to=2)
    agent.send("ping")
    agent.close_input()
    assert [event.event for event in agent.events()] == ["number", "number", "reply"]
    assert agent.events()[-1].event == "reply"
    assert agent.process.wait(5) == 0


def test_end_of_input_ends_an_idle_agent(agent: Agent) -> None:
    agent.close_input()
    assert agent.process.wait(5) == 0


def test_end_of_input_ends_a_quiet_operation(agent: Agent, tmp_path: Path) -> None:
    agent.send("quiet", file=str(tmp_path / "mark"))
    agent.line()
    agent.close_input()
    assert agent.process.wait(8) == 0
    assert (tmp_path / "mark").read_text() == "unwound"


def test_a_reader_that_goes_ends_a_stream_without_a_word(agent: Agent, tmp_path: Path) -> None:
    agent.send("forever", file=str(tmp_path / "mark"))
    agent.line()
    assert agent.process.stdout and agent.process.stderr
    agent.process.stdout.close()
    assert agent.process.wait(5) == 0
    assert agent.process.stderr.read() == b""
    assert (tmp_path / "mark").read_text() == "unwound"


def test_a_reader_that_goes_ends_a_quiet_operation_at_once(agent: Agent, tmp_path: Path) -> None:
    agent.send("quiet", file=str(tmp_path / "mark"))
    agent.line()
    assert agent.process.stdout
    agent.process.stdout.close()
    assert agent.process.wait(2) == 0
    assert (tmp_path / "mark").read_text() == "unwound"


@pytest.mark.parametrize("op", ["quiet", "forever"])
def test_stop_ends_the_operation_and_nothing_else(agent: Agent, tmp_path: Path, op: str) -> None:
    agent.send(op, file=str(tmp_path / "mark"))
    agent.line()
    agent.send("stop")
    last = agent.events()[-1]
    assert (last.event, last.data["code"]) == ("error", "stopped")
    assert (tmp_path / "mark").read_text() == "unwound"
    assert agent.ask("ping", n=1)[-1].data["echo"] == {"n": 1}


def test_stop_without_an_operation_is_no_answer(agent: Agent) -> None:
    agent.send("stop")
    assert agent.ask("ping", n=2)[-1].data["echo"] == {"n": 2}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_the_operation_and_ends_the_agent(agent: Agent, tmp_path: Path, number: int) -> None:
    agent.send("quiet", file=str(tmp_path / "mark"))
    agent.line()
    agent.process.send_signal(number)
    assert agent.process.wait(5) == 0
    assert (tmp_path / "mark").read_text() == "unwound"


def test_a_busy_agent_gives_signs_of_life(tmp_path: Path) -> None:
    agent = Agent(sys.executable, "0.05")
    try:
        agent.send("quiet", file=str(tmp_path / "mark"))
        assert [decode_event(agent.line()).event for _ in range(3)] == ["begun", "beat", "beat"]
    finally:
        agent.end()


def test_it_starts_with_few_imports() -> None:
    """What the hello waits for: no dataclasses, no json, no subprocess."""
    code = (f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import deployer.agent.serve; "
            "print([m for m in ('dataclasses', 'json', 'subprocess', 'inspect') if m in sys.modules])"
            )
    ran = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
