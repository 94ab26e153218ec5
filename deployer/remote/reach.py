"""The way to a host's SSH port: TCP, or the admin's ProxyCommand. Every wait has an end and a name."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import tempfile
import time
from typing import IO

from deployer.errors import ConnectError
from deployer.remote.destination import Destination

_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
RETRY_SECONDS = 1.0
"""Between ConnectionAttempts, as in ssh."""


class Way:
    """A connected socket, and what has to end with it."""

    def __init__(self, sock: socket.socket, process: subprocess.Popen[bytes] | None = None,
                 said: IO[bytes] | None = None) -> None:
        self.sock = sock
        self._process = process
        self._said = said

    def words(self) -> str:
        """The last line of what a ProxyCommand said on stderr."""
        if not self._said:
            return ""
        self._said.seek(0)
        lines = self._said.read(4000).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def close(self) -> None:
        try:
            self.sock.shutdown(socket.SHUT_RDWR)     # wakes whoever reads it; closing alone does not
        except OSError:
            pass
        self.sock.close()
        if self._process and self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGTERM)
                self._process.wait(0.5)
            except (ProcessLookupError, PermissionError):
                pass
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        if self._said:
            self._said.close()


def reach(destination: Destination) -> Way:
    """Connects; raises ConnectError."""
    if destination.proxy_command:
        return _command(destination, destination.proxy_command)
    for attempt in range(destination.attempts):
        if attempt:
            time.sleep(RETRY_SECONDS)
        try:
            return Way(_tcp(destination))
        except ConnectError:
            if attempt + 1 == destination.attempts:
                raise
    raise AssertionError("at least one attempt")


def _tcp(destination: Destination) -> socket.socket:
    family = _FAMILIES.get(destination.family, socket.AF_UNSPEC)
    try:
        addresses = socket.getaddrinfo(destination.host, destination.port, family, socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        words = error.strerror if isinstance(error, socket.gaierror) else str(error)
        raise ConnectError(
            destination.name, f"the name {destination.host!r} could not be resolved: {words}",
            hint="correct the address in hosts.toml or ~/.ssh/config; `ssh -G "
                 f"{destination.original}` shows what ssh makes of it") from None
    failures: list[str] = []
    for kind, _, _, _, address in addresses:
        try:
            return _connected(destination, kind, address)
        except OSError as error:
            failures.append(f"{address[0]}: {_words(error, destination.connect_timeout)}")
    raise ConnectError(
        destination.name,
        f"port {destination.port} of {destination.host} was not reached (stage: TCP): {'; '.join(failures)}",
        hint=f"see whether the host is up and sshd listens there: `ssh {destination.target} true`")


def _connected(destination: Destination, kind: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(kind, socket.SOCK_STREAM)
    try:
        # Without it each small message waits for the acknowledgement of the one before.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if destination.bind_interface:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, destination.bind_interface.encode())
        if destination.bind_address:
            own = socket.getaddrinfo(destination.bind_address, 0, kind, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
            sock.bind(own[0][4])
        sock.settimeout(destination.connect_timeout)
        sock.connect(address)
        return sock
    except BaseException:
        sock.close()
        raise


def _words(error: OSError, limit: float) -> str:
    if isinstance(error, TimeoutError) and error.errno in (None, errno.ETIMEDOUT):
        return f"no answer within {limit:.0f} s"
    return (error.strerror or str(error)).lower()


def _command(destination: Destination, command: str) -> Way:
    """A ProxyCommand, with a socket pair as its standard input and output; run by the user's shell, as in ssh."""
    ours, theirs = socket.socketpair()
    said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the connection
    shell = os.environ.get("SHELL") or "/bin/sh"
    try:
        process = subprocess.Popen(
            [shell, "-c", f"exec {command}"], stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=said.fileno(),
            start_new_session=True)
    except OSError as error:
        ours.close()
        said.close()
        raise ConnectError(destination.name, f"the ProxyCommand could not be run: {error}",
                           hint="correct ProxyCommand in ~/.ssh/config") from None
    finally:
        theirs.close()
    return Way(ours, process, said)
