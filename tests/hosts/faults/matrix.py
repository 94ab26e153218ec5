"""All cases of the fault matrix, in an order that a seed gives; a sample takes the first of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.hosts.faults.kinds import FAULTS

FORTH = ("begin", "preflight", "stop", "clean", "install", "put1", "put2", "start", "verify", "keep", "end")
BACK = ("rollback", "back-stop", "back-clean", "back-install", "back-start", "back-verify", "end")


@dataclass(frozen=True)
class Case:
    """``fails``: the new release is not good, so that the way back is broken too. ``round``: which order it is of."""

    point: str
    fault: str
    fails: bool
    round: int = 1

    def __str__(self) -> str:
        again = f"#{self.round}" if self.round > 1 else ""
        return f"{self.fault}@{self.point}{'-failing' if self.fails else ''}{again}"


def cases(seed: int, round: int = 1) -> list[Case]:
    every = [Case(point, fault, False, round) for point in FORTH for fault in FAULTS]
    every += [Case(point, fault, True, round) for point in BACK for fault in FAULTS]
    random.Random(seed + round - 1).shuffle(every)
    return every


def chosen(seed: int, limit: int | None, named: Sequence[str] = ()) -> list[Case]:
    """The first ``limit`` cases (None: all, twice over in another order), or those that ``named`` patterns match."""
    if named:
        return [case for pattern in named for case in cases(seed) if fnmatchcase(str(case), pattern)]
    return cases(seed)[:limit] if limit else cases(seed) + cases(seed, round=2)
