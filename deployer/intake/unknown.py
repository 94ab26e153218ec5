"""Values that the text alone does not tell: each is one private character until it is written out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from deployer.protocol import patterns

_FIRST = 0xF0000
_MARK = patterns.compile("[\U000f0000-\U000ffffd]")


class Unknowns:
    """Marks stand for unknown values inside texts; ``shown`` writes them out, ``names`` says what they rest on."""

    def __init__(self) -> None:
        self._items: list[tuple[str, tuple[str, ...]]] = []
        self._marks: dict[tuple[str, tuple[str, ...]], str] = {}

    def mark(self, shown: str, names: Sequence[str]) -> str:
        """The mark of a value that is shown as ``shown``; without ``names`` it is one of the account's own."""
        key = (shown, tuple(names))
        if key not in self._marks:
            self._marks[key] = chr(_FIRST + len(self._items))
            self._items.append(key)
        return self._marks[key]

    def variable(self, name: str) -> str:
        """The mark of a variable without a value."""
        return self.mark("${" + name + "}", (name,))

    def found(self, text: str) -> bool:
        return not text.isascii() and any(True for _ in self._in(text))

    def _in(self, text: str) -> Iterable[tuple[str, tuple[str, ...]]]:
        """The items whose marks stand in a text; a private character of the text's own is none."""
        for match in _MARK.finditer(text):
            if ord(match[0]) - _FIRST < len(self._items):
                yield self._items[ord(match[0]) - _FIRST]

    def shown(self, text: str) -> str:
        """``text`` with its marks written out."""
        def one(match: re.Match[str]) -> str:
            place = ord(match[0]) - _FIRST
            return self.shown(self._items[place][0]) if place < len(self._items) else match[0]

        return _MARK.sub(one, text)

    def marks(self, *texts: str) -> tuple[str, ...]:
        """How the unknown parts of ``texts`` are shown."""
        return tuple(dict.fromkeys(self.shown(shown) for text in texts for shown, _ in self._in(text)))

    def names(self, *texts: str) -> list[str]:
        """What the marks in ``texts`` rest on, each once, in order."""
        return list(dict.fromkeys(self._names(texts)))

    def _names(self, texts: Iterable[str]) -> Iterable[str]:
        for text in texts:
            for _, names in self._in(text):
                for name in names:
                    yield self.shown(name)
