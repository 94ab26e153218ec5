"""The ssh-agent (draft-miller-ssh-agent): which keys it holds, and signatures by them. Always with a time limit."""

from __future__ import annotations

import socket
import struct
import threading

from deployer.protocol.records import dataclass
from deployer.remote import wire

LIST_SECONDS = 5.0
SIGN_SECONDS = 60.0
"""A key may wait for a touch, or for a yes in a window."""

_FLAGS = {"rsa-sha2-256": 2, "rsa-sha2-512": 4}


class AgentFailed(Exception):
    """The agent is not there, does not answer, or refuses to sign."""


@dataclass(frozen=True)
class AgentKey:
    blob: bytes
    comment: str


class SshAgent:
    """One connection to an agent's socket; raises AgentFailed throughout."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(LIST_SECONDS)
        self._lock = threading.Lock()
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise AgentFailed(f"no ssh-agent at {path}: {error.strerror or error}") from None

    def list(self) -> list[AgentKey]:
        """The keys and certificates that it holds."""
        kind, body = self._ask(b"\x0b", LIST_SECONDS)
        if kind != 12:
            raise AgentFailed("the ssh-agent does not list its keys")
        reader = wire.Reader(body)
        try:
            return [AgentKey(reader.string(), reader.text()) for _ in range(reader.number())]
        except ValueError:
            raise AgentFailed("the ssh-agent answers nonsense") from None

    def sign(self, blob: bytes, data: bytes, algorithm: str) -> bytes:
        """The signature, as it goes into a userauth request."""
        flags = _FLAGS.get(algorithm.partition("-cert-v01@")[0], 0)
        request = b"\x0d" + wire.string(blob) + wire.string(data) + struct.pack(">I", flags)
        kind, body = self._ask(request, SIGN_SECONDS)
        if kind != 14:
            raise AgentFailed("the ssh-agent refuses to sign with this key")
        return wire.Reader(body).string()

    def close(self) -> None:
        self._socket.close()

    def _ask(self, request: bytes, timeout: float) -> tuple[int, bytes]:
        with self._lock:
            self._socket.settimeout(timeout)
            try:
                self._socket.sendall(wire.string(request))
                size = struct.unpack(">I", self._receive(4))[0]
                answer = self._receive(size)
            except OSError as error:
                raise AgentFailed(f"the ssh-agent does not answer: {error}") from None
        return answer[0], answer[1:]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise OSError("it closed the connection")
            data += more
        return data
