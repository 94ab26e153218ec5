"""Random layouts of processes, and what must become of each: decided from the description alone, never from /proc.

The rules are DESIGN's: the control group first, then what lives (unit, session, container), then the marker, then
descent; an orphan is SGLang of nobody.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

TARGET = "qwen.service"
OURS = (TARGET, "other.service", "third.service")
"""Kept by the tool on the host."""
STRANGERS = ("vllm.service", "old.service")
HEX = "0123456789abcdef" * 4
SGLANG, PLAIN = "sglang::scheduler_TP0", "python3 train.py"


@dataclass(frozen=True)
class Place:
    """``kind``: unit, session, container or none; ``name``: the unit's."""

    path: str
    kind: str
    name: str = ""


@dataclass
class One:
    """One process. ``run``: whose start its INVOCATION_ID is: "", "earlier" or "present"."""

    id: int
    place: Place
    title: str
    marker: str = ""
    run: str = ""
    gpu: int | None = None
    setsid: bool = False
    leaves: bool = False
    parent: One | None = field(default=None, repr=False)
    child: One | None = None

    @property
    def sglang(self) -> bool:
        return self.title == SGLANG


@dataclass
class Layout:
    """A tree of one to three processes. ``kept``: the program that made it is still its parent."""

    top: One
    kept: bool

    def processes(self) -> list[One]:
        found, one = [], self.top
        while one:
            found.append(one)
            one = one.child                        # type: ignore[assignment]
        return found


def places(session: str, closing: str, user: str) -> list[Place]:
    units = [Place(f"/system.slice/{name}", "unit", name) for name in (*OURS, *STRANGERS)]
    below = [Place(f"/system.slice/{TARGET}/worker", "unit", TARGET)]
    managed = (f"{user}/app.slice/x.service", f"{user}/app.slice/{TARGET}")
    sessions = [Place(path, "session") for path in (session, closing, *managed)]
    containers = [Place(path, "container") for path in (
        f"/docker/{HEX}", f"/system.slice/docker-{HEX}.scope", f"/kubepods/besteffort/pod1/{HEX}",
        f"/docker/{HEX}/system.slice/{TARGET}", f"/lxc.payload.c1/system.slice/{TARGET}",
        f"/lxc/129/ns/system.slice/{TARGET}", f"/machine.slice/machine-x.scope/system.slice/{TARGET}",
        f"/elsewhere/system.slice/{TARGET}",
    )]
    nowhere = [Place(path, "none") for path in ("/", "/system.slice", "/batch")]
    return [*units, *units, *below, *sessions, *containers, *nowhere * 5]


def layout(rng: random.Random, where: list[Place], first: int) -> Layout:
    depth = rng.choice((1, 1, 2, 3))
    ones = []
    for number in range(depth):
        marker = rng.choice(("", "", TARGET, *OURS))
        title, run = rng.choice((SGLANG, SGLANG, PLAIN)), rng.choice(("", "earlier", "present"))
        ones.append(One(first + number, rng.choice(where), title, marker, run if marker else "",
                        rng.choice((0, 1, 1, None)), rng.random() < 0.5))
    for parent, child in itertools.pairwise(ones):
        parent.child, child.parent = child, parent
        if rng.random() < 0.5:
            child.place = parent.place
    if depth > 1 and rng.random() < 0.3:
        ones[0].leaves = True                      # the parent goes, its child is left to PID 1
    return Layout(ones[0], rng.random() < 0.15 and not ones[0].leaves)


def config(one: One, invocations: dict[str, str]) -> dict[str, Any]:
    """For build.py."""
    env = {}
    if one.marker:
        env["DEPLOYER_UNIT"] = one.marker
    if one.run == "earlier":
        env["INVOCATION_ID"] = "e" * 32
    elif one.run == "present" and invocations.get(one.marker):
        env["INVOCATION_ID"] = invocations[one.marker]
    return {"id": one.id, "path": one.place.path, "title": one.title, "env": env, "gpu": one.gpu, "mib": 1000 + one.id,
            "setsid": one.setsid, "leaves": one.leaves, "child": config(one.child, invocations) if one.child else None}


class Oracle:
    """``live``: the units that run."""

    def __init__(self, live: set[str], kept: bool) -> None:
        self.live = live
        self.kept = kept

    def whose(self, one: One) -> tuple[str, str, bool]:
        """Class, unit, whether it is part of something alive."""
        if self._in_ours(one):
            return "own", one.place.name, one.place.name in self.live
        if self._belongs(one):
            return "foreign", "", True
        marked = self._marked(one)
        if marked:
            return marked
        for parent in self._above(one):
            if self._in_ours(parent):
                return "own", parent.place.name, parent.place.name in self.live
            if self._belongs(parent):
                break
            marked = self._marked(parent)
            if marked:
                return marked
        return self._nobodys(one)

    def _nobodys(self, one: One) -> tuple[str, str, bool]:
        above = self._above(one)
        if self.kept or any(self._belongs(parent) for parent in above):
            return "foreign", "", True
        # All that the topmost SGLang process brought forth is its family; whatever stands above it lives.
        line = [*above[::-1], one]
        return ("orphan", "", False) if line[0].sglang else ("foreign", "", any(each.sglang for each in line))

    def _above(self, one: One) -> list[One]:
        found, parent = [], one.parent
        while parent and not parent.leaves:
            found.append(parent)
            parent = parent.parent
        return found

    def _in_ours(self, one: One) -> bool:
        return one.place.kind == "unit" and one.place.name in OURS

    def _belongs(self, one: One) -> bool:
        if one.place.kind == "unit":
            return one.place.name in self.live and one.place.name not in OURS
        return one.place.kind in ("session", "container")

    def _marked(self, one: One) -> tuple[str, str, bool] | None:
        if not one.marker:
            return None
        if one.marker not in self.live:
            return "own", one.marker, False
        inside = any(parent.place.kind == "unit" and parent.place.name == one.marker for parent in self._above(one))
        return "own", one.marker, one.run != "earlier" or inside


def to_end(layout: Layout, live: set[str], scope: str, unit: str | None) -> set[int]:
    """The ids of those that a clean must end, and no others."""
    oracle = Oracle(live, layout.kept)
    there = [one for one in layout.processes() if not one.leaves]
    kinds = {one.id: oracle.whose(one) for one in there}
    holds = {one.id: one.gpu is not None for one in there}
    family = any(kinds[one.id][0] == "orphan" and holds[one.id] for one in there)
    ended = set()
    for one in there:
        kind, whose, alive = kinds[one.id]
        if kind == "own" and not alive:
            mine = unit is None or whose == unit
            if mine or (scope == "orphans" and holds[one.id]):
                ended.add(one.id)
        if kind == "orphan" and scope == "orphans" and family:
            ended.add(one.id)
    return ended
