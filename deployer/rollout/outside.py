"""Seen from outside: health asked from the operator's machine straight over the network, not through SSH.

A server that is well on its own host may be out of reach for everybody else: bound to loopback or to another interface,
or behind a firewall. What is known from inside tells these apart from a server that is down.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from urllib.parse import urlsplit

from deployer.agent.verify.http import Target, request
from deployer.errors import ConnectError
from deployer.protocol.expectations import Expectations
from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.settings.model import Host

CONNECT_SECONDS = 5.0
"""A network that says nothing for so long is filtered."""

KEY = ("verify", "outside")


@dataclass(frozen=True)
class Place:
    """Where the server is asked from outside. ``jumped``: SSH itself gets there only through another host."""

    target: Target
    path: str
    jumped: bool = False

    def __str__(self) -> str:
        host = f"[{self.target.host}]" if ":" in self.target.host else self.target.host
        return f"{'https' if self.target.tls else 'http'}://{host}:{self.target.port}{self.path}"


@dataclass(frozen=True)
class Attempt:
    """``status``, or ``error``: refused, timeout (nothing came back), unreachable, no-address, tls, reset or other."""

    status: int | None = None
    error: str = ""
    detail: str = ""


def place(host: Host, outside: bool | str, expected: Expectations) -> Place | None:
    """Where to ask: the URL, else the host's address as SSH resolves it and the declared port.

    None: not asked for, or no port is known. Raises ConnectError for a host name that SSH would refuse as well.
    """
    path = expected.health.ready_path or expected.health.path
    if isinstance(outside, str):
        parts = urlsplit(outside)
        tls = parts.scheme == "https"
        at = Target(parts.hostname or "", parts.port or (443 if tls else 80), tls)
        return Place(at, parts.path if parts.path not in ("", "/") else path)
    if not outside or expected.port is None:
        return None
    tls = bool(expected.args.get("ssl_certfile"))
    if host.local:
        return Place(Target(socket.gethostname(), expected.port, tls), path)
    from deployer.remote.destination import resolve

    found = resolve(host.name, host.address or host.name, user=host.user, port=host.port)
    return Place(Target(found.host, expected.port, tls), path, bool(found.jumps or found.proxy_command))


def ask(where: Place, timeout: float) -> Attempt:
    """One connection and one request, without a proxy; ``timeout`` in seconds is the server's own."""
    try:
        with socket.create_connection((where.target.host, where.target.port), CONNECT_SECONDS):
            pass
    except socket.gaierror as error:
        return Attempt(error="no-address", detail=str(error.strerror or error))
    except TimeoutError:
        return Attempt(error="timeout")
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            return Attempt(error="refused")
        return Attempt(error="unreachable", detail=error.strerror or str(error))
    answered = request(where.target, where.path, timeout=timeout)
    return Attempt(answered.status, "no-answer" if answered.error == "timeout" else answered.error, answered.detail)


def judge(where: Place, attempt: Attempt, bound: str, inside: bool) -> Finding | None:
    """What is wrong outside while all is well inside, or None. ``bound``: the address that the server listens on.

    ``inside`` False: the server itself is not well, which is not this check's to say.
    """
    if not inside or attempt.status == 200:
        return None
    if attempt.status is not None:
        return _finding("outside-other-answer", f"{where} answers {attempt.status} from here, 200 on the host itself",
                        "something between answers for it: a proxy, or another server at this address")
    code, text, hint = _no_answer(where, attempt, bound)
    return _finding(code, text, hint)


def _no_answer(where: Place, attempt: Attempt, bound: str) -> tuple[str, str, str]:
    if attempt.error == "no-address":
        return ("outside-no-address", f"{where.target.host} has no address here: {attempt.detail}",
                'give the address that clients use: outside = "http://ADDRESS:PORT"')
    if _loopback(bound):
        return ("outside-loopback", f"the server listens on {bound} only, so {where} cannot be reached from here",
                'host = "0.0.0.0" in [args], or outside = false where a proxy on the host is in front of it')
    if attempt.error == "refused" and bound and not _any(bound) and bound != _address(where.target.host):
        return ("outside-wrong-interface", f"the server listens on {bound}, and {where} is another interface",
                f'host = "0.0.0.0" in [args], or outside = "http://{bound}:{where.target.port}"')
    if attempt.error == "refused":
        return ("outside-refused", f"{where} refuses the connection, though the server listens on {bound or 'it'}",
                "a firewall rejects it, or the address is another machine's")
    if attempt.error in ("timeout", "unreachable"):
        if where.jumped:
            return ("outside-not-direct", f"{where} is not reached from here; SSH gets there through another host",
                    'give the address that clients use: outside = "http://ADDRESS:PORT"')
        why = attempt.detail or f"nothing comes back in {CONNECT_SECONDS:.0f} s"
        return ("outside-filtered", f"{where} is not reached from here ({why}), while the server is well on its host",
                f"a firewall drops packets to port {where.target.port}, or there is no route")
    if attempt.error == "tls":
        return ("outside-tls", f"{where} does not speak TLS as expected: {attempt.detail}", "")
    return ("outside-no-answer", f"{where} takes the connection and does not answer ({attempt.error})",
            "something between drops what the server says")


def look(host: Host, outside: bool | str, expected: Expectations, bound: str) -> Finding | None:
    """Asks and judges, for a server that is well on its own host. None: well from outside too, or not asked for."""
    try:
        where = place(host, outside, expected)
    except ConnectError as error:
        return _finding("outside-no-address", error.message, "")
    if where is None:
        return None
    return judge(where, ask(where, expected.health.timeout), bound, True)


def _finding(code: str, message: str, hint: str) -> Finding:
    return Finding(code, Level.ERROR, message, key=KEY, hint=hint)


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _any(address: str) -> bool:
    return address in ("0.0.0.0", "::", "*", "")


def _address(name: str) -> str:
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return name
