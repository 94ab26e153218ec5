"""Questions that may hang, each in a thread of its own, answered to the one loop that waits."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Dict, List, Set

Answer = Dict[str, Any]


class Aside:
    """Never two questions of the same name at a time. ``fileno()`` becomes readable when an answer has come."""

    def __init__(self) -> None:
        self._awake, self._waker = os.pipe()
        os.set_blocking(self._awake, False)
        os.set_blocking(self._waker, False)
        self._lock = threading.Lock()
        self._done: List[Callable[[], None]] = []
        self._busy: Set[str] = set()
        self._closed = False

    def fileno(self) -> int:
        return self._awake

    def ask(self, name: str, act: Callable[[], Answer], finish: Callable[[Answer], None]) -> None:
        """Runs ``act`` aside unless one of that name is under way; ``finish`` runs later, in ``collect``."""
        if name in self._busy:
            return
        self._busy.add(name)

        def work() -> None:
            try:
                value = act()
            except Exception as error:
                value = {"status": None, "error": "other", "detail": "{}: {}".format(type(error).__name__, error)}
            with self._lock:
                if not self._closed:
                    self._done.append(lambda: self._finish(name, value, finish))
                    os.write(self._waker, b"x")

        threading.Thread(target=work, daemon=True, name="verify-" + name).start()

    def _finish(self, name: str, value: Answer, finish: Callable[[Answer], None]) -> None:
        self._busy.discard(name)
        finish(value)

    def collect(self) -> None:
        """Hands out the answers that have come, in the caller's own thread."""
        try:
            os.read(self._awake, 4096)
        except BlockingIOError:
            return
        with self._lock:
            done, self._done = self._done, []
        for finish in done:
            finish()

    def close(self) -> None:
        """Threads that still wait for an answer end at their own limit; what they bring then is dropped."""
        with self._lock:
            self._closed = True
            os.close(self._awake)
            os.close(self._waker)
