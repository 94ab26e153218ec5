"""Writing TOML: values, keys and remarks, exactly."""

from __future__ import annotations

import json
import re
from typing import Any

from deployer.protocol import patterns

_BARE = patterns.compile(r"[A-Za-z0-9_-]+")


class NoToml(ValueError):
    """A text that no TOML file can hold: bytes that are not UTF-8."""


def key(name: str) -> str:
    return name if _BARE.fullmatch(name) else string(name)


def string(text: str) -> str:
    """A text: in single quotes where that saves escaping. Raises ``NoToml``."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise NoToml(text)
    plain = not re.search(r"[\x00-\x1f\x7f']", text)
    if plain and ('"' in text or "\\" in text):
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def value(item: Any) -> str:
    """A value on one line."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return string(item)
    if isinstance(item, (list, tuple)):
        return "[" + ", ".join(value(each) for each in item) + "]"
    if isinstance(item, dict):
        inner = ", ".join(f"{key(name)} = {value(each)}" for name, each in item.items())
        return "{ " + inner + " }" if inner else "{}"
    return repr(item) if isinstance(item, float) else str(item)


def remark(text: str) -> list[str]:
    """Lines of a remark, wrapped at 110 characters; control characters written out."""
    import textwrap

    flat = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", lambda match: repr(match[0])[1:-1], " ".join(text.split(" ")))
    return ["# " + line for line in textwrap.wrap(flat, 110, break_long_words=False, break_on_hyphens=False)] or ["#"]
