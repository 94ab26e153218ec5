"""One request over HTTP with an end: a status and a body, or in one word why there is none."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from deployer.agent.verify.exchange import Exchange, Nonsense, connected
from deployer.protocol import records
from deployer.protocol.expectations import Expectations

BODY_LIMIT = 4 << 20


@records.dataclass(frozen=True)
class Target:
    """Where the server answers. ``key`` is sent as ``Authorization: Bearer``, where there is one."""

    host: str
    port: int
    tls: bool = False
    key: str = records.field(default="", repr=False)


@records.dataclass(frozen=True)
class Answered:
    """``status`` or ``error``: refused, timeout, reset, tls or other (then ``detail``). ``seconds`` it took."""

    status: Optional[int] = None
    body: bytes = b""
    error: str = ""
    detail: str = ""
    seconds: float = 0.0

    def plain(self) -> Dict[str, Any]:
        """Without the body."""
        return {"status": self.status, "error": self.error, "detail": self.detail, "seconds": round(self.seconds, 3)}

    def json(self) -> Any:
        """The body as JSON, or None."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def target(expected: Expectations, secrets: Mapping[str, str]) -> Optional[Target]:
    """Where this release is asked on its own host, or None where no port is known.

    A server bound to all addresses is asked at the loopback of its family; TLS where a certificate is declared.
    """
    if expected.port is None:
        return None
    hosts = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1", "[::]": "::1", "localhost": "127.0.0.1"}
    host = hosts.get(expected.host, expected.host).strip("[]")
    tls = bool(expected.args.get("ssl_certfile") or expected.args.get("tls_cert_path"))
    return Target(host, expected.port, tls, key_of(secrets, expected.args))


def bind_host(expected: Expectations) -> str:
    """The address that the server binds, as declared; ``Expectations.host`` is where it is asked."""
    written = expected.args.get("host")
    return str(written) if written else expected.host


def key_of(secrets: Mapping[str, str], args: Mapping[str, Any]) -> str:
    """The key that ordinary requests need: the API key, else the admin's."""
    for name in ("api_key", "admin_api_key"):
        for spelling in (name, name.replace("_", "-"), "--" + name.replace("_", "-")):
            value = secrets.get(spelling) or args.get(spelling)
            if isinstance(value, str) and value:
                return value
    return ""


def opens(at: Target, timeout: float = 0.3) -> bool:
    """Whether anything accepts a connection there."""
    try:
        with connected(at.host, at.port, timeout):
            return True
    except OSError:
        return False


def begin(at: Target, path: str, timeout: float, body: Any = None) -> Exchange:
    """GET, or POST of ``body`` as JSON. Raises what ``FAILURES`` lists."""
    fields = {"Authorization": "Bearer " + at.key} if at.key else {}
    if body is None:
        return Exchange(at.host, at.port, "GET", path, fields, None, timeout, at.tls)
    fields["Content-Type"] = "application/json"
    return Exchange(at.host, at.port, "POST", path, fields, json.dumps(body).encode(), timeout, at.tls)


FAILURES = (OSError, ValueError)
"""What an exchange raises; a wrong answer (Nonsense) and a key that is no header value are ValueErrors."""


def request(at: Target, path: str, *, timeout: float, body: Any = None) -> Answered:
    """GET, or POST of ``body`` as JSON; redirects are not followed, proxies not used. Never raises."""
    begun = time.monotonic()
    try:
        with begin(at, path, timeout, body) as exchange:
            return Answered(exchange.status, whole(exchange, begun + timeout), seconds=time.monotonic() - begun)
    except FAILURES as error:
        kind, detail = trouble(error)
        return Answered(error=kind, detail=detail, seconds=time.monotonic() - begun)


def whole(exchange: Exchange, until: float) -> bytes:
    """The body, bounded in size and in time: a server that trickles does not hold the reader."""
    parts, size = [], 0
    for part in exchange.pieces():
        parts.append(part)
        size += len(part)
        if size >= BODY_LIMIT:
            break
        if time.monotonic() > until:
            raise socket.timeout("the answer does not end")
    return b"".join(parts)


def trouble(error: Exception) -> Tuple[str, str]:
    """The kind of a failed request, and the words for it."""
    if isinstance(error, ConnectionRefusedError):
        return "refused", ""
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "timeout", ""
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "reset", ""
    if type(error).__module__ == "ssl":              # not imported for the question
        return "tls", str(getattr(error, "reason", "") or error)
    if isinstance(error, Nonsense):
        return "other", str(error)
    return "other", "{}: {}".format(type(error).__name__, error)
