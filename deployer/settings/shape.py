"""What a settings file may hold, described once: reading, merging and the JSON Schema all come from these kinds.

A ``Kind`` reads a TOML value into what the frozen model takes, collecting findings instead of raising; it says its
own JSON Schema; and it merges a host's override over a unit's value. ``INVALID`` stands for a value that was no good.

Why no validation library: CPU time of the import, with the same keys declared where a library has classes for them
(Python 3.11, bytecode cached, least of twenty, above what dataclasses, re, typing and tomllib take anyway):

    ====================  =========================  ================  ============================
    library               import                     all findings      JSON Schema
    ====================  =========================  ================  ============================
    pydantic 2            71 ms, 139 with classes    yes               yes
    jsonschema            75 ms                      yes               it is the source
    cattrs                36 ms                      as an exception   no
    msgspec               15 ms                      the first only    yes
    fastjsonschema         7 ms                      the first only    it is the source
    these kinds            7 ms, all keys            yes               yes, from the same objects
    ====================  =========================  ================  ============================

``deployer render`` of one unit has 350 ms in all, of which click, jinja2 and packaging take about 115. Reading one unit
takes 0.4 ms, most of it in ``tomllib``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from deployer.protocol import patterns, records
from deployer.settings import reports
from deployer.settings.sink import Key, Sink
from deployer.settings.spans import canonical
from deployer.settings.words import described, dotted, quoted, toml


class _Invalid:
    def __repr__(self) -> str:
        return "INVALID"


INVALID: Any = _Invalid()
Schema = dict[str, Any]


class Kind(ABC):
    """``words`` complete "takes …". ``takes_false``: `false` is a value, so that an override cannot remove by it."""

    words: str = ""
    takes_false: bool = False

    @abstractmethod
    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        """The value for the model, or ``INVALID`` with findings in ``sink``."""

    @abstractmethod
    def schema(self) -> Schema:
        """JSON Schema (2020-12) of the TOML values that ``read`` takes."""

    def merge(self, base: Any, over: Any) -> Any:
        """``over`` laid over ``base``, both as in TOML: only tables that hold settings are merged key by key."""
        return over

    def inner(self) -> tuple[tuple[str, Kind], ...]:
        """The kinds below this one, with the key that leads to each: "" for an index, NAME for the admin's own."""
        return ()

    def wrong(self, value: Any, key: Key, sink: Sink, hint: str = "") -> Any:
        """Reports a value of the wrong type."""
        sink.value("wrong-type", key, f"`{dotted(key)}` takes {self.words}, not {described(value)}", hint)
        return INVALID


@records.dataclass(frozen=True)
class Field:
    """A key of a table. ``attr`` is its name in the model, where that is not the key with underscores."""

    kind: Kind
    doc: str
    attr: str = ""
    required: bool = False
    example: Any = None


class Table(Kind):
    """A table with known keys. ``make`` builds the model's value from what was written; its defaults are the defaults.

    ``check`` sees what was written, by canonical key and with ``INVALID`` for what was no good, and reports what does
    not go together.
    """

    words = "a table"

    def __init__(
        self,
        fields: Mapping[str, Field],
        make: Callable[..., Any] = dict,
        check: Callable[[Mapping[str, Any], Key, Sink], None] | None = None,
    ) -> None:
        self.fields = dict(fields)
        self.make = make
        self.check = check

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if not isinstance(value, dict):
            return self.wrong(value, key, sink, f"write [{dotted(key)}] and its keys below it")
        before = sink.errors
        written: dict[str, Any] = {}
        spelt: dict[str, str] = {}
        for name, item in value.items():
            known = canonical(name)
            field = self.fields.get(known)
            if field is None:
                reports.unknown(self, name, item, key, sink)
            elif known in spelt:
                reports.twice((*key, name), spelt[known], sink)
            elif not (sink.partial and item is False and not field.kind.takes_false):
                spelt[known] = name
                written[known] = field.kind.read(item, (*key, name), sink)
        if sink.partial:
            return INVALID
        for name, field in self.fields.items():
            if field.required and name not in spelt:
                reports.missing(key, name, field, sink)
        if self.check:
            self.check(written, key, sink)
        if sink.errors > before:
            return INVALID
        return self.make(**{self.fields[k].attr or k.replace("-", "_"): v for k, v in written.items()})

    def merge(self, base: Any, over: Any) -> Any:
        if not isinstance(base, dict) or not isinstance(over, dict):
            return over
        kinds = {name: field.kind for name, field in self.fields.items()}
        return merged(base, over, lambda name: kinds.get(canonical(name)), canonical)

    def inner(self) -> tuple[tuple[str, Kind], ...]:
        return tuple((name, field.kind) for name, field in self.fields.items())

    def schema(self) -> Schema:
        properties, spellings = {}, {}
        for name, field in self.fields.items():
            properties[name] = {"description": field.doc, **field.kind.schema(), **self._default(name, field)}
            if field.example is not None:
                properties[name]["examples"] = [field.example]
            if "-" in name:
                spellings[f"^{name.replace('-', '[-_]')}$"] = properties[name]
        schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
        if spellings:
            schema["patternProperties"] = spellings
        required = [name for name, field in self.fields.items() if field.required]
        if required:
            schema["required"] = required
        return schema

    def _default(self, name: str, field: Field) -> Schema:
        if not isinstance(self.make, type) or not records.is_dataclass(self.make):
            return {}
        attr = field.attr or name.replace("-", "_")
        default = {f.name: f.default for f in records.fields(self.make)}.get(attr, records.MISSING)
        return {"default": default} if isinstance(default, (str, bool, int, float)) and default != "" else {}


