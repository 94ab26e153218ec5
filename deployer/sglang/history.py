"""An argument over the releases: since when, until when, what changed, and what stands in its place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deployer.protocol.records import dataclass
from deployer.sglang.catalogue import Catalogue, Span
from deployer.sglang.flag import Flag, flag_in
from deployer.sglang.values import kind_words


@dataclass(frozen=True)
class Entry:
    """A flag as its newest (or asked) release registers it. ``since``: the first release with it, ``removed``: the
    first without it any more, ``deprecated``: the first that calls it so; ``successor``: the flag to write instead."""

    flag: Flag
    since: str
    removed: str | None
    deprecated: str | None
    successor: str | None

    def plain(self) -> dict[str, Any]:
        """The shape of ``deployer flags --json``."""
        flag = self.flag
        return {
            "name": flag.name, "aliases": list(flag.aliases), "type": flag.type,
            "choices": None if flag.choices is None else list(flag.choices), "nargs": flag.nargs,
            "default": flag.default, "required": flag.required, "since": self.since, "removed": self.removed,
            "deprecated": self.deprecated, "successor": self.successor,
        }


def entry(known: Catalogue, name: str, release: str | None = None) -> Entry | None:
    """What is known of a spelling; with ``release`` as that known release registers it, None where it does not."""
    spans = known.history(name)
    if not spans:
        return None
    if release is None:
        return _entry(known, spans, spans[-1].flag)
    flag = known.find(release, name)
    return _entry(known, spans, flag) if flag else None


def entries(known: Catalogue, release: str | None = None) -> list[Entry]:
    """Every flag by name: of a known release, or all that ever were (one entry for all spellings of a flag)."""
    if release is not None:
        found = [entry(known, flag.name, release) for flag in known.flags(release).values()]
        return sorted((each for each in found if each), key=lambda each: each.flag.name)
    return [_entry(known, spans, spans[-1].flag) for spans in _families(known)]


def _entry(known: Catalogue, spans: Sequence[Span], flag: Flag) -> Entry:
    until = spans[-1].until
    deprecated = next((span.first for span in spans if span.flag.deprecated), None) if flag.deprecated else None
    retired = flag.deprecated or until is not None
    successor = flag_in(known.instead(flag.name)) if retired else None
    return Entry(flag, spans[0].first, until, deprecated, successor if successor != flag.name else None)


def _families(known: Catalogue) -> Iterable[list[Span]]:
    """All forms of a flag, oldest first: those that share a spelling in any release are one flag."""
    home: dict[str, str] = {}

    def find(name: str) -> str:
        while home.setdefault(name, name) != name:
            name = home[name]
        return name

    spans = {name: known.history(name) for name in known.names}
    for name, found in spans.items():
        for span in found:
            for other in span.flag.spellings:
                home[find(other)] = find(name)
    families: dict[str, dict[tuple[str, str], Span]] = {}
    for name, found in spans.items():
        for span in found:
            families.setdefault(find(name), {})[span.first, span.flag.name] = span
    order = known.order
    sorted_families = [sorted(family.values(), key=lambda span: order(span.first)) for family in families.values()]
    return sorted(sorted_families, key=lambda family: family[-1].flag.name)


def changes(known: Catalogue, name: str) -> list[tuple[str, str]]:
    """What changed with which release, in words; the first release and the removal among them."""
    spans = known.history(name)
    said: list[tuple[str, str]] = []
    for before, after in zip((None, *spans), spans, strict=False):
        if before is None:
            said.append((after.first, _described(after.flag)))
            continue
        if before.until != after.first:
            said.append((str(before.until), "gone"))
            said.append((after.first, "back: " + _described(after.flag)))
            continue
        said.append((after.first, "; ".join(_differences(before.flag, after.flag)) or "registered in another way"))
    if spans and spans[-1].until:
        instead = known.instead(name)
        said.append((spans[-1].until, "removed" + (f", now {instead}" if instead else "")))
    return said


def _described(flag: Flag) -> str:
    parts = [takes(flag)]
    if flag.takes_value:
        parts.append(f"default {shown(flag.default)}")
    if flag.deprecated:
        parts.append(_deprecated(flag))
    return "; ".join(parts)


def takes(flag: Flag) -> str:
    """What an argument takes, in a few words."""
    if not flag.takes_value:
        return "a switch"
    kind = ", ".join(map(str, flag.choices)) if flag.choices else kind_words(flag)
    numbers: dict[int | str | None, str] = {
        None: "", "?": "at most one value: ", "*": "any number of values: ", "+": "one value or more: "}
    return numbers.get(flag.nargs, f"{flag.nargs} values: ") + kind


_WORDS = {
    "int": "whole number", "human_readable_int": "whole number", "float": "number", "bool": "yes/no",
    "json.loads": "JSON", "json_list_type": "JSON list", "parse_cuda_graph_config_arg": "JSON object",
}
"""The release's own names of types in the words of who writes the value; everything else is text."""


