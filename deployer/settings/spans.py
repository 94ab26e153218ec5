"""Where each key and value stands in a TOML text.

``tomllib`` keeps no places and decides what a text means; this scanner only finds places in a text that ``tomllib``
has accepted, so it may be lenient. ``tests/settings/test_spans.py`` holds the two together: for random documents
every path of the one is a path of the other, and each span, read alone by ``tomllib``, gives the value at its path.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from functools import cached_property

from deployer.protocol import patterns
from deployer.protocol.finding import Where
from deployer.protocol.records import dataclass

Path = tuple[str, ...]
"""A path into a document; an index of an array is its decimal text: ``("hooks", "before", "0", "command")``."""


@dataclass(frozen=True)
class Span:
    """Offsets into the text: of the key as written there, and of its value (None: a table of its own, or implied)."""

    key: tuple[int, int]
    value: tuple[int, int] | None = None


class ScanError(ValueError):
    """The text is no TOML; ``offset`` is where that showed, ``opened`` where the unclosed thing began."""

    def __init__(self, offset: int, opened: int | None = None) -> None:
        super().__init__(f"no TOML at offset {offset}")
        self.offset = offset
        self.opened = opened


def canonical(name: str) -> str:
    """A key's one spelling: dashes and underscores are alike."""
    return name.replace("_", "-")


