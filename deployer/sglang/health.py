"""How a release answers when it is asked for its health. Facts read from SGLang's entrypoints/http_server.py.

| releases | ``/health`` | what asks for a real token |
|---|---|---|
| before 0.5.1 | 200 as soon as the socket listens | ``/health_generate`` |
| 0.5.1 on | 503 while starting and while ending, else a probe of one token | ``/health`` |
| 0.5.6 on | the same, without the probe where SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0 | ``/health_generate`` |
| 0.5.20 on | beside it ``/ready``: at once and without a probe | ``/health`` |

Bodies are empty in every release; only the status counts. The probe takes at least one second.
"""

from __future__ import annotations

from collections.abc import Mapping

from deployer.protocol.expectations import Health
from deployer.sglang.version import Unreadable, parsed

PROBE_LIMIT = 20.0
"""Seconds after which the server itself answers 503 for a scheduler that is silent (from 0.4.4 on)."""

ABOVE = 5.0
"""Seconds that a client waits beyond the server's own limit, so that a slow answer is not taken for none."""


def health(release: str, *, env: Mapping[str, str] | None = None, node_rank: int = 0) -> Health:
    """The semantics of one release ("0.5.9"); an unknown or empty one is taken for a recent one.

    ``env`` are the server's variables, of which some change its answers. A node of rank above 0 always says 200.
    """
    env = env or {}
    timeout = _limit(release, env) + ABOVE
    info = _info(release)
    if node_rank > 0:
        return Health(path="/health", ready_path=None, means_ready=False, timeout=timeout, info_path=None)
    if before(release, "0.5.1"):
        # From 0.4.7 to 0.4.9 two clocks are compared: once anything was received, it is healthy for ever.
        lies = not before(release, "0.4.7") and before(release, "0.4.10")
        return Health(path="/health_generate", ready_path=None, means_ready=not lies, timeout=timeout, info_path=info)
    bare = not before(release, "0.5.6") and _off(env.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"))
    bypassed = not before(release, "0.5.23") and _on(env.get("SGLANG_DIAG_BYPASS_HEALTH_GENERATE"))
    return Health(
        path="/health_generate" if bare else "/health",
        ready_path=None if before(release, "0.5.20") else "/ready",
        means_ready=not bypassed,
        timeout=timeout,
        info_path=info,
    )


def router_health() -> Health:
    """sglang-router: ``/health`` is 200 with no worker at all, ``/readiness`` is the truth (seen with 0.3.2)."""
    return Health(path="/readiness", ready_path=None, means_ready=True, timeout=5.0, info_path=None)


def before(release: str, bound: str) -> bool:
    """Whether ``release`` is known and earlier than ``bound``; one that cannot be read is taken for a recent one."""
    try:
        return parsed(release) < parsed(bound)
    except Unreadable:
        return False


def _limit(release: str, env: Mapping[str, str]) -> float:
    if before(release, "0.4.4"):
        return PROBE_LIMIT
    try:
        return max(1.0, float(env.get("SGLANG_HEALTH_CHECK_TIMEOUT", PROBE_LIMIT)))
    except ValueError:
        return PROBE_LIMIT


def _info(release: str) -> str | None:
    if before(release, "0.4.0"):
        return None
    return "/get_server_info" if before(release, "0.5.6") else "/server_info"


def _off(value: str | None) -> bool:
    return value is not None and value.lower() in ("0", "false", "no", "n")


def _on(value: str | None) -> bool:
    return value is not None and value.lower() in ("1", "true", "yes", "y")
