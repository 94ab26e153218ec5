"""The bytes between client and agent, whatever carries them: an SSH channel or two pipes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Protocol

from deployer.protocol.records import dataclass


@dataclass(frozen=True)
class Chunk:
    """Bytes from the other side; ``error`` where they came on its stderr. Both ended: ``data`` empty."""

    data: bytes
    error: bool = False


class StreamEnded(Exception):
    """Nothing can be written any more: the other side has gone, or does not take what is sent."""


class Stream(Protocol):
    """What a session needs of its connection. ``close`` may come from any thread, and never hangs.

    ``silence``: seconds without a sign of life after which the admin's settings give the host up; None: not said.
    """

    silence: float | None

    def read(self, timeout: float) -> Chunk | None:
        """The next bytes; None when ``timeout`` seconds brought none."""

    def write(self, data: bytes, timeout: float) -> None:
        """Writes all of ``data``; raises StreamEnded, also when nothing is taken for ``timeout`` seconds."""

    def status(self) -> int | None:
        """The exit status of the other side's program, where it is known."""

    def why(self) -> str:
        """What is known of how the connection itself ended; empty where it ended in order."""

    def close(self) -> None:
        """Ends it; what runs on the other side sees the end of its input."""


class PipeStream:
    """A program of this machine over pipes. Ended with its whole process group, in at most about two seconds."""

    silence: float | None = None

    def __init__(self, argv: Sequence[str]) -> None:
        """Raises OSError."""
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in, self._out, self._err = (
            pipe.fileno() for pipe in (self._process.stdin, self._process.stdout, self._process.stderr))
        os.set_blocking(self._in, False)
        self._open = {self._out, self._err}
        self._closed = False
        # A close from another thread must wake a reader: closing a descriptor does not wake a poll on it.
        self._wake_read, self._wake_write = os.pipe()

    def read(self, timeout: float) -> Chunk | None:
        until = time.monotonic() + timeout
        while self._open and not self._closed:
            watch = select.poll()
            for descriptor in (*self._open, self._wake_read):
                watch.register(descriptor, select.POLLIN)
            ready = [number for number, _ in watch.poll(max(0.0, until - time.monotonic()) * 1000)]
            if not ready:
                return None
            if self._closed or self._wake_read in ready:
                break
            for descriptor in sorted(ready, key=lambda number: number != self._out):
                data = os.read(descriptor, 65536)
                if data:
                    return Chunk(data, error=descriptor == self._err)
                self._open.discard(descriptor)
        return Chunk(b"")

    def write(self, data: bytes, timeout: float) -> None:
        rest = memoryview(data)
        while rest:
            if self._closed:
                raise StreamEnded("closed")
            watch = select.poll()
            watch.register(self._in, select.POLLOUT)
            if not watch.poll(timeout * 1000):
                raise StreamEnded(f"nothing was taken for {timeout:.0f} s")
            try:
                rest = rest[os.write(self._in, rest):]
            except BlockingIOError:
                continue
            except OSError as error:
                raise StreamEnded(str(error.strerror)) from None

    def status(self) -> int | None:
        try:
            return self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            return None

    def why(self) -> str:
        return ""

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        os.write(self._wake_write, b"x")
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self._process.pid, number)
                    self._process.wait(0.5)
                    break
                except (ProcessLookupError, PermissionError):
                    break                            # gone, or root's by way of sudo: it sees the end of its input
                except subprocess.TimeoutExpired:
                    continue
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        os.close(self._wake_write)