class Places:
    """The places of one file's keys. Scans the text only when the first place is asked for.

    A path is found in its exact spelling, else in any spelling with dashes and underscores exchanged.
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text

    def where(self, key: Path) -> Where:
        """The place of ``key``, or of its nearest ancestor that is written down; of the file's first line at last."""
        span = self._nearest(key)
        return self.at(span.key[0]) if span else Where(self.file, 1, 1)

    def value(self, key: Path) -> Where:
        """The place of the value of ``key``; of the key where the value is a table with a header of its own."""
        span = self.find(key)
        return self.at(span.value[0]) if span and span.value else self.where(key)

    def find(self, key: Path) -> Span | None:
        """The span of exactly this path."""
        return self.spans.get(key) or self._alike.get(tuple(canonical(part) for part in key))

    def at(self, offset: int) -> Where:
        """The line and column, from 1 and in characters, of an offset."""
        line = bisect.bisect_right(self._lines, offset)
        return Where(self.file, line, offset - self._lines[line - 1] + 1)

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column; the end of the text for one behind it."""
        return min(self._lines[line - 1] + column - 1, len(self.text)) if line <= len(self._lines) else len(self.text)

    @cached_property
    def spans(self) -> dict[Path, Span]:
        try:
            return scan(self.text).spans
        except ScanError:
            return {}

    @cached_property
    def _alike(self) -> dict[Path, Span]:
        return {tuple(canonical(part) for part in path): span for path, span in reversed(self.spans.items())}

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def _nearest(self, key: Path) -> Span | None:
        for length in range(len(key), 0, -1):
            span = self.find(key[:length])
            if span:
                return span
        return None


_BLANK = patterns.compile(r"[ \t]*")
_SKIP = patterns.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = patterns.compile(r"[A-Za-z0-9_-]+")
_QUOTED = patterns.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_STRING = patterns.compile(
    r'"""(?:[^\\]|\\[\s\S])*?"{3,5}|' r"'''[\s\S]*?'{3,5}|" r'"(?!"")(?:[^"\\\n]|\\.)*"|' r"'(?!'')[^'\n]*'"
)
_SCALAR = patterns.compile(r"[^,\]}#\r\n\s]+(?:[ \t]+[^,\]}#\r\n\s]+)*")


class Scan:
    """One pass over a text. ``duplicates`` are paths set twice, with both offsets (first, second)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans: dict[Path, Span] = {}
        self.duplicates: list[tuple[Path, int, int]] = []
        self._arrays: dict[Path, int] = {}
        self._explicit: set[Path] = set()

    def run(self) -> None:
        table: Path = ()
        at = self._skip(0)
        while at < len(self.text):
            if self.text[at] == "[":
                table, at = self._header(at)
            else:
                at = self._pair(table, at)
            at = self._skip(at)

    def _header(self, at: int) -> tuple[Path, int]:
        array = self.text.startswith("[[", at)
        parts, end = self._key(at + (2 if array else 1))
        close = "]]" if array else "]"
        if not self.text.startswith(close, end):
            raise ScanError(end, at)
        path: Path = ()
        for number, (name, begin, stop) in enumerate(parts):
            last = number == len(parts) - 1
            path = (*path, name)
            span = Span((begin, stop))
            if last and array:
                index = self._arrays[path] = self._arrays.get(path, -1) + 1
                self.spans.setdefault(path, span)
                path = (*path, str(index))
                self.spans[path] = span
            elif last:
                self._set(path, span)
            else:
                self.spans.setdefault(path, span)
                if path in self._arrays:
                    path = (*path, str(self._arrays[path]))
        return path, end + len(close)

    def _pair(self, table: Path, at: int) -> int:
        parts, at = self._key(at)
        if self.text[at : at + 1] != "=":
            raise ScanError(at)
        at = self._blank(at + 1)
        path = table
        for name, begin, stop in parts[:-1]:
            path = (*path, name)
            self.spans.setdefault(path, Span((begin, stop)))
        name, begin, stop = parts[-1]
        path = (*path, name)
        self._set(path, Span((begin, stop), (at, at)))
        end = self._value(path, at)
        self.spans[path] = Span((begin, stop), (at, end))
        return end

    def _set(self, path: Path, span: Span) -> None:
        if path in self._explicit:
            self.duplicates.append((path, self.spans[path].key[0], span.key[0]))
        self._explicit.add(path)
        self.spans[path] = span

    def _key(self, at: int) -> tuple[list[tuple[str, int, int]], int]:
        """The parts of a dotted key with their offsets, and the offset behind the blanks after it."""
        parts = []
        while True:
            at = self._blank(at)
            bare = _BARE.match(self.text, at)
            match = bare or _QUOTED.match(self.text, at)
            if not match:
                raise ScanError(at)
            parts.append((match[0] if bare else _unquote(match[0], at), at, match.end()))
            at = self._blank(match.end())
            if self.text[at : at + 1] != ".":
                return parts, at
            at += 1

    def _value(self, path: Path, at: int) -> int:
        first = self.text[at : at + 1]
        if first == "[":
            return self._array(path, at)
        if first == "{":
            return self._inline(path, at)
        match = _STRING.match(self.text, at) if first in ('"', "'") else _SCALAR.match(self.text, at)
        if not match or not first:
            raise ScanError(at, at)
        return match.end()

    def _array(self, path: Path, opened: int) -> int:
        at = self._skip(opened + 1)
        index = 0
        while self.text[at : at + 1] != "]":
            item = (*path, str(index))
            end = self._value(item, at) if at < len(self.text) else at
            self.spans[item] = Span((at, end), (at, end))
            index += 1
            at = self._separated(end, "]", opened)
        return at + 1

    def _inline(self, path: Path, opened: int) -> int:
        at = self._skip(opened + 1)
        while self.text[at : at + 1] != "}":
            at = self._separated(self._pair(path, at), "}", opened)
        return at + 1

    def _separated(self, at: int, close: str, opened: int) -> int:
        """Behind the comma and blanks after an element, or at ``close``."""
        at = self._skip(at)
        if self.text[at : at + 1] == ",":
            return self._skip(at + 1)
        if self.text[at : at + 1] != close:
            raise ScanError(at, opened)
        return at

    def _blank(self, at: int) -> int:
        return _BLANK.match(self.text, at).end()  # type: ignore[union-attr]

    def _skip(self, at: int) -> int:
        return _SKIP.match(self.text, at).end()  # type: ignore[union-attr]


def scan(text: str) -> Scan:
    """Scans a whole text; raises ``ScanError`` for one that is no TOML (not for every such one)."""
    result = Scan(text)
    result.run()
    return result


def _unquote(raw: str, at: int) -> str:
    if "\\" not in raw or raw[0] == "'":
        return raw[1:-1]
    try:
        return str(tomllib.loads(f"k = {raw}")["k"])
    except tomllib.TOMLDecodeError:
        raise ScanError(at) from None