class MapOf(Kind):
    """A table whose keys are the admin's own, matching ``name``. ``alike``: dashes and underscores are one spelling.

    Read as a dict of what was good, so that one bad entry does not keep the others from being checked.
    """

    words = "a table"

    def __init__(self, item: Kind, name: str, name_words: str, alike: bool = False) -> None:
        self.item = item
        self.name = patterns.compile(name)
        self.name_words = name_words
        self.alike = alike

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if not isinstance(value, dict):
            return self.wrong(value, key, sink, f"write [{dotted(key)}] and its keys below it")
        result: dict[str, Any] = {}
        spelt: dict[str, str] = {}
        for name, entry in value.items():
            path = (*key, name)
            if not self.name.fullmatch(name):
                sink.key("bad-name", path, f"{quoted(name)} is not {self.name_words}", self.name_hint(name, entry))
                continue
            one = canonical(name) if self.alike else name
            if one in spelt:
                reports.twice(path, spelt[one], sink)
            elif not (sink.partial and entry is False and not self.item.takes_false):
                spelt[one] = name
                result[name] = self.item.read(entry, path, sink)
        return {name: entry for name, entry in result.items() if entry is not INVALID}

    def name_hint(self, name: str, value: Any) -> str:
        """What to write instead of a name that does not match."""
        bare = name.lstrip("-")
        return f"write {bare} = {toml(value)}" if bare != name and self.name.fullmatch(bare) else ""

    def merge(self, base: Any, over: Any) -> Any:
        if not isinstance(base, dict) or not isinstance(over, dict):
            return over
        return merged(base, over, lambda name: self.item, canonical if self.alike else str)

    def inner(self) -> tuple[tuple[str, Kind], ...]:
        return (("NAME", self.item),)

    def schema(self) -> Schema:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^({self.name.pattern})$"},
            "additionalProperties": self.item.schema(),
        }


class ListOf(Kind):
    """An array whose items are all of one kind; ``least`` items at least. Read as a tuple."""

    def __init__(self, item: Kind, words: str, least: int = 0) -> None:
        self.item = item
        self.words = words
        self.least = least

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if not isinstance(value, list):
            return self.wrong(value, key, sink, self.list_hint(value, key))
        if len(value) < self.least:
            sink.value("bad-value", key, f"`{dotted(key)}` is empty", f"it takes {self.words}")
            return INVALID
        with sink.whole():
            items = tuple(self.item.read(entry, (*key, str(index)), sink) for index, entry in enumerate(value))
        return INVALID if any(item is INVALID for item in items) else items

    def list_hint(self, value: Any, key: Key) -> str:
        """What to write for a lone value."""
        if isinstance(value, str):
            return f"write {key[-1]} = {toml(value.split() or [value])}"
        return f"write [[{dotted(key)}]]" if isinstance(value, dict) else ""

    def inner(self) -> tuple[tuple[str, Kind], ...]:
        return (("", self.item),)

    def schema(self) -> Schema:
        return {"type": "array", "items": self.item.schema(), **({"minItems": self.least} if self.least else {})}


def merged(
    base: Mapping[str, Any], over: Mapping[str, Any], kind_of: Callable[[str], Kind | None], one: Callable[[str], str]
) -> dict[str, Any]:
    """Two tables as one, in the base's order and spelling; `false` takes a key away unless it is a value of its own."""
    result = dict(base)
    spelt: dict[str, str] = {}
    for written in base:
        spelt.setdefault(one(written), written)
    for name, value in over.items():
        kind = kind_of(name)
        mine = spelt.get(one(name), name)
        if value is False and kind is not None and not kind.takes_false:
            result.pop(mine, None)
        elif mine in result and kind is not None:
            result[mine] = kind.merge(result[mine], value)
        else:
            result[mine] = value
    return result
