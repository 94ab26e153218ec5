"""The userauth dialogue (RFC 4252, 4256): what paramiko's own lacks is to ask before signing, and not to sleep."""

from __future__ import annotations

import queue
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from deployer.protocol.records import dataclass
from deployer.remote import transport as ssh
from deployer.remote.wire import string

SERVICE_ACCEPT, REQUEST, FAILURE, SUCCESS, BANNER, OK_OR_QUERY, ANSWERS = 6, 50, 51, 52, 53, 60, 61
GONE = -1
_STEP = 0.2


@dataclass(frozen=True)
class Answer:
    """The server's word: ``kind`` is one of the message numbers; GONE when the connection ended.

    ``methods`` may go on (FAILURE); ``partial``: this step was good, another is wanted. ``prompts`` are the texts of a
    keyboard-interactive query, each with whether it may be echoed.
    """

    kind: int
    methods: tuple[str, ...] = ()
    partial: bool = False
    title: str = ""
    prompts: tuple[tuple[str, bool], ...] = ()


class NoAnswer(Exception):
    """The server said nothing within the time limit."""


class Userauth:
    """Takes the place of paramiko's AuthHandler on a transport whose keys are exchanged."""

    def __init__(self, transport: Any, user: str, timeout: float) -> None:
        self._transport = transport
        self._user = user
        self._timeout = timeout
        self._inbox: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._authenticated = False
        self._begun = threading.Event()
        self.banner = ""
        transport.auth_handler = self
        self._message = ssh.load().Message
        self._send(b"\x05" + string("ssh-userauth"))

    # -- what the transport's thread calls

    @property
    def _handler_table(self) -> dict[int, Callable[[Any], None]]:
        return {
            SERVICE_ACCEPT: self._accepted, SUCCESS: self._success, FAILURE: self._failure, BANNER: self._banner,
            OK_OR_QUERY: self._ok_or_query,
        }

    def is_authenticated(self) -> bool:
        return self._authenticated

    def abort(self) -> None:
        self._begun.set()
        self._inbox.put(Answer(GONE))

    def _accepted(self, message: Any) -> None:
        self._begun.set()

    def _success(self, message: Any) -> None:
        self._authenticated = True
        self._transport._auth_trigger()
        self._inbox.put(Answer(SUCCESS))

    def _failure(self, message: Any) -> None:
        methods = tuple(message.get_list())
        self._inbox.put(Answer(FAILURE, methods, bool(message.get_boolean())))

    def _banner(self, message: Any) -> None:
        self.banner = message.get_binary().decode("utf-8", "replace")

    def _ok_or_query(self, message: Any) -> None:
        if self._probing:
            self._inbox.put(Answer(OK_OR_QUERY))
            return
        title = message.get_binary().decode("utf-8", "replace")
        instructions = message.get_binary().decode("utf-8", "replace")
        message.get_binary()
        prompts = tuple(
            (message.get_binary().decode("utf-8", "replace"), bool(message.get_boolean()))
            for _ in range(message.get_int()))
        self._inbox.put(Answer(OK_OR_QUERY, title="\n".join(filter(None, (title, instructions))), prompts=prompts))

    # -- what the connecting thread calls; each raises NoAnswer

    _probing = False

    def none(self) -> Answer:
        """Asks which methods there are (or, rarely, whether none is needed)."""
        return self._request("none", b"")

    def probe(self, algorithm: str, blob: bytes) -> Answer:
        """Whether the server would take this key: OK_OR_QUERY when it would."""
        self._probing = True
        try:
            return self._request("publickey", b"\0" + string(algorithm) + string(blob))
        finally:
            self._probing = False

    def publickey(self, algorithm: str, blob: bytes, sign: Callable[[bytes, str], bytes]) -> Answer:
        """Proves the key; ``sign`` may raise what it likes."""
        body = b"\1" + string(algorithm) + string(blob)
        signature = sign(string(self._transport.session_id) + self._head("publickey") + body, algorithm)
        return self._request("publickey", body + string(signature))

    def password(self, password: str) -> Answer:
        return self._request("password", b"\0" + string(password))

    def interactive(self) -> Answer:
        """Begins keyboard-interactive: the answer is a query (OK_OR_QUERY with prompts) or an end."""
        return self._request("keyboard-interactive", string("") + string(""))

    def respond(self, answers: Sequence[str]) -> Answer:
        self._send(struct.pack(">BI", ANSWERS, len(answers)) + b"".join(string(answer) for answer in answers))
        return self._wait()

    def rsa_algorithms(self) -> tuple[str, ...]:
        """What the server says it verifies (RFC 8308); empty where it did not say. It says so before it accepts the
        request for this service, so that is waited for."""
        if not self._begun.wait(self._timeout):
            raise NoAnswer
        said: bytes = self._transport.server_extensions.get("server-sig-algs", b"")
        return tuple(said.decode("ascii", "replace").split(",")) if said else ()

    def _head(self, method: str) -> bytes:
        return struct.pack(">B", REQUEST) + string(self._user) + string("ssh-connection") + string(method)

    def _request(self, method: str, body: bytes) -> Answer:
        self._send(self._head(method) + body)
        return self._wait()

    def _send(self, data: bytes) -> None:
        try:
            self._transport._send_message(self._message(data))
        except (EOFError, OSError):
            self.abort()

    def _wait(self) -> Answer:
        until = time.monotonic() + self._timeout
        while True:
            try:
                answer = self._inbox.get(timeout=max(0.0, min(_STEP, until - time.monotonic())))
            except queue.Empty:
                if not self._transport.is_active():
                    return Answer(GONE)
                if time.monotonic() >= until:
                    raise NoAnswer from None
                continue
            return answer
