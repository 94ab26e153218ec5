"""paramiko, brought in late, quietly and without what it does not need here."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

_LOADING = threading.Lock()


def load() -> Any:
    """The paramiko package. Its import is the slow part of a connection, so it comes after the TCP connect.

    Its logger prints traces to stderr where nobody configured logging, and they may hold what was sent: silenced.
    Its ``config`` module wants ``invoke`` for Match exec (100 ms of import) but does without it; it is not used here.
    """
    with _LOADING:
        if "paramiko" not in sys.modules:
            absent = "invoke" not in sys.modules
            if absent:
                sys.modules["invoke"] = None  # type: ignore[assignment]
            try:
                import paramiko
            finally:
                if absent:
                    del sys.modules["invoke"]
            logger = logging.getLogger("paramiko")
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
        import paramiko

        return paramiko


def new(sock: Any) -> Any:
    """A transport over ``sock`` that keeps the host key as it came (``host_blob``: a certificate stays one)."""
    paramiko = load()

    class Transport(paramiko.Transport):  # type: ignore[misc, name-defined]
        host_blob = b""

        def _verify_key(self, host_key: bytes, sig: bytes) -> None:
            super()._verify_key(host_key, sig)
            self.host_blob = host_key

    return Transport(sock)


def end(transport: Any) -> None:
    """Ends it without waiting: its thread dies with the socket. The handshake's timer would keep the process alive."""
    transport.packetizer.complete_handshake()
    transport.active = False
    transport.packetizer.close()
