"""How messages name keys and values: as TOML writes them."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from typing import Any


def dotted(key: tuple[str, ...]) -> str:
    """A path as TOML writes it, indices as `[0]`."""
    text = ""
    for part in key:
        if part.isdigit() and text:
            text += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if bare else json.dumps(part, ensure_ascii=False))
    return text


def quoted(text: str) -> str:
    """Text for a message, cut where it is long."""
    return json.dumps(text if len(text) <= 60 else text[:57] + "…", ensure_ascii=False)


def described(value: Any) -> str:
    """A TOML value for a message: its type, and the value where it is short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "a table"
    return "a time" if isinstance(value, datetime.time) else "a date"


def toml(value: Any) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, float):
        return str(getattr(value, "written", value))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def assigned(key: tuple[str, ...], value: Any) -> str:
    """``key = value`` in TOML; the value alone for an item of an array."""
    return toml(value) if key[-1].isdigit() else f"{key[-1]} = {toml(value)}"
