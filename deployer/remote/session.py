"""One connection to one host: the agent's hello, then requests and their events."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

from deployer.errors import AgentError, OperationError
from deployer.protocol.codec import DecodeError
from deployer.protocol.message import ERROR, Event, Hello, Request, decode_event, encode
from deployer.remote.ask import Ask
from deployer.remote.bundle import bundle
from deployer.remote.stream import Stream, StreamEnded
from deployer.settings.model import Host

SILENCE = 30.0
"""Seconds without a sign of life: a busy agent sends one every five, so the host or the way to it is gone."""

_STATES = {
    "stage": "a release may be staged on the host in part; what serves there is unchanged",
    "stage-copy": "a release may be staged on the host in part; what serves there is unchanged",
    "transact": "a push that has begun goes on there and completes or rolls back by itself",
    "follow": "a push that has begun goes on there and completes or rolls back by itself",
    "abort": "the push on the host may go on; it completes or rolls back by itself",
    "clean": "cleaning was cut off; what it had ended stays ended",
}
_LOOK = "deployer status {host}"


class Session:
    """A host's agent. Use it from one thread at a time; ``close`` may come from any.

    ``warnings`` are sentences for the operator: what of the SSH configuration was not understood, for instance.
    """

    def __init__(self, host: Host, stream: Stream, hello: Hello, ask: Ask, warnings: tuple[str, ...] = ()) -> None:
        self.host = host
        self.hello = hello
        self.warnings = warnings
        self._ask = ask
        self._stream = stream
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []
        self._said = b""
        self._turn = 0
        self._unanswered = False
        self._closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self.host.name}>"

    def request(self, op: str, data: Mapping[str, Any] | None = None) -> Iterator[Event]:
        """The events of one operation as they come, the last one (``reply`` or ``error``) included.

        A new request ends one that is still unanswered (its iterator then just stops). Raises AgentError when the
        connection breaks or the host falls silent, with what is known of the state there.
        """
        self._settle()
        self._turn += 1
        turn = self._turn
        self._send(Request(op, dict(data or {})), op)
        self._unanswered = True
        while self._turn == turn and self._unanswered:
            event = self._event(op)
            if event.event == "beat":
                continue
            self._unanswered = not event.last
            yield event

    def call(
        self,
        op: str,
        data: Mapping[str, Any] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> dict[str, Any]:
        """The reply's data; other events go to ``on_event``. Raises AgentError, OperationError for an ``error``."""
        for event in self.request(op, data):
            if event.event == ERROR:
                raise self.refused(op, event)
            if event.last:
                return event.data
            if on_event:
                on_event(event)
        raise AgentError(self.host.name, f"the operation {op} was given up for another")

    def refused(self, op: str, event: Event) -> OperationError:
        """The exception that an ``error`` event stands for."""
        details = {key: value for key, value in event.data.items() if key not in ("code", "message")}
        code, message = str(event.data.get("code", "error")), str(event.data.get("message", ""))
        hint = ""
        if code == "agent-fault":
            message = f"the agent failed in {op}: {message}"
            hint = "report it with this trace:\n" + str(details.get("trace", ""))
        return OperationError(self.host.name, code, message, details, hint=hint,
                              state=_STATES.get(op, "") if code == "agent-fault" else "")

    def stop(self) -> None:
        """Ends the operation that is running, politely; waits for its end. Raises AgentError."""
        self._settle()

    def close(self) -> None:
        """Ends the session: the agent ends with its input. Never hangs, never raises."""
        self._closed = True
        self._stream.close()

    def reconnect(self) -> Session:
        """A fresh session with the same host (this one is closed); known answers are not asked again."""
        self.close()
        return open_session(self.host, self._ask)

    # -- the wire

    def _settle(self) -> None:
        """Stops what is still running and reads its events to their end."""
        if not self._unanswered:
            return
        self._send(Request("stop"), "stop")
        until = time.monotonic() + SILENCE
        while self._unanswered:
            self._unanswered = not self._event("stop").last
            if time.monotonic() > until:
                raise self._broken("stop", f"the operation did not end within {SILENCE:.0f} s")

    def _send(self, request: Request, op: str) -> None:
        if self._closed:
            raise AgentError(self.host.name, "the session is closed", hint=_LOOK.format(host=self.host.name))
        try:
            self._stream.write(encode(request), SILENCE)
        except StreamEnded as error:
            raise self._broken(op, self._stream.why() or str(error)) from None

    def _event(self, op: str) -> Event:
        while not self._lines:
            silence = self._stream.silence or SILENCE
            chunk = self._stream.read(silence)
            if chunk is None:
                raise self._broken(op, f"no sign of life for {silence:.0f} s")
            if not chunk.data:
                raise self._broken(op, self._ended())
            if chunk.error:
                self._said = (self._said + chunk.data)[-4000:]
                continue
            self._rest.append(chunk.data)
            if b"\n" in chunk.data:                  # a long line is joined once, not with each of its pieces
                *lines, last = b"".join(self._rest).split(b"\n")
                self._lines.extend(lines)
                self._rest = [last]
        try:
            return decode_event(self._lines.popleft())
        except DecodeError as error:
            raise self._broken(op, f"the agent answered nonsense: {error}") from None

    def _ended(self) -> str:
        if self._closed:
            return "the session was closed"
        why = self._stream.why()
        if why:
            return why
        status = self._stream.status()
        said = self._said.decode("utf-8", "replace").strip().splitlines()
        words = "the agent ended" + (f" with exit status {status}" if status is not None else "")
        return words + (f": {said[-1][:300]}" if said else "")

    def _broken(self, op: str, words: str) -> AgentError:
        self._unanswered = False
        self.close()
        return AgentError(
            self.host.name, f"the connection broke during {op}: {words}",
            state=_STATES.get(op, ""), hint=_LOOK.format(host=self.host.name))


def open_session(host: Host, ask: Ask) -> Session:
    """Connects to ``host`` and starts the agent there, as root where ``host.become`` is "sudo".

    Raises ConnectError, HostKeyError, SudoError, AgentError; each in bounded time, with the next command.
    """
    if host.local:
        from deployer.remote import local

        pipe, hello = local.connect(host.name, host.become, bundle(), ask)
        return Session(host, pipe, hello, ask)
    from deployer.remote import connect

    stream, hello, warnings = connect.connect(host, bundle, ask)
    return Session(host, stream, hello, ask, warnings)
