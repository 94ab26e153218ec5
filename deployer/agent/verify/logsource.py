"""The unit's log from the journal: followed, and read at once where waiting for the follower would take too long."""

from __future__ import annotations

from typing import Dict, List, Optional

from deployer.agent.verify.journal import Entry, Follower, of_invocation, read_once, since_mark
from deployer.agent.verify.mark import StartMark

READ_BEFORE = 4000
"""Entries that are known by their cursor as read, since two readers of the journal overlap."""


class LogSource:
    """From a mark on; without one, the start that runs, from its beginning. Each entry comes once."""

    def __init__(self, unit: str, mark: Optional[StartMark], invocation: str) -> None:
        self._unit, self._mark = unit, mark
        self._cursor = (mark.cursor or "") if mark else ""
        self._read: Dict[str, None] = {self._cursor: None} if self._cursor else {}
        self._beginning = mark is None
        self._follower: Optional[Follower] = None
        self._next = ""
        if mark is not None:
            self._follower = Follower(since_mark(unit, mark.cursor, mark.realtime))
        else:
            self.keep(invocation)

    def fileno(self) -> int:
        """-1 while nothing is followed. To be waited for: what is to be followed now is begun only here."""
        if self._next:
            self._follower, self._next = Follower(of_invocation(self._next, False)), ""
        return self._follower.fileno() if self._follower is not None else -1

    def keep(self, invocation: str) -> None:
        """Follows a running server once its invocation is known; goes on where a follower ended by itself."""
        if self._next:
            return
        if self._follower is None and invocation:
            self._follower = Follower(of_invocation(invocation, True))
        elif self._follower is not None and not self._follower.running and self._cursor:
            self._follower = Follower(since_mark(self._unit, self._cursor, 0.0))

    def only_new(self, invocation: str) -> None:
        """The beginning of a running server has been read: from now on only what it logs now."""
        if self._beginning and self._follower is not None:
            self._beginning = False
            self._follower.close()
            self._follower, self._next = None, invocation

    def read(self) -> List[Entry]:
        """What the follower has brought."""
        return self._once(self._follower.read() if self._follower is not None else [])

    def read_now(self) -> List[Entry]:
        """What the journal holds at this moment: a follower hears of it up to 0.25 s later (journald's own timer)."""
        return self._once(read_once(since_mark(self._unit, self._cursor, 0.0))) if self._cursor else []

    def _once(self, entries: List[Entry]) -> List[Entry]:
        entries = [entry for entry in entries if entry.cursor not in self._read]
        if entries:
            self._read.update(dict.fromkeys(entry.cursor for entry in entries))
            if len(self._read) > 2 * READ_BEFORE:
                self._read = dict.fromkeys(list(self._read)[-READ_BEFORE:])
            self._cursor = entries[-1].cursor or self._cursor
        return entries

    def close(self) -> None:
        if self._follower is not None:
            self._follower.close()
