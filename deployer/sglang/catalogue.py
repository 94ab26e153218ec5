"""What is known of the server arguments of every release: SGLang's from 0.4.0, the router's from 0.0.5.

Facts come from the published wheels (``scripts/build_catalogue.py``), read statically.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from deployer.protocol.records import dataclass
from deployer.resources import package
from deployer.sglang import version
from deployer.sglang.flag import Flag, dashed
from deployer.sglang.record import from_record, to_record

PREFERRED = ("--tp-size", "--dp-size", "--ep-size", "--pp-size")
"""Short spellings to write rather than the primary ones, which changed with 0.5.14: these are valid throughout."""


@dataclass(frozen=True)
class Span:
    """An argument registered alike from ``first`` on; ``until`` is the first release that differs, None: none yet."""

    first: str
    until: str | None
    flag: Flag


class Catalogue:
    """``releases`` oldest first. Names are taken as they are declared: with or without dashes, or with underscores."""

    def __init__(self, program: str, part: Mapping[str, Any]) -> None:
        self.program = program
        self.releases: tuple[str, ...] = tuple(part["releases"])
        self._order = {release: index for index, release in enumerate(self.releases)}
        self._rows: list[tuple[int, int, dict[str, Any]]] = [
            (self._order[first], self._order[last] if last else len(self.releases) - 1, record)
            for first, last, record in part["flags"]
        ]
        self._successors: Mapping[str, str] = part["successors"]
        self._made: dict[int, Flag] = {}
        self._required: dict[str, tuple[Flag, ...]] = {}
        self._matching: dict[str, list[str]] = {}
        self._flags: dict[str, Mapping[str, Flag]] = {}
        self._spellings: dict[str, Mapping[str, Flag]] = {}

    @property
    def newest(self) -> str:
        return self.releases[-1]

    def matching(self, specifier: str) -> list[str]:
        """The known releases that a declared release or specifier means, oldest first.

        Raises ``version.Unreadable`` where it is neither.
        """
        if specifier not in self._matching:
            self._matching[specifier] = version.matching(specifier, self.releases)
        return list(self._matching[specifier])

    def has(self, release: str) -> bool:
        """Whether a release is known; a local build ("0.5.9+cu129") is its release."""
        return release.split("+")[0] in self._order

    def beside(self, release: str, flags: Iterable[Flag]) -> Catalogue:
        """This catalogue with one release more, placed by its number: what a host has that is not known here."""
        releases = sorted([*self.releases, release], key=version.parsed)
        wider = Catalogue(self.program, {"releases": releases, "flags": [], "successors": self._successors})
        moved = [(wider._order[self.releases[begin]], wider._order[self.releases[end]], record)
                 for begin, end, record in self._rows]
        at = wider._order[release]
        wider._rows = [part for row in moved for part in _without(row, at)]
        wider._rows += [(at, at, to_record(flag)) for flag in flags]
        return wider

    def order(self, release: str) -> int:
        """The place of a known release among all, oldest first. Raises KeyError."""
        return self._order[release]

    def standing(self, release: str) -> str:
        """The release to judge by: itself, else the newest known one that is not newer."""
        if release in self._order:
            return release
        return version.nearest(release, self.releases)

    def flags(self, release: str) -> Mapping[str, Flag]:
        """What a known release registers, by its primary spelling. Raises KeyError."""
        if release not in self._flags:
            at = self._order[release]
            found = (self._flag(row) for row, (first, last, _) in enumerate(self._rows) if first <= at <= last)
            self._flags[release] = {flag.name: flag for flag in found}
        return self._flags[release]

    def _flag(self, row: int) -> Flag:
        """The same object for every release that registers it alike."""
        if row not in self._made:
            self._made[row] = from_record(self._rows[row][2])
        return self._made[row]

    def spellings(self, release: str) -> Mapping[str, Flag]:
        """Every spelling that a known release takes. Raises KeyError."""
        if release not in self._spellings:
            found = {name: flag for flag in self.flags(release).values() for name in flag.spellings}
            self._spellings[release] = found
        return self._spellings[release]

    def find(self, release: str, name: str) -> Flag | None:
        """The argument of that exact name in a known release. Raises KeyError for one that is not known."""
        at = self._order[release]
        rows = self._index.get(dashed(name), ())
        return next((self._flag(row) for row in rows if self._rows[row][0] <= at <= self._rows[row][1]), None)

    def required(self, release: str) -> tuple[Flag, ...]:
        """What a known release insists on."""
        if release not in self._required:
            self._required[release] = tuple(flag for flag in self.flags(release).values() if flag.required)
        return self._required[release]

    def abbreviated(self, release: str, name: str) -> list[str]:
        """The spellings that begin with ``name``: argparse takes it where there is exactly one."""
        return sorted(s for s in self.spellings(release) if s.startswith(dashed(name)))

    def spelling(self, release: str, name: str) -> str | None:
        """The spelling to write for a declared name: valid in the release, or in every release of a specifier.

        The primary one, but the short ones of ``PREFERRED``. A unique abbreviation is written out. None where the
        name is not known there.
        """
        releases = [release] if release in self._order else self.matching(release) or [self.standing(release)]
        flags = [self.find(each, self._whole(each, name)) for each in releases]
        if not all(flags):
            return None
        last = flags[-1]
        assert last is not None
        wanted = dashed(self._whole(releases[-1], name))
        if wanted.startswith("--no-") and wanted != last.name:
            return wanted
        candidates = [*(s for s in PREFERRED if s in last.spellings), last.name, wanted, *last.aliases]
        return next((c for c in candidates if all(flag and c in flag.spellings for flag in flags)), None)

    def _whole(self, release: str, name: str) -> str:
        if self.find(release, name) is None:
            found = self.abbreviated(release, name)
            if len(found) == 1:
                return found[0]
        return name

    def dest(self, name: str) -> str:
        """Where the value of a declared name is kept (``tp_size``); the name itself where it is not known."""
        spans = self.history(self._whole(self.newest, name))
        return spans[-1].flag.dest if spans else dashed(name)[2:].replace("-", "_")

    def history(self, name: str) -> tuple[Span, ...]:
        """Every form in which a spelling was registered, oldest first; empty where it never was."""
        rows = self._index.get(dashed(name), ())
        return tuple(Span(self.releases[self._rows[row][0]], self._after(self._rows[row][1]), self._flag(row))
                     for row in rows)

    def _after(self, index: int) -> str | None:
        return self.releases[index + 1] if index + 1 < len(self.releases) else None

    @functools.cached_property
    def _index(self) -> Mapping[str, list[int]]:
        """Spelling -> its rows, oldest first."""
        index: dict[str, list[int]] = {}
        for row in sorted(range(len(self._rows)), key=lambda row: self._rows[row][0]):
            record = self._rows[row][2]
            for spelling in (record["name"], *record.get("aliases", ())):
                index.setdefault(spelling, []).append(row)
        return index

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling that ever was registered."""
        return tuple(sorted(self._index))

    def instead(self, name: str) -> str | None:
        """What to write in place of a retired argument, as the releases say it: a flag with its value, or a variable.

        Where that flag was retired too, what stands in its own place.
        """
        spelling, seen, answer = dashed(name), set[str](), None
        while spelling not in seen:
            seen.add(spelling)
            spans = self.history(spelling)
            said = self._successors.get(spelling) or (spans[-1].flag.instead if spans else None)
            if not said:
                return answer
            answer = said
            spelling = dashed(said.split("=")[0].split(" ")[0].split("{")[0]) if said.startswith("--") else spelling
        return answer


def _without(row: tuple[int, int, dict[str, Any]], at: int) -> list[tuple[int, int, dict[str, Any]]]:
    """A range of releases without one in its middle."""
    first, last, record = row
    if not first <= at <= last:
        return [row]
    return [(begin, end, record) for begin, end in ((first, at - 1), (at + 1, last)) if begin <= end]


@functools.cache
def catalogue(program: str = "sglang") -> Catalogue:
    """The catalogue of "sglang" or "router"."""
    return Catalogue(program, _data()[program])


@functools.cache
def _data() -> Any:
    return json.loads(package("sglang").joinpath("catalogue.json").read_text("utf-8"))
