"""Who of several hosts may be changed, and when. Looking at a host needs no turn: it changes nothing.

The first host to be changed is the canary: it goes alone, and the others wait until it has ended well. After too many
failures, of whatever kind, nobody's turn comes any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from deployer.errors import RefusedError

Told = Callable[[str], None]


class NotBegunError(RefusedError):
    """An earlier host failed: this one is left as it was."""


class Turns:
    """Shared by the threads of one rollout. ``hosts`` in the order in which one of them becomes the canary."""

    def __init__(self, hosts: Sequence[str], max_failures: int = 0) -> None:
        self._waiting = list(hosts)                  # not ended yet
        self._max_failures = max_failures
        self._failed = 0
        self._inside: set[str] = set()
        self._proven = len(hosts) == 1
        self._news = threading.Condition()

    def take(self, host: str, told: Told = lambda text: None) -> float:
        """Waits until ``host`` may be changed; the seconds that it took. Raises NotBegunError.

        ``told`` hears what is waited for, where there is a wait.
        """
        begun = time.monotonic()
        with self._news:
            while host not in self._inside and self._open():
                if self._proven or (not self._inside and self._waiting[:1] == [host]):
                    self._inside.add(host)
                    break
                first = next(iter(self._inside), self._waiting[0])
                told(f"waits for {first}, which goes first")
                self._news.wait()
            if host not in self._inside:
                raise NotBegunError("not begun: an earlier host failed")
        return time.monotonic() - begun

    def ended(self, host: str, failed: bool) -> None:
        """``host`` needs no turn any more."""
        with self._news:
            changed = host in self._inside
            self._inside.discard(host)
            if host in self._waiting:
                self._waiting.remove(host)
            self._failed += failed
            self._proven = self._proven or (changed and not failed)
            self._news.notify_all()

    def under_way(self) -> frozenset[str]:
        """Hosts that had their turn and have not ended: something may have begun there."""
        with self._news:
            return frozenset(self._inside)

    def open(self) -> bool:
        """Whether a further host may be begun at all."""
        with self._news:
            return self._open()

    def _open(self) -> bool:
        return self._failed <= self._max_failures
