"""The few SSH wire types (RFC 4251 section 5) that keys and authentication need."""

from __future__ import annotations

import struct


class Reader:
    """Reads fields from the front; raises ValueError when the data is cut short."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self, size: int) -> bytes:
        if size > len(self._data):
            raise ValueError("cut short")
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def number(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def string(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        return self.string().decode("utf-8", "replace")


def string(data: bytes | str) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return struct.pack(">I", len(raw)) + raw


def mpint(value: int) -> bytes:
    return string(value.to_bytes(value.bit_length() // 8 + 1, "big") if value else b"")


def kind_of(blob: bytes) -> str:
    """The kind that a public key or certificate names itself; empty for what is none."""
    try:
        return Reader(blob).text()
    except ValueError:
        return ""


def plain_of(blob: bytes) -> bytes:
    """The bare public key inside a certificate (PROTOCOL.certkeys); of a bare key, itself. Raises ValueError."""
    reader = Reader(blob)
    kind = reader.text()
    base, cut, _ = kind.partition("-cert-v01@openssh.com")
    if not cut:
        return blob
    reader.string()                                  # nonce
    fields = {"ssh-rsa": 2, "ssh-ed25519": 1}.get(base, 2)
    return string(base) + b"".join(string(reader.string()) for _ in range(fields))
