"""A flag as the catalogue's file holds it: only what differs from the ordinary."""

from __future__ import annotations

from typing import Any

from deployer.protocol.records import fields
from deployer.sglang.flag import Flag

_ORDINARY = {field.name: field.default for field in fields(Flag) if field.name != "name"}


def to_record(flag: Flag) -> dict[str, Any]:
    """JSON's kinds only; ``from_record`` gives the same flag back."""
    record: dict[str, Any] = {"name": flag.name}
    for key, ordinary in _ORDINARY.items():
        value = getattr(flag, key)
        if value != ordinary or type(value) is not type(ordinary):
            record[key] = list(value) if isinstance(value, tuple) else value
    if flag.dest == _dest(flag.name):
        record.pop("dest", None)
    return record


def from_record(record: dict[str, Any]) -> Flag:
    values = dict(record)
    values.setdefault("dest", _dest(values["name"]))
    for key in ("aliases", "choices"):
        if key in values:
            values[key] = tuple(values[key])
    return Flag(**values)


def _dest(name: str) -> str:
    return name.lstrip("-").replace("-", "_")
