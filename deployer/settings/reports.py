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
    about = first_sentence(field.doc)
    if isinstance(field.example, dict):
        hint = f"{about}: write [{dotted(path)}]"
    else:
        hint = f"{about}: write {name} = {toml(field.example) if field.example is not None else '…'}"
    sink.key("missing-key", key, f"`{dotted(path)}` is missing", hint)


def unknown(table: Table, name: str, value: Any, key: Key, sink: Sink) -> None:
    """A key that its table does not have: the nearest that it has, or the table that has it."""
    close = nearest(name, list(table.fields), 0.8)
    home = homes(sink.root).get(canonical(name)) if sink.root else None
    if close:
        hint = f"did you mean {close}?"
    elif home:
        hint = f"{canonical(name)} belongs in {' or '.join(home)}"
    else:
        near = nearest(name, list(table.fields))
        hint = f"did you mean {near}?" if near else _where_else(table, name, value, key, sink)
    sink.key("unknown-key", (*key, name), f"unknown key `{dotted((*key, name))}`", hint)


def homes(root: Table) -> dict[str, list[str]]:
    """Each key that has its place in one table or two, with those tables as TOML writes them."""
    found: dict[str, list[str]] = {}

    def walk(kind: Kind, path: Key) -> None:
        for name, below in kind.inner():
            if name not in ("", "NAME"):
                found.setdefault(name, []).append(f"[{dotted(path)}]" if path else "the file above its first [table]")
            walk(below, (*path, name) if name else path)

    walk(root, ())
    return {name: tables for name, tables in found.items() if len(tables) <= 2}


def _where_else(table: Table, name: str, value: Any, key: Key, sink: Sink) -> str:
    has_arguments = sink.root is not None and "args" in sink.root.fields
    if has_arguments and key in ((), ("sglang",), ("router",)) and not isinstance(value, dict):
        if re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
            return "environment variables stand under [env]"
        if re.fullmatch(r"[A-Z][A-Za-z]+", name):
            return "systemd's directives stand under [unit], [service] and [install]"
        return "the server's arguments stand under [args]"
    return f"{f'[{dotted(key)}]' if key else 'the file'} takes {', '.join(table.fields)}"


def first_sentence(text: str) -> str:
    """The first sentence of a description, for the middle of another: small at its beginning, without its full stop."""
    sentence = re.split(r"(?<=[^.\d])\.(?:\s|$)", text, maxsplit=1)[0]
    return sentence[:1].lower() + sentence[1:]
