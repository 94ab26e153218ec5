"""The lines of a unit file as conf-parser.c reads them: line ends, byte order mark, remarks, continuation.

A logical line keeps where each piece of it stood, and what a reader would not expect is a ``Problem``.
"""

from __future__ import annotations

from collections.abc import Iterator

from deployer.protocol import patterns
from deployer.protocol.records import dataclass
from deployer.systemd.words import WHITESPACE

LONGEST = 1024 * 1024
"""LONG_LINE_MAX in bytes, for one line and for continued lines together."""

_END = "\n\r\0"
_REMARK = ("", "#", ";")


@dataclass(frozen=True)
class Problem:
    """A place where the text does not mean what it seems to. ``line`` counts from 1.

    Codes here: blank-after-backslash, continuation-into-empty-line, continuation-at-end, missing-equals,
    missing-key, outside-section, unknown-section, bad-section, not-utf-8, line-too-long. ``fatal``: systemd does not
    load the file.
    """

    code: str
    line: int
    text: str
    file: str = ""
    fatal: bool = False


@dataclass(frozen=True)
class Line:
    """One logical line. ``number`` is that of its first physical line, ``last`` that of its last."""

    number: int
    text: str
    last: int


def physical(text: str) -> Iterator[str]:
    """Lines ended by ``\\n``, ``\\r`` or NUL; different ones in a row are one end (``\\r\\n``), equal ones two."""
    if "\r" not in text and "\0" not in text:
        lines = text.split("\n")
        yield from lines[:-1] if not lines[-1] else lines
        return
    at = 0
    while at < len(text):
        match = patterns.compile(r"[\n\r\0]").search(text, at)
        if not match:
            yield text[at:]
            return
        yield text[at:match.start()]
        at, seen = match.end(), {match[0]}
        while at < len(text) and text[at] in _END and text[at] not in seen:
            seen.add(text[at])
            at += 1


def logical(text: str, file: str, problems: list[Problem]) -> Iterator[Line]:
    """The logical lines, without remarks and empty ones; ``problems`` gets what is odd about continuation."""
    pieces: list[str] = []                         # of a line that goes on, each with a blank for its backslash
    first = number = size = 0
    bom = False
    for number, raw in enumerate(physical(text), 1):
        stripped = raw.strip(WHITESPACE)
        if stripped[:1] in _REMARK:
            if not stripped and pieces:
                problems.append(Problem("continuation-into-empty-line", number, "an empty line ends what was to be "
                                        "continued: whatever stands behind it is lost", file))
            elif stripped or not pieces:
                continue
        if not bom and raw[0:1] == "\ufeff":
            raw, bom = raw[1:], True
        if not pieces:
            first, size = number, 0
        size += len(raw) if raw.isascii() else len(raw.encode("utf-8", "surrogateescape"))
        if size > LONGEST:
            problems.append(Problem("line-too-long", first, "systemd reads at most 1 MiB in one line", file, True))
            return
        if stripped[-1:] == "\\" and _ends_in_backslash(stripped):
            if raw[-1:] == "\\":
                pieces.append(raw[:-1] + " ")
                continue
            problems.append(Problem("blank-after-backslash", number, "a blank behind the backslash: the line does "
                                    "not continue, and the backslash becomes part of the value", file))
        whole = "".join(pieces) + raw if pieces else raw
        pieces = []
        if stripped or whole.strip(WHITESPACE):
            yield Line(first, whole, number)
    if pieces:
        problems.append(Problem("continuation-at-end", number, "the file ends in a line that is to be continued", file))
        if "".join(pieces).strip(WHITESPACE):
            yield Line(first, "".join(pieces), number)


def _ends_in_backslash(text: str) -> bool:
    return bool((len(text) - len(text.rstrip("\\"))) % 2)
