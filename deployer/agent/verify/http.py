"""One request over HTTP with an end: a status and a body, or in one word why there is none."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from typing import Any, Dict, Mapping, Optional

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
        with socket.create_connection((at.host, at.port), timeout):
            return True
    except OSError:
        return False


def connection(at: Target, timeout: float) -> http.client.HTTPConnection:
    if not at.tls:
        return http.client.HTTPConnection(at.host, at.port, timeout=timeout)
    # The server's own host asks: who holds the port is proven by its socket, not by a certificate.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(at.host, at.port, timeout=timeout, context=context)


def headers(at: Target, body: Any) -> Dict[str, str]:
    found = {"Authorization": "Bearer " + at.key} if at.key else {}
    if body is not None:
        found["Content-Type"] = "application/json"
    return found


def request(at: Target, path: str, *, timeout: float, body: Any = None) -> Answered:
    """GET, or POST of ``body`` as JSON; redirects are not followed, proxies not used. Never raises."""
    begun = time.monotonic()
    raw = None if body is None else json.dumps(body).encode()
    link = connection(at, timeout)
    try:
        link.request("GET" if raw is None else "POST", path, raw, headers(at, body))
        response = link.getresponse()
        data = _whole(response, begun + timeout)
        return Answered(response.status, data, seconds=time.monotonic() - begun)
    except (OSError, http.client.HTTPException, ValueError) as error:
        kind, detail = trouble(error)
        return Answered(error=kind, detail=detail, seconds=time.monotonic() - begun)
    finally:
        link.close()


def _whole(response: http.client.HTTPResponse, until: float) -> bytes:
    """The body, bounded in size and in time: a server that trickles does not hold the reader."""
    parts, size = [], 0
    while size < BODY_LIMIT:
        part = response.read1(1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise socket.timeout("the answer does not end")
    return b"".join(parts)


def trouble(error: Exception) -> "tuple[str, str]":
    """The kind of a failed request, and the words for it."""
    if isinstance(error, ConnectionRefusedError):
        return "refused", ""
    if isinstance(error, ssl.SSLError):
        return "tls", str(error.reason or error)
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "timeout", ""
    if isinstance(error, (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)):
        return "reset", ""
    return "other", "{}: {}".format(type(error).__name__, error)
