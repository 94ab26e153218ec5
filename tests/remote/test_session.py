"""A session over two pipes, without SSH: the same agent, started the same way."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.errors import AgentError, OperationError
from deployer.protocol.message import Hello, decode_hello
from deployer.remote import session as sessions
from deployer.remote.ask import Ask
from deployer.remote.bundle import bundle
from deployer.remote.session import Session, open_session
from deployer.remote.stream import PipeStream, StreamEnded
from deployer.settings.model import Host

REPOSITORY = Path(__file__).parents[2]
OPERATIONS = REPOSITORY / "tests" / "agent" / "serve_operations.py"


def started(*words: str) -> Session:
    """A session with a server that has the operations of ``serve_operations``."""
    stream = PipeStream(["env", f"PYTHONPATH={REPOSITORY}", sys.executable, str(OPERATIONS), *words])
    line = b""
    while not line.endswith(b"\n"):
        chunk = stream.read(10)
        assert chunk and chunk.data, "no hello"
        line += b"" if chunk.error else chunk.data
    hello: Hello = decode_hello(line)
    return Session(Host("here"), stream, hello, Ask())


@pytest.fixture
def session() -> Iterator[Session]:
    with started() as made:
        yield made


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def gone(pid: int, within: float = 5.0) -> bool:
    until = time.monotonic() + within
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


def test_this_machine_without_ssh(agent_folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with open_session(Host("local", become="none" if os.geteuid() else "sudo"), Ask()) as made:
            assert made.hello.hash == bundle().hash and made.hello.uid == os.geteuid()
            assert made.call("ping", {"n": 1})["echo"] == {"n": 1}
            again = made.reconnect()
        assert again.call("ping")["echo"] == {}
        again.close()
        assert gone(made.hello.pid) and gone(again.hello.pid)


def test_events_then_the_reply(session: Session) -> None:
    seen: list[int] = []
    assert session.call("count", {"to": 3}, lambda event: seen.append(event.data["n"])) == {"counted": 3}
    assert seen == [0, 1, 2]
    assert [event.event for event in session.request("count", {"to": 1})] == ["number", "reply"]


def test_a_refusal_carries_code_and_figures(session: Session) -> None:
    with pytest.raises(OperationError) as raised:
        session.call("refuse")
    assert (raised.value.code, raised.value.message, raised.value.data) == ("too-late", "it is too late", {"since": 5})
    assert raised.value.host == "here" and raised.value.exit_code == 3
    assert session.call("ping")["echo"] == {}, "the session goes on"


def test_a_fault_of_the_agents_is_told_as_one(session: Session) -> None:
    with pytest.raises(OperationError) as raised:
        session.call("fault")
    assert "the agent failed in fault" in raised.value.message and "serve_operations.py" in raised.value.hint
    assert "supersecret" not in f"{raised.value.message}{raised.value.hint}{raised.value.data}"


def test_a_new_request_ends_an_abandoned_one(session: Session, tmp_path: Path) -> None:
    events = session.request("forever", {"file": str(tmp_path / "mark")})
    assert next(events).event == "tick"
    assert session.call("ping", {"n": 1})["echo"] == {"n": 1}
    assert (tmp_path / "mark").read_text() == "unwound"
    assert list(events) == [], "the abandoned one just ends"


def test_stop_ends_a_quiet_operation(session: Session, tmp_path: Path) -> None:
    events = session.request("quiet", {"file": str(tmp_path / "mark")})
    assert next(events).event == "begun"
    begun = time.monotonic()
    session.stop()
    assert time.monotonic() - begun < 3
    assert session.call("ping")["echo"] == {}


def test_an_exception_of_the_callers_leaves_a_usable_session(session: Session, tmp_path: Path) -> None:
    class Mine(Exception):
        pass

    def fail(event: object) -> None:
        raise Mine

    with pytest.raises(Mine):
        session.call("forever", {"file": str(tmp_path / "mark")}, fail)
    assert session.call("ping")["echo"] == {}


def test_signs_of_life_keep_a_quiet_operation_alive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sessions, "SILENCE", 0.6)
    with started("0.1") as made:
        events = made.request("quiet", {"file": str(tmp_path / "mark")})
        assert next(events).event == "begun"
        timer = threading.Timer(1.5, made.close)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(AgentError, match="closed"):
            next(events)
        assert time.monotonic() - begun > 1


def test_an_agent_that_dies_is_told_with_its_last_words(session: Session) -> None:
    os.kill(session.hello.pid, 9)
    with pytest.raises(AgentError) as raised:
        session.call("transact")
    assert "connection broke during transact" in raised.value.message
    assert "by itself" in raised.value.state and raised.value.hint == "deployer status here"
    with pytest.raises(AgentError, match="closed"):
        session.call("ping")


def test_for_an_operation_that_reads_nothing_was_changed(session: Session) -> None:
    os.kill(session.hello.pid, 9)
    with pytest.raises(AgentError) as raised:
        session.call("facts")
    assert raised.value.state == "nothing was changed on the host"


def test_closing_ends_the_agent_and_twice_is_once(tmp_path: Path) -> None:
    made = started()
    events = made.request("quiet", {"file": str(tmp_path / "mark")})
    next(events)
    begun = time.monotonic()
    made.close()
    made.close()
    assert time.monotonic() - begun < 3
    assert gone(made.hello.pid)
    assert (tmp_path / "mark").read_text() == "unwound"


def test_large_messages_pass_both_ways(session: Session) -> None:
    text = "ü" * 3_000_000
    assert session.call("ping", {"text": text})["echo"]["text"] == text


def test_its_repr_shows_nothing(session: Session) -> None:
    assert repr(session) == "<Session here>"


def test_a_stream_that_takes_nothing_is_given_up() -> None:
    stream = PipeStream(["sleep", "60"])
    with pytest.raises(StreamEnded, match="nothing was taken"):
        stream.write(b"x" * 1_000_000, 0.2)
    begun = time.monotonic()
    stream.close()
    assert time.monotonic() - begun < 3


def test_a_program_that_ignores_everything_is_ended() -> None:
    stream = PipeStream(["sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 1; done"])
    assert stream.read(10)
    begun = time.monotonic()
    stream.close()
    assert time.monotonic() - begun < 4
    assert stream.status() is not None
