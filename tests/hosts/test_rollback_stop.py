"""A start that hears no SIGTERM must not keep the old server away for as long as a drain may take."""

from __future__ import annotations

import time

from tests.hosts.bed import Host, Operator
from tests.hosts.pushing import declare, push


def test_a_failed_start_that_does_not_end_is_killed_soon(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    host.sglang.behave({"when": {"context_length": 512}, "ignore_term": True, "health": 503})
    declare(operator, args="context-length = 512", deadline="5s", service="TimeoutStopSec = 300")
    begun = time.monotonic()
    said = push(operator, host, code=4)
    assert "release 1 of qwen.service serves again, verified" in said
    assert 15 < time.monotonic() - begun < 90