def in_a_word(flag: Flag) -> str:
    """What an argument takes, for a column of a table: its choices, or the kind of value."""
    if not flag.takes_value:
        return "switch"
    if flag.choices:
        return ", ".join(map(str, flag.choices))
    word = _WORDS.get(flag.type, "text")
    if flag.nargs in ("+", "*") or (isinstance(flag.nargs, int) and flag.nargs > 1):
        return f"{word}s" if word.endswith("number") else f"list of {word}"
    return word


def shown(value: Any) -> str:
    """A default as a person reads it."""
    if value is None:
        return "none"
    if value == "==SUPPRESS==":
        return "not set"
    return json.dumps(value, ensure_ascii=False)


def _deprecated(flag: Flag) -> str:
    return "deprecated" + (f", now {flag.instead}" if flag.instead else "")


def _differences(old: Flag, new: Flag) -> list[str]:
    found = []
    if old.name != new.name:
        found.append(f"now first spelled {new.name}")
    found += _gained("spelling", old.spellings, new.spellings)
    if old.choices is None or new.choices is None:
        if old.choices != new.choices:
            found.append(f"takes {takes(new)}" if new.choices is None else f"only {', '.join(map(str, new.choices))}")
    else:
        found += _gained("", old.choices, new.choices)
    if (old.type, old.nargs) != (new.type, new.nargs) and old.choices == new.choices:
        found.append(f"takes {takes(new)}")
    if old.default != new.default and new.takes_value:
        found.append(f"default {shown(old.default)} → {shown(new.default)}")
    if old.required != new.required:
        found.append("required" if new.required else "no longer required")
    if new.deprecated and not old.deprecated:
        found.append(_deprecated(new))
    if new.refused and not old.refused:
        found.append("refused with a message")
    return found


def _gained(what: str, old: Sequence[Any], new: Sequence[Any]) -> list[str]:
    """``+ a, b`` and ``− c``."""
    found: list[str] = []
    for sign, some, others in (("+", new, old), ("−", old, new)):
        names = [str(item) for item in some if item not in others]
        if names:
            found.append(f"{sign} {what + ' ' if what else ''}{', '.join(names)}")
    return found


def as_table(found: Iterable[Entry]) -> list[Mapping[str, str]]:
    """Rows for a table of many flags."""
    rows: list[Mapping[str, str]] = []
    for each in found:
        flag = each.flag
        fate = ""
        if each.removed:
            fate = f"removed in {each.removed}"
        elif each.deprecated:
            fate = f"deprecated since {each.deprecated}"
        rows.append({
            "name": flag.name, "takes": in_a_word(flag),
            "default": shown(flag.default) if flag.takes_value else "", "since": each.since,
            "fate": fate + (f", now {each.successor}" if each.successor and fate else ""),
        })
    return rows
