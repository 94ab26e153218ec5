"""What is asked over HTTP, against a small server on loopback that behaves as each release does, or badly."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from deployer.agent.verify import ask
from deployer.agent.verify.http import Target, opens, request, target
from deployer.protocol.expectations import Expectations, Health, Load, Prompt

Answers = dict[str, Any]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: Answers
    asked: list[tuple[str, str | None, Any]]

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        self.asked.append((self.path, self.headers.get("Authorization"), body))
        found = self.answers.get(self.path, (404, ""))
        if callable(found):
            found(self, body)
            return
        status, text = found
        data = (text if isinstance(text, str) else json.dumps(text)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], tuple[Target, list[tuple[str, str | None, Any]]]]]:
    servers = []

    def begin(answers: Answers, key: str = "") -> tuple[Target, list[tuple[str, str | None, Any]]]:
        handler = type("Own", (Handler,), {"answers": answers, "asked": []})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return Target("127.0.0.1", server.server_address[1], False, key), handler.asked

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def test_status_alone_counts(serve: Any) -> None:
    at, asked = serve({"/health": (200, ""), "/ready": (503, "x")}, key="canary")
    expected = Expectations(health=Health(ready_path="/ready"))
    assert ask.health(at, expected, "/health")["status"] == 200
    ready = ask.health(at, expected, "/ready", ready_path=True)
    assert (ready["status"], ready["ready_path"]) == (503, True)
    assert [key for _, key, _ in asked] == [None, None], "the port may still be another's"


def test_no_server_at_all() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        at = Target("127.0.0.1", held.getsockname()[1])
        assert not opens(at)
        assert request(at, "/health", timeout=1.0).error == "refused"


def test_silence_and_a_broken_connection() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        at = Target("127.0.0.1", held.getsockname()[1])
        assert opens(at)
        answered = request(at, "/health", timeout=0.2)
        assert (answered.error, answered.status) == ("timeout", None)
        assert 0.15 < answered.seconds < 1.0
        assert request(Target(at.host, at.port, True), "/health", timeout=0.2).error in ("timeout", "tls")


def test_an_answer_that_trickles_is_given_up(serve: Any) -> None:
    def trickle(handler: Any, _: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        try:
            for _ in range(100):
                handler.wfile.write(b"x")
                time.sleep(0.05)
        except OSError:
            return

    at, _ = serve({"/server_info": trickle})
    answered = request(at, "/server_info", timeout=0.3)
    assert answered.error == "timeout" and answered.seconds < 1.0


def test_tls_against_a_plain_server(serve: Any) -> None:
    at, _ = serve({"/health": (200, "")})
    assert request(Target(at.host, at.port, True), "/health", timeout=1.0).error == "tls"


def test_the_account_without_secrets_and_with_the_key(serve: Any) -> None:
    info = {"port": 1, "api_key": "canary", "server_args": {"api_key": "canary", "tp_size": 2},
            "launch_command": "--api-key canary", "my_secret": "canary", "empty": None}
    at, asked = serve({"/get_server_info": (200, info)}, key="canary")
    value = ask.info(at, Expectations(secret_args=("my-secret",)))
    assert "canary" not in json.dumps(value)
    assert value["info"]["api_key"] is True and value["info"]["server_args"] == {"api_key": True, "tp_size": 2}
    assert [path for path, _, _ in asked] == ["/server_info", "/get_server_info"], "the older path comes second"
    assert {key for _, key, _ in asked} == {"Bearer canary"}


def test_an_account_that_is_none(serve: Any) -> None:
    at, _ = serve({"/server_info": (200, "<html>")})
    assert ask.info(at, Expectations())["error"] == "other"


def test_a_completion_by_either_api(serve: Any) -> None:
    prompt = Prompt("The capital of France is", "Paris", 8)
    models, choices = {"data": [{"id": "q"}]}, {"choices": [{"text": " Paris"}]}
    at, asked = serve({"/v1/models": (200, models), "/v1/completions": (200, choices)})
    assert ask.completion(at, prompt)["text"] == " Paris"
    assert asked[-1][2]["model"] == "q" and asked[-1][2]["max_tokens"] == 8
    at, asked = serve({"/generate": (200, {"text": " Paris", "meta_info": {}})})
    value = ask.completion(at, prompt)
    assert (value["text"], value["path"]) == (" Paris", "/generate")
    assert asked[-1][2]["sampling_params"]["max_new_tokens"] == 8
    at, _ = serve({"/v1/completions": (500, {"error": "boom"})})
    value = ask.completion(at, prompt)
    assert (value["status"], value["detail"]) == (500, '{"error": "boom"}')
    at, _ = serve({"/v1/completions": (200, {"choices": []})})
    assert ask.completion(at, prompt)["status"] is None


def stream(tokens: int, pause: float) -> Callable[[Any, Any], None]:
    def answer(handler: Any, body: Any) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        time.sleep(pause)
        for _ in range(tokens):
            handler.wfile.write(b'data: {"choices": [{"text": "a"}]}\n\n')
        usage = b'data: {"choices": [], "usage": {"completion_tokens": %d}}\n\n' % body["max_tokens"]
        handler.wfile.write(usage + b"data: [DONE]\n\n")
        handler.close_connection = True

    return answer


def test_a_load_is_measured(serve: Any) -> None:
    at, asked = serve({"/v1/completions": stream(4, 0.1)})
    value = ask.load(at, None, Load(6, 3, 16))
    assert (value["requests"], value["errors"]) == (6, 0)
    assert 0.1 <= value["ttft"] < 0.5
    assert value["tokens_per_second"] == pytest.approx(6 * 16 / value["seconds"], rel=0.05), "as the server counts them"
    assert sum(path == "/v1/completions" for path, _, _ in asked) == 6


def test_a_load_that_fails_says_why(serve: Any) -> None:
    at, _ = serve({"/v1/completions": (503, "busy")})
    value = ask.load(at, Prompt("x"), Load(3, 2, 4))
    assert (value["errors"], value["detail"]) == (3, "503 busy")
    at, _ = serve({"/v1/completions": stream(0, 0.0)})
    assert ask.load(at, None, Load(1, 1, 4))["detail"] == "an answer without text"


@pytest.mark.parametrize(("host", "args", "asked"), [
    ("0.0.0.0", {}, ("127.0.0.1", False)), ("::", {}, ("::1", False)), ("[::]", {}, ("::1", False)),
    ("10.1.2.3", {}, ("10.1.2.3", False)),
    ("localhost", {}, ("127.0.0.1", False)), ("127.0.0.1", {"ssl_certfile": "/x"}, ("127.0.0.1", True)),
])
def test_where_a_server_is_asked(host: str, args: dict[str, Any], asked: tuple[str, bool]) -> None:
    found = target(Expectations(host=host, port=1, args=args), {"--admin-api-key": "b", "api-key": "a"})
    assert found is not None
    assert (found.host, found.tls, found.key) == (*asked, "a")
    assert "key" not in repr(found)
    assert target(Expectations(port=None), {}) is None
