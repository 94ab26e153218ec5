"""Where findings about one file's values are collected while they are read, each with its place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from deployer.protocol.finding import Finding, Level, Where

if TYPE_CHECKING:
    from deployer.settings.shape import Table

Key = tuple[str, ...]


class PlacedSpans(Protocol):
    """Places of keys and of their values: ``spans.Places`` of one file, or ``overlay.Overlaid`` of two."""

    def where(self, key: Key) -> Where: ...

    def value(self, key: Key) -> Where: ...


class Sink:
    """``prefix`` is where the values lie in the file; ``root`` describes the whole of them, for hints.

    ``partial``: the values are only a part (an override), so that no key is missed and `false` takes one away.
    """

    def __init__(
        self, spans: PlacedSpans, root: Table | None = None, prefix: Key = (), partial: bool = False
    ) -> None:
        self.spans = spans
        self.root = root
        self.prefix = prefix
        self.partial = partial
        self.findings: list[Finding] = []
        self.errors = 0

    def value(self, code: str, key: Key, message: str, hint: str = "", level: Level = Level.ERROR) -> None:
        """A finding about the value of ``key``."""
        self.take(Finding(code, level, message, key, self.spans.value(self.prefix + key), hint))

    def key(self, code: str, key: Key, message: str, hint: str = "", level: Level = Level.ERROR) -> None:
        """A finding about ``key`` itself, or about one that it should have."""
        self.take(Finding(code, level, message, key, self.spans.where(self.prefix + key), hint))

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """What is read meanwhile is not partial: an override replaces it as a whole."""
        partial, self.partial = self.partial, False
        try:
            yield
        finally:
            self.partial = partial

    def take(self, finding: Finding) -> None:
        """Adds a finding as it is."""
        self.findings.append(finding)
        self.errors += finding.level is Level.ERROR


def any_error(findings: Iterable[Finding]) -> bool:
    return any(finding.level is Level.ERROR for finding in findings)


def nearest(name: str, names: Sequence[str], cutoff: float = 0.6) -> str | None:
    """The name that was most likely meant, compared with dashes and underscores alike, and without case."""
    import difflib

    folded = {candidate.replace("_", "-").lower(): candidate for candidate in reversed(names)}
    found = difflib.get_close_matches(name.replace("_", "-").lower(), list(folded), n=1, cutoff=cutoff)
    return folded[found[0]] if found else None
