"""All cases of the fault matrix, in an order that a seed gives; a sample takes the first of them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.hosts.faults.kinds import FAULTS

FORTH = ("begin", "preflight", "stop", "clean", "install", "put1", "put2", "start", "verify", "keep", "end")
BACK = ("rollback", "back-stop", "back-clean", "back-install", "back-start", "back-verify", "end")


@dataclass(frozen=True)
class Case:
    """``fails``: the new release is not good, so that the way back is broken too."""

    point: str
    fault: str
    fails: bool

    def __str__(self) -> str:
        return f"{self.fault}@{self.point}{'-failing' if self.fails else ''}"


def cases(seed: int) -> list[Case]:
    every = [Case(point, fault, False) for point in FORTH for fault in FAULTS]
    every += [Case(point, fault, True) for point in BACK for fault in FAULTS]
    random.Random(seed).shuffle(every)
    return every


def batches(seed: int, size: int, limit: int | None) -> list[list[Case]]:
    """The first ``limit`` cases (None: all, twice over in another order) in batches for one host each."""
    chosen = cases(seed)[:limit] if limit else cases(seed) + cases(seed + 1)
    return [chosen[start:start + size] for start in range(0, len(chosen), size)]
