"""The HTTP side: SGLang's paths with each release's semantics, over plain sockets and threads (quick to start)."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

from . import background

if TYPE_CHECKING:
    from .server import Server

STATUS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 500: "Internal Server Error",
          503: "Service Unavailable"}
OPEN_PATHS = ("/health", "/metrics", "/ready")
Answer = tuple[int, str | list[str]]
"""Status and body; a list is a stream of server-sent events."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises OSError as uvicorn's bind does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(256)
    return listener


def serve(listener: socket.socket, server: Server) -> None:
    """Answers from now on, in threads of its own."""

    def accept() -> None:
        while True:
            try:
                connection, client = listener.accept()
            except OSError:
                return
            background.start(_converse, connection, client, server)

    background.start(accept)


def _converse(connection: socket.socket, client: Any, server: Server) -> None:
    with connection, connection.makefile("rwb") as stream:
        while True:
            first = stream.readline().decode("latin-1").strip()
            if not first:
                return
            headers = {}
            while line := stream.readline().decode("latin-1").strip():
                name, _, text = line.partition(":")
                headers[name.lower()] = text.strip()
            body = stream.read(int(headers.get("content-length", 0)))
            method, path = [*first.split(), "", ""][:2]
            path = path.partition("?")[0]
            code, said = answer(server, method, path, headers, body)
            server.narrator.request(f"{client[0]}:{client[1]}", first, f"{code} {STATUS[code]}")
            if isinstance(said, list):
                _stream(stream, said, float(server.behaviour["token_seconds"]))
                return
            kind = "application/json" if said[:1] in ("{", "[") else "text/plain"
            closing = headers.get("connection", "").lower() == "close"
            try:
                stream.write(
                    f"HTTP/1.1 {code} {STATUS[code]}\r\nserver: uvicorn\r\ncontent-length: {len(said.encode())}\r\n"
                    f"content-type: {kind}\r\n{'connection: close' + chr(13) + chr(10) if closing else ''}\r\n{said}"
                    .encode())
                stream.flush()
            except OSError:
                return
            if closing:
                return


def _stream(stream: Any, events: list[str], seconds: float) -> None:
    """Sends one event a token; the end of the connection ends it."""
    try:
        stream.write(b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream\r\n"
                     b"connection: close\r\n\r\n")
        for event in events:
            time.sleep(seconds)
            stream.write(f"data: {event}\n\n".encode())
            stream.flush()
    except OSError:
        pass


def answer(server: Server, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
    """What the release answers."""
    release, args = server.release, server.args
    key = args.get("api_key")
    needs_key = key and not path.startswith(OPEN_PATHS if release.has_ready else OPEN_PATHS[:2])
    if needs_key and headers.get("authorization") != f"Bearer {key}":
        return 401, '{"error":"Unauthorized"}'
    if path in ("/health", "/health_generate"):
        return health(server, path)
    if path == "/ready" and release.has_ready:
        return (200 if server.ready and not server.stopping else 503), ""
    if path == "/ping":
        return (200 if server.ready else 503), ""
    if path in ("/get_model_info", *(("/model_info",) if release.has_new_info_paths else ())):
        return 200, json.dumps({"model_path": args["model_path"], "tokenizer_path": args["tokenizer_path"],
                                "is_generation": True})
    if path in ("/get_server_info", *(("/server_info",) if release.has_new_info_paths else ())):
        return 200, json.dumps(server.info(), default=str)
    if path == "/v1/models":
        entry = {"id": args["served_model_name"], "object": "model", "owned_by": "sglang",
                 "root": args["served_model_name"], "max_model_len": server.context}
        return 200, json.dumps({"object": "list", "data": [entry]})
    if path == "/metrics" and args.get("enable_metrics"):
        return 200, "sglang:num_running_reqs 0\nsglang:gen_throughput 0\n"
    if method == "POST" and path in ("/generate", "/v1/completions", "/v1/chat/completions"):
        return generate(server, path, body)
    if method == "POST" and path in ("/flush_cache", "/freeze_gc"):
        return 200, ""
    return 404, '{"detail":"Not Found"}'


def health(server: Server, path: str) -> Answer:
    behaviour = server.behaviour
    if behaviour["health"] is not None:
        time.sleep(behaviour["health_seconds"])
        return int(behaviour["health"]), ""
    if path == "/health" and not server.release.health_means_ready:
        return 200, ""
    if server.stopping and server.release.drains:
        return 503, ""
    if not server.ready and server.release.health_means_ready:
        return 503, ""
    time.sleep(behaviour["health_seconds"])
    return (200 if server.schedulers_alive() else 503), ""


def generate(server: Server, path: str, body: bytes) -> Answer:
    try:
        request = json.loads(body or b"{}")
    except ValueError:
        return 400, '{"error": {"message": "Invalid JSON"}}'
    if not server.schedulers_alive():
        return 500, '{"error": {"message": "the scheduler is gone"}}'
    with server.in_flight():
        time.sleep(server.behaviour["generate_seconds"])
        server.wait_for_release_of_requests()
    prompt = request.get("text") or request.get("prompt") or ""
    if "messages" in request:
        prompt = str(request["messages"][-1].get("content", "")) if request["messages"] else ""
    said = server.behaviour["answer"]
    text = said if said is not None else (" Paris. It lies on the Seine." if "capital" in str(prompt) else " Yes.")
    limit = request.get("max_tokens") or request.get("sampling_params", {}).get("max_new_tokens") or 16
    usage = {"prompt_tokens": 6, "completion_tokens": limit, "total_tokens": 6 + limit}
    time.sleep(0 if request.get("stream") else limit * float(server.behaviour["token_seconds"]))
    if path == "/generate":
        meta = {"id": "0", "finish_reason": {"type": "length", "length": limit}, "prompt_tokens": 6,
                "completion_tokens": limit, "cached_tokens": 0, "e2e_latency": 0.01}
        return 200, json.dumps({"text": text, "meta_info": meta})
    chat = path.endswith("/chat/completions")
    choice = {"index": 0, "finish_reason": "length"}
    if request.get("stream"):
        head = {"id": "0", "object": "text_completion", "created": int(time.time()),
                "model": server.args["served_model_name"]}
        words = [text, *[" and"] * (limit - 1)]
        parts = [{"delta": {"content": word}} if chat else {"text": word} for word in words]
        events = [json.dumps({**head, "choices": [{"index": 0, "finish_reason": None, **part}]}) for part in parts]
        return 200, [*events, json.dumps({**head, "choices": [], "usage": usage}), "[DONE]"]
    content = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return 200, json.dumps({"id": "0", "object": "chat.completion" if chat else "text_completion",
                            "created": int(time.time()), "model": server.args["served_model_name"],
                            "choices": [{**choice, **content}], "usage": usage})
