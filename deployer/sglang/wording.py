"""Releases and arguments in the words of a message."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Sequence

from deployer.sglang.catalogue import Catalogue
from deployer.sglang.flag import dashed, strip

TITLES = {"sglang": "SGLang", "router": "sglang-router"}

HERE = "\x00"
"""Stands in a sentence where the releases are named that it is about."""


def runs(found: Iterable[str], order: Sequence[str]) -> str:
    """Releases in words: "0.5.3", "0.5.4 to 0.5.9", "0.5.4 to 0.5.9 and 0.5.12"."""
    wanted = set(found)
    parts: list[list[str]] = []
    previous = -2
    for index, release in enumerate(order):
        if release not in wanted:
            continue
        if index == previous + 1:
            parts[-1].append(release)
        else:
            parts.append([release])
        previous = index
    words = [part[0] if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def came(known: Catalogue, name: str) -> str | None:
    """The first release that registers a spelling."""
    spans = known.history(name)
    return spans[0].first if spans else None


def gone(known: Catalogue, name: str) -> str | None:
    """The first release that does not register a spelling any more."""
    spans = known.history(name)
    return spans[-1].until if spans else None


@functools.lru_cache(maxsize=512)
def near(known: Catalogue, release: str, name: str, most: int = 3) -> list[str]:
    """Names of a release's arguments that are spelled alike, or hold every word of ``name``; without dashes."""
    wanted = strip(dashed(name))
    names = [strip(spelling) for spelling in known.spellings(release)]
    alike = difflib.get_close_matches(wanted, names, n=most, cutoff=0.75)
    words = set(wanted.split("-"))
    holding = sorted((n for n in names if len(words) > 1 and words <= set(n.split("-"))), key=len)
    loose = difflib.get_close_matches(wanted, names, n=1, cutoff=0.6)
    return list(dict.fromkeys([*alike, *holding, *loose]))[:most]


def setting(instead: str, value: str = "…") -> str:
    """What a release says to write, as lines of the settings: ``moe-a2a-backend = "deepep"``.

    ``value`` is what to write where the release names none, as TOML; "" for an argument that is named alone.
    """
    flag, _, given = instead.replace("=", " ", 1).partition(" ")
    if not flag.startswith("--"):
        return f"{instead} under [env]"
    if "{" in flag:
        head, _, rest = flag.partition("{")
        inner, _, tail = rest.partition("}")
        return " and ".join(setting(f"{head}{each}{tail} {given}".strip(), value) for each in inner.split(","))
    written = f'"{given}"' if given else value
    return f"{strip(flag)} = {written}" if written else strip(flag)
