"""The places of a unit's settings with one host's overrides over them: two files read as one."""

from __future__ import annotations

from deployer.protocol.finding import Where
from deployer.settings.sink import Key
from deployer.settings.spans import Places


class Overlaid:
    """``over`` holds the overrides below ``prefix``. What is written there is there; all else is in ``base``."""

    def __init__(self, base: Places, over: Places, prefix: Key) -> None:
        self.base = base
        self.over = over
        self.prefix = prefix

    def where(self, key: Key) -> Where:
        """As ``Places.where``: the longest written ancestor wins, the override's before the unit's."""
        for length in range(len(key), 0, -1):
            part = key[:length]
            if self._overridden(part):
                return self.over.where(self.prefix + part)
            if self.base.find(part):
                return self.base.where(part)
        return self.base.where(())

    def value(self, key: Key) -> Where:
        """As ``Places.value``."""
        if self._overridden(key):
            return self.over.value(self.prefix + key)
        return self.base.value(key) if self.base.find(key) else self.where(key)

    def _overridden(self, key: Key) -> bool:
        """Whether the override sets this key: a table that both have counts as the unit's."""
        span = self.over.find(self.prefix + key)
        return span is not None and (span.value is not None or self.base.find(key) is None)
