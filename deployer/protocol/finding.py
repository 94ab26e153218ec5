"""One diagnostic, made on the client or on a host."""

from __future__ import annotations

import enum
from typing import Iterable, List, Optional, Tuple

from deployer.protocol import records


class Level(enum.Enum):
    """How grave a finding is: an error stops a push before anything changes."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@records.dataclass(frozen=True)
class Where:
    """A place in a file of the admin's. ``line`` and ``column`` count from 1; None where only the file is known."""

    file: str
    line: Optional[int] = None
    column: Optional[int] = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


@records.dataclass(frozen=True)
class Finding:
    """One diagnostic.

    ``code`` is stable and dashed ("unknown-key"). ``key`` is the path in the settings, ``("args", "port")``, so that
    a finding made on a host can be given its place in the TOML file later (``where``). ``hint`` is what to write or
    to type; empty where nothing helps.
    """

    code: str
    level: Level
    message: str
    key: Tuple[str, ...] = ()
    where: Optional[Where] = None
    hint: str = ""

    def at(self, where: Optional[Where]) -> "Finding":
        """The same finding with its place, unless it has one."""
        return self if self.where or not where else records.replace(self, where=where)


_GRAVITY = {Level.ERROR: 0, Level.WARNING: 1, Level.NOTE: 2}


def in_order(findings: Iterable[Finding]) -> List[Finding]:
    """By file, line and column, the gravest first at one place; before them those that have no place."""

    def place(finding: Finding) -> Tuple[str, int, int, int]:
        where = finding.where or Where("")
        return where.file, where.line or 0, where.column or 0, _GRAVITY[finding.level]

    return sorted(findings, key=place)
