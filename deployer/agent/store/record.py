"""The write-ahead record of a unit's transaction: what is about to be done is on the disk before it is done.

Whoever comes next, after a power cut too, reads from it what was interrupted. The record is made anew for each
transaction, with its disk space taken beforehand, and stays until the next one.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional

from deployer.agent.store import files
from deployer.agent.store.lines import LineFile, read_lines
from deployer.protocol import records

RESERVE = 64 << 10

STEPS = ("preflight", "stop", "clean", "install", "start", "verify", "keep")


@records.dataclass(frozen=True)
class Interrupted:
    """What a record says of a transaction: ``step`` is the last that was begun, ``ended`` whether it came to an end."""

    unit: str
    number: int
    previous: Optional[int]
    step: str
    rolling_back: bool
    kept: bool
    ended: bool
    since: float
    was_active: bool
    was_enabled: bool
    who: str = ""
    source: str = ""

    @property
    def touched(self) -> bool:
        """Whether anything on the host may have changed."""
        return self.step not in ("", "preflight")


class Record:
    """The record that a transaction writes."""

    def __init__(self, path: str) -> None:
        self._lines = LineFile(path)

    def begin(self, **facts: Any) -> None:
        """A new record in place of an older one that had ended. Raises OSError (disk full: nothing was changed yet)."""
        path = self._lines.path
        beside = path + ".new"
        files.remove(beside)
        fresh = LineFile(beside)
        fresh.create(RESERVE)
        fresh.append(dict(facts, what="begin", at=time.time()), sync=True)
        os.rename(beside, path)
        files.sync_folder(os.path.dirname(path))
        self._lines = fresh

    def resume(self) -> None:
        """Adds to the record that is there."""
        self._lines.open()

    def step(self, name: str, **facts: Any) -> None:
        """``name`` is about to be done."""
        self._lines.append(dict(facts, what="step", step=name, at=time.time()), sync=True)

    def rolling_back(self, reason: str) -> None:
        self._lines.append({"what": "rollback", "reason": reason, "at": time.time()}, sync=True)

    def end(self, outcome: str) -> None:
        self._lines.append({"what": "end", "outcome": outcome, "at": time.time()}, sync=True)
        self._lines.close()


def read(path: str) -> Optional[Interrupted]:
    """What the record at ``path`` says; None where there is none."""
    lines: List[Dict[str, Any]] = read_lines(path)
    if not lines or lines[0].get("what") != "begin":
        return None
    first = lines[0]
    steps = [line["step"] for line in lines if line.get("what") == "step"]
    kinds = {line.get("what") for line in lines}
    return Interrupted(
        unit=str(first["unit"]), number=int(first["number"]), previous=first.get("previous"),
        step=steps[-1] if steps else "", rolling_back="rollback" in kinds, kept="keep" in steps,
        ended="end" in kinds, since=float(first["at"]), was_active=bool(first.get("was_active")),
        was_enabled=bool(first.get("was_enabled")), who=str(first.get("who", "")), source=str(first.get("source", "")),
    )
