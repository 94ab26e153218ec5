"""Declared arguments as rules look at them, and what a rule is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from deployer.protocol.finding import Level
from deployer.protocol.records import dataclass
from deployer.sglang.catalogue import Catalogue


class Given:
    """Declared values by the name under which SGLang keeps them; a release's own default where none is declared.

    ``secret`` names arguments whose values come from elsewhere.
    """

    def __init__(self, known: Catalogue, args: Mapping[str, Any], secret: Collection[str]) -> None:
        self._values = {known.dest(name): value for name, value in args.items() if value is not False}
        self.names = {known.dest(name): name for name in (*args, *secret)}
        self.secret = {known.dest(name) for name in secret}

    def on(self, dest: str) -> bool:
        """Whether a switch is on, or an argument declared at all."""
        return dest in self._values or dest in self.secret

    def text(self, dest: str) -> str | None:
        value = self._values.get(dest)
        return value if isinstance(value, str) else None

    def written(self, dest: str) -> str | None:
        """A declared value as text."""
        return str(self._values[dest]) if dest in self._values else None

    def number(self, dest: str, default: int = 0) -> int:
        """A declared integer; ``default`` where there is none, or none that can be read."""
        value = self._values.get(dest, default)
        try:
            return int(value) if not isinstance(value, bool) else default
        except (TypeError, ValueError):
            return default


@dataclass(frozen=True)
class Broken:
    """``dest`` is the argument that the finding points at; ``said`` a sentence without the release."""

    dest: str
    said: str
    hint: str = ""


@dataclass(frozen=True)
class Rule:
    """``since`` and ``until`` bound the releases that reject it (``verb`` says what they do); ``until`` is the first
    that does not any more. Without ``since`` it holds whatever the release."""

    code: str
    broken: Callable[[Given], Broken | None]
    since: str | None = None
    until: str | None = None
    level: Level = Level.ERROR
    verb: str = "rejects it"
