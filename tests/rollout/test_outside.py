"""Seen from outside: every way of not being reached has its own name, against real sockets on loopback and by rule."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from deployer.agent.verify.http import Target
from deployer.protocol.expectations import Expectations, Health
from deployer.rollout.outside import Attempt, Place, ask, judge, look, place
from deployer.settings.model import Host

HERE = Place(Target("192.0.2.9", 30000), "/health")
JUMPED = Place(Target("192.0.2.9", 30000), "/health", jumped=True)


@pytest.mark.parametrize(("where", "attempt", "bound", "code"), [
    (HERE, Attempt(200), "0.0.0.0", None),
    (HERE, Attempt(503), "0.0.0.0", "outside-other-answer"),
    (HERE, Attempt(401), "0.0.0.0", "outside-other-answer"),
    (HERE, Attempt(error="refused"), "127.0.0.1", "outside-loopback"),
    (HERE, Attempt(error="timeout"), "::1", "outside-loopback"),
    (HERE, Attempt(error="refused"), "198.51.100.7", "outside-wrong-interface"),
    (HERE, Attempt(error="refused"), "0.0.0.0", "outside-refused"),
    (HERE, Attempt(error="refused"), "192.0.2.9", "outside-refused"),
    (HERE, Attempt(error="refused"), "", "outside-refused"),
    (HERE, Attempt(error="timeout"), "0.0.0.0", "outside-filtered"),
    (HERE, Attempt(error="timeout"), "192.0.2.9", "outside-filtered"),
    (HERE, Attempt(error="unreachable", detail="No route to host"), "::", "outside-filtered"),
    (JUMPED, Attempt(error="timeout"), "0.0.0.0", "outside-not-direct"),
    (HERE, Attempt(error="no-address", detail="Name or service not known"), "0.0.0.0", "outside-no-address"),
    (HERE, Attempt(error="tls", detail="WRONG_VERSION_NUMBER"), "0.0.0.0", "outside-tls"),
    (HERE, Attempt(error="no-answer"), "0.0.0.0", "outside-no-answer"),
    (HERE, Attempt(error="reset"), "0.0.0.0", "outside-no-answer"),
])
def test_what_is_wrong(where: Place, attempt: Attempt, bound: str, code: str | None) -> None:
    found = judge(where, attempt, bound, inside=True)
    assert (found.code if found else None) == code
    if found:
        assert "192.0.2.9" in found.message and found.key == ("verify", "outside")


def test_a_server_that_is_down_is_not_this_checks_to_say() -> None:
    assert judge(HERE, Attempt(error="refused"), "0.0.0.0", inside=False) is None


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_against_sockets(server: int) -> None:
    assert ask(Place(Target("127.0.0.1", server), "/health"), 2.0) == Attempt(200)
    assert ask(Place(Target("127.0.0.1", server), "/other"), 2.0).status == 404
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        assert ask(Place(Target("127.0.0.1", port), "/health"), 2.0).error == "refused"
        held.listen()
        assert ask(Place(Target("127.0.0.1", port), "/health"), 0.2).error == "no-answer"
    assert ask(Place(Target("no-such-host.invalid", 1), "/health"), 1.0).error == "no-address"


def test_where_it_is_asked() -> None:
    expected = Expectations(port=30000, health=Health(path="/health", ready_path="/ready"))
    assert place(Host("h"), False, expected) is None
    assert place(Host("h"), True, Expectations(port=None)) is None
    found = place(Host("h", address="admin@192.0.2.9:2222"), True, expected)
    assert str(found) == "http://192.0.2.9:30000/ready", "SSH's port is not the server's"
    secure = place(Host("h", address="192.0.2.9"), True, Expectations(port=1, args={"ssl_certfile": "/x"}))
    assert str(secure) == "https://192.0.2.9:1/health"
    assert str(place(Host("h"), "https://llm.example.org", expected)) == "https://llm.example.org:443/ready"
    assert str(place(Host("h"), "http://192.0.2.1:8080/qwen/health", expected)) == "http://192.0.2.1:8080/qwen/health"
    assert str(place(Host("h"), "http://[2001:db8::1]:8080", expected)) == "http://[2001:db8::1]:8080/ready"


def test_look(server: int) -> None:
    expected = Expectations(port=server)
    assert look(Host("h"), f"http://127.0.0.1:{server}", expected, "127.0.0.1") is None
    assert look(Host("h"), False, expected, "127.0.0.1") is None
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        found = look(Host("h"), f"http://127.0.0.1:{held.getsockname()[1]}", expected, "0.0.0.0")
    assert found is not None and found.code == "outside-refused"
