"""The findings about keys: unknown, missing, set twice. Their hints say where a key belongs that stands elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from deployer.settings.sink import Key, Sink, nearest
from deployer.settings.spans import canonical
from deployer.settings.words import dotted, toml

if TYPE_CHECKING:
    from deployer.settings.shape import Field, Kind, Table


def twice(path: Key, first: str, sink: Sink) -> None:
    """A key that stands in the same table in two spellings."""
    message = f"`{dotted(path)}` is set a second time: it is the same key as `{first}`"
    sink.key("duplicate-key", path, message, "dashes and underscores are alike: keep one of the two")


def missing(key: Key, name: str, field: Field, sink: Sink) -> None:
    """A key that must be there."""
    path = (*key, name)
    example = toml(field.example) if field.example is not None else ""
    if isinstance(field.example, dict):
        hint = f"write [{dotted(path)}]: {first_sentence(field.doc)}"
    else:
        hint = f"write {name} = {example or '…'}: {first_sentence(field.doc)}"
    sink.key("missing-key", key, f"`{dotted(path)}` is missing", hint)


def unknown(table: Table, name: str, value: Any, key: Key, sink: Sink) -> None:
    """A key that its table does not have: the nearest that it has, or the table that has it."""
    close = nearest(name, list(table.fields), 0.8)
    home = homes(sink.root).get(canonical(name)) if sink.root else None
    if close:
        hint = f"did you mean {close}?"
    elif home is not None:
        hint = f"{canonical(name)} belongs in {f'[{home}]' if home else 'the file above its first [table]'}"
    else:
        near = nearest(name, list(table.fields))
        hint = f"did you mean {near}?" if near else _where_else(table, name, value, key, sink)
    sink.key("unknown-key", (*key, name), f"unknown key `{dotted((*key, name))}`", hint)


def homes(root: Table) -> dict[str, str]:
    """Each key that has its place in exactly one table, with that table's path as TOML writes it."""
    found: dict[str, set[str]] = {}

    def walk(kind: Kind, path: Key) -> None:
        for name, below in kind.inner():
            if name:
                found.setdefault(name, set()).add(dotted(path))
                walk(below, (*path, name))

    walk(root, ())
    return {name: tables.pop() for name, tables in found.items() if len(tables) == 1}


def _where_else(table: Table, name: str, value: Any, key: Key, sink: Sink) -> str:
    takes = f"{f'[{dotted(key)}]' if key else 'the file'} takes {', '.join(table.fields)}"
    has_arguments = sink.root is not None and "args" in sink.root.fields
    if has_arguments and key in ((), ("sglang",), ("router",)) and not isinstance(value, dict):
        if re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
            return f"environment variables stand under [env]; {takes}"
        if re.fullmatch(r"[A-Z][A-Za-z]+", name):
            return f"systemd's directives stand under [unit], [service] and [install]; {takes}"
        return f"SGLang's arguments stand under [args]; {takes}"
    return takes


def first_sentence(text: str) -> str:
    """The first sentence of a description, without its full stop."""
    return re.split(r"(?<=[^.\d])\.(?:\s|$)", text, maxsplit=1)[0]
