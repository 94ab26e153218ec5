"""The events of a transaction: a root-only file with sequence numbers, through the one redactor.

Every client, the first one included, only follows this file.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, Iterator, Tuple

from deployer.agent.store.lines import Follower, LineFile
from deployer.protocol.message import RESULT, Event
from deployer.protocol.redact import Redactor

RESERVE = 512 << 10
LIMIT = 8 << 20
"""Bytes after which only what matters is still written (steps, gates, findings, the result)."""

_TALK = ("progress", "log")


class EventFile:
    """Where a transaction says what happens. A full disk silences it, but never stops the transaction."""

    def __init__(self, path: str, redactor: Redactor) -> None:
        self._lines = LineFile(path)
        self._redactor = redactor
        self._seq = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def create(self) -> None:
        """Raises OSError where there is no room: nothing was changed yet."""
        self._lines.create(RESERVE)

    def resume(self) -> None:
        """Goes on behind what a killed transaction had said. Raises FileNotFoundError."""
        self._lines.open()
        self._seq = max((int(line.get("seq", 0)) for line in Follower(self._lines.path).new()), default=0)

    def emit(self, event: str, data: Dict[str, Any]) -> None:
        with self._lock:
            if event in _TALK and self._bytes > LIMIT:
                return
            self._seq += 1
            line = {"v": 1, "seq": self._seq, "at": time.time(), "event": event, "data": self._redactor.plain(data)}
            self._bytes += len(str(line))
            try:
                self._lines.append(line)
            except OSError:
                pass

    def close(self) -> None:
        self._lines.close()


def follow(path: str, after: int) -> Iterator[Tuple[Event, ...]]:
    """Endless batches (often empty) of the events behind number ``after``; the caller waits between them."""
    follower = Follower(path)
    while True:
        yield tuple(
            Event(event=str(line["event"]), data=line.get("data") or {}, seq=int(line.get("seq", 0)),
                  at=float(line.get("at", 0.0)))
            for line in follower.new() if int(line.get("seq", 0)) > after and "event" in line
        )


def ended(events: Tuple[Event, ...]) -> bool:
    return any(event.event == RESULT for event in events)
