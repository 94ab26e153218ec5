"""Values that the text alone does not tell: each is one private character until it is written out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_FIRST = 0xF0000
_MARK = re.compile("[\U000f0000-\U000ffffd]")


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
        return bool(_MARK.search(text))

    def shown(self, text: str) -> str:
        """``text`` with its marks written out."""
        return _MARK.sub(lambda match: self.shown(self._items[ord(match[0]) - _FIRST][0]), text)

    def marks(self, *texts: str) -> tuple[str, ...]:
        """How the unknown parts of ``texts`` are shown."""
        return tuple(dict.fromkeys(self.shown(match[0]) for text in texts for match in _MARK.finditer(text)))

    def names(self, *texts: str) -> list[str]:
        """What the marks in ``texts`` rest on, each once, in order."""
        return list(dict.fromkeys(self._names(texts)))

    def _names(self, texts: Iterable[str]) -> Iterable[str]:
        for text in texts:
            for match in _MARK.finditer(text):
                for name in self._items[ord(match[0]) - _FIRST][1]:
                    yield self.shown(name)
