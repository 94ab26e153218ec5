"""One HTTP/1.1 exchange over one connection (RFC 9112): what is asked of a server on the agent's own host.

Not ``http.client``: importing it (with email and ssl) takes 26 ms of CPU, more than all the rest of a verification that
has nothing to wait for, at every contact with a host. ``ssl`` is loaded where the server speaks TLS.
"""

from __future__ import annotations

import socket
from typing import Any, Dict, Iterator, Mapping, Optional

LINE = 1 << 16
HEADERS = 200
PIECE = 1 << 16


class Nonsense(ValueError):
    """What came is no HTTP/1 response; the text says where it is not."""


def connected(host: str, port: int, timeout: float) -> socket.socket:
    """A connection to an address or a name. Raises OSError.

    Bytes, since Python loads a codec (2 ms) for each host that is a text. The names of SGLang's hosts are ASCII.
    """
    return socket.create_connection((host.encode("ascii", "replace"), port), timeout)  # type: ignore[arg-type]


class Exchange:
    """A request that was sent and the response as it comes. ``status`` and ``fields`` (names in lower case) are read.

    Raises OSError (a peer that closes without a word is a ConnectionResetError) and Nonsense. ``timeout`` in seconds is
    that of each wait, not of the whole.
    """

    def __init__(self, host: str, port: int, method: str, path: str, fields: Mapping[str, str], body: Optional[bytes],
                 timeout: float, tls: bool = False) -> None:
        self._reader: Any = None
        self._socket = connected(host, port, timeout)
        try:
            if tls:
                self._socket = _encrypted(self._socket)
            self._socket.sendall(_request(host, port, method, path, fields, body))
            self._reader = self._socket.makefile("rb")
            self.status = self._status()
            while 100 <= self.status < 200:          # interim: the real one follows
                self._headers()
                self.status = self._status()
            self.fields = self._headers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._socket.close()

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes, decoded from its chunks. One that ends too early is a ConnectionResetError."""
        if self.status in (204, 304):
            return
        if "chunked" in self.fields.get("transfer-encoding", "").lower():
            yield from self._chunks()
            return
        length = self.fields.get("content-length")
        if length is None:
            yield from iter(lambda: self._some(PIECE), b"")
            return
        if not length.isdigit():
            raise Nonsense("content-length {!r}".format(length[:40]))
        yield from self._exactly(int(length))

    def lines(self) -> Iterator[bytes]:
        """The body by lines, without their ends: server-sent events."""
        rest = b""
        for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r")
        if rest:
            yield rest

    def _status(self) -> int:
        line = self._line()
        version, _, rest = line.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise Nonsense("no HTTP response: {!r}".format(line[:60]))
        return int(rest[:3])

    def _headers(self) -> Dict[str, str]:
        found: Dict[str, str] = {}
        for _ in range(HEADERS):
            line = self._line()
            if not line:
                return found
            name, _, value = line.decode("latin-1").partition(":")
            found[name.strip().lower()] = value.strip()
        raise Nonsense("more than {} header lines".format(HEADERS))

    def _line(self) -> bytes:
        line: bytes = self._reader.readline(LINE)
        if not line.endswith(b"\n"):
            if len(line) == LINE:
                raise Nonsense("a line of more than {} bytes".format(LINE))
            raise ConnectionResetError("the server closed the connection")
        return line.rstrip(b"\r\n")

    def _chunks(self) -> Iterator[bytes]:
        while True:
            text = self._line().partition(b";")[0].strip()
            try:
                size = int(text, 16)
            except ValueError:
                raise Nonsense("chunk size {!r}".format(text[:40])) from None
            if size == 0:
                self._headers()
                return
            yield from self._exactly(size)
            if self._line():
                raise Nonsense("no line end after a chunk")

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._some(min(size, PIECE))
            if not piece:
                raise ConnectionResetError("the answer breaks off")
            size -= len(piece)
            yield piece

    def _some(self, most: int) -> bytes:
        return bytes(self._reader.read1(most))


def _request(host: str, port: int, method: str, path: str, fields: Mapping[str, str], body: Optional[bytes]) -> bytes:
    name = "[{}]".format(host) if ":" in host else host
    whole = {"Host": "{}:{}".format(name, port), "Accept-Encoding": "identity", "Connection": "close", **fields}
    if body is not None:
        whole["Content-Length"] = str(len(body))
    lines = ["{} {} HTTP/1.1".format(method, path), *("{}: {}".format(name, value) for name, value in whole.items())]
    text = "\r\n".join(lines)
    if any(ord(sign) < 32 for line in lines for sign in line):
        raise Nonsense("a control character in the request")      # a key with a line end would add header lines
    return (text + "\r\n\r\n").encode("latin-1") + (body or b"")


def _encrypted(plain: socket.socket) -> socket.socket:
    """TLS without a proof of identity: who holds the port is proven by its socket, not by a certificate."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)
