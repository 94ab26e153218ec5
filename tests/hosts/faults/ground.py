"""The host that cases share: one release serves on it. After a failed case the next one gets a host as new."""

from __future__ import annotations

from pathlib import Path

from tests.hosts.bed import Host, Operator, Pool
from tests.hosts.pushing import Client, declare

CASES = 12
"""Cases on one host, before the next ones get a host as new: journal and disk stay as small as on a real one."""


class Ground:
    """``ready()`` before each case; ``spoilt`` is set while a case runs, and stays where it fails."""

    def __init__(self, pool: Pool, folder: Path) -> None:
        self._pool = pool
        self._folder = folder
        self._hosts = 0
        self._cases = 0
        self._length = 1024
        self._host: Host | None = None
        self._operator: Operator | None = None
        self.spoilt = False

    @property
    def host(self) -> Host:
        assert self._host is not None
        return self._host

    @property
    def operator(self) -> Operator:
        assert self._operator is not None
        return self._operator

    def ready(self) -> None:
        """A host on which a release serves: the one of the case before, or another."""
        if self._host is not None and (self.spoilt or self._cases >= CASES):
            self.close()
        if self._host is None:
            self._host = self._pool.take()[0]
            self._hosts += 1
            self._operator = Operator(self._pool.keys, self._folder / f"home{self._hosts}")
            self._cases = 0
            self.spoilt = True
            self.declare()
            code, said = Client(self._operator, self._host).end()
            assert code == 0, said
        self._cases += 1
        self.spoilt = True

    def declare(self) -> int:
        """Declares what was not declared before, in both files; the context length, by which starts differ."""
        self._length += 8
        self.operator.env["QWEN_KEY"] = f"canary-of-length-{self._length}"
        declare(self.operator, args=f"context-length = {self._length}", deadline="45s",
                more='[secrets]\napi-key = { env = "QWEN_KEY" }')
        return self._length

    def close(self) -> None:
        if self._host is not None:
            self._pool.give_back(self._host)
        self._host = None
