"""Hello, request and event: one JSON object a line, UTF-8, in both directions.

The agent speaks first with one ``Hello``; nothing is written to it before. Each request is then answered by zero or
more events and exactly one last event, ``reply`` or ``error``. End of input ends the agent.
"""

from __future__ import annotations

import json
from typing import Any, Dict

from deployer.protocol import records
from deployer.protocol.codec import DecodeError, from_plain, to_plain

VERSION = 1
"""Of requests: client and agent must agree (the client brings the agent). Events are read tolerantly."""

REPLY = "reply"
ERROR = "error"
RESULT = "result"
"""The last event of a stream that acts (push, rollback, clean, verify)."""


class VersionError(DecodeError):
    """A request of another protocol version."""


@records.dataclass(frozen=True)
class Hello:
    """The agent's first line."""

    v: int
    hash: str
    python: str
    uid: int
    pid: int = 0
    host: str = ""


@records.dataclass(frozen=True)
class Request:
    """One request of the client's: ``op`` names an operation of ``deployer.agent.serve``."""

    op: str
    data: Dict[str, Any] = records.field(default_factory=dict)
    v: int = VERSION


@records.dataclass(frozen=True)
class Event:
    """Something that happened. ``seq`` counts from 1 within its stream; ``at``: the host's clock, epoch seconds."""

    event: str
    data: Dict[str, Any] = records.field(default_factory=dict)
    seq: int = 0
    at: float = 0.0
    v: int = VERSION

    @property
    def last(self) -> bool:
        return self.event in (REPLY, ERROR)


def encode(message: Any) -> bytes:
    """One line, newline included."""
    return (json.dumps(to_plain(message), ensure_ascii=True, separators=(",", ":")) + "\n").encode("ascii")


def decode_request(line: bytes) -> Request:
    """Raises ``DecodeError``, also for another protocol version."""
    request = from_plain(Request, _object(line))
    if request.v != VERSION:
        raise VersionError("request of protocol {}, this agent speaks {}".format(request.v, VERSION))
    return request


def decode_event(line: bytes) -> Event:
    """Raises ``DecodeError``."""
    return from_plain(Event, _object(line))


def decode_hello(line: bytes) -> Hello:
    """Raises ``DecodeError``."""
    return from_plain(Hello, _object(line))


def _object(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except ValueError as error:
        raise DecodeError("not a JSON line: {}".format(error)) from None
