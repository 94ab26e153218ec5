"""However many hosts begin at once: one asks for all of them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from deployer.cli import ask, run_hosts


def test_threads_that_come_at_once_have_one_asker(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(ask.TerminalAsk):
        def __init__(self) -> None:
            time.sleep(0.05)                         # as long as an import may take
            super().__init__()

    monkeypatch.setattr(ask, "TerminalAsk", Slow)
    run_hosts._asker.cache_clear()
    begin = threading.Barrier(8)

    def come(_: int) -> object:
        begin.wait()
        return run_hosts.asker()

    try:
        with ThreadPoolExecutor(8) as pool:
            assert len({id(one) for one in pool.map(come, range(8))}) == 1
    finally:
        run_hosts._asker.cache_clear()
