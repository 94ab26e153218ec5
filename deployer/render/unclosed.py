"""Where a template opened what it does not close: Jinja itself names the line on which that showed, often the next."""

from __future__ import annotations

import re

from deployer.protocol import patterns

CLOSES = {"{{": "}}", "{%": "%}", "{#": "#}"}

_RAW = patterns.compile(r"\{%-?\s*raw\s*-?%\}.*?\{%-?\s*endraw\s*-?%\}", re.DOTALL)
_MARKS = patterns.compile(r"\{\{|\{%|\{#|\}\}|%\}|#\}")
_TAG = patterns.compile(r"\{%[-+]?\s*(\w+)")


def mark(text: str, line: int) -> tuple[int, str] | None:
    """Line and characters of the ``{{``, ``{%`` or ``{#`` that is open where Jinja stopped, in ``line`` (from 1).

    None where every one up to there is closed before the next is opened.
    """
    text = _blank_raw(text)
    opened: tuple[int, str] | None = None
    for found in _MARKS.finditer(text):
        at = text.count("\n", 0, found.start()) + 1
        if opened is None:
            if at > line:
                return None
            opened = (at, found[0]) if found[0] in CLOSES else None
        elif opened[1] == "{#" and found[0] != "#}":
            continue
        elif found[0] == CLOSES[opened[1]]:
            opened = None
        else:
            return opened
    return opened if opened and opened[0] <= line else None


def block(text: str, name: str) -> int | None:
    """The line of the last ``{% name %}`` that has no ``{% endname %}``."""
    text, lines = _blank_raw(text), list[int]()
    for found in _TAG.finditer(text):
        if found[1] == name:
            lines.append(text.count("\n", 0, found.start()) + 1)
        elif found[1] == f"end{name}" and lines:
            lines.pop()
    return lines[-1] if lines else None


def _blank_raw(text: str) -> str:
    """``text`` with what stands between raw and endraw taken out, line breaks kept."""
    return _RAW.sub(lambda found: "\n" * found[0].count("\n"), text)
