"""One quick question to a running server, for ``status``: is it healthy, and what can it hold."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from deployer.agent.verify.http import request, target
from deployer.protocol.expectations import Expectations

PATIENCE = 3.0
"""Seconds: /health takes at least 1 s by design from 0.5.1 on; a busy server's answer is not waited for."""


def glance(expected: Expectations, secrets: Mapping[str, str]) -> Dict[str, Any]:
    """``{healthy, text, tokens}``; ``healthy`` None where nothing can be asked or no answer came in time."""
    at = target(expected, secrets)
    if at is None:
        return {"healthy": None, "text": "no port known", "tokens": None}
    path = expected.health.ready_path or expected.health.path
    if expected.kind == "minimal":
        path = "/health"
    answered = request(at, path, timeout=PATIENCE)
    if answered.status is None:
        late = answered.error == "timeout"
        return {"healthy": None if late else False, "text": "no answer yet" if late else answered.error, "tokens": None}
    healthy = answered.status == 200
    tokens = _tokens(expected, at) if healthy and expected.health.info_path and expected.kind == "sglang" else None
    text = "healthy" if healthy else "answers {}".format(answered.status)
    return {"healthy": healthy, "text": text, "tokens": tokens}


def _tokens(expected: Expectations, at: Any) -> Any:
    info = request(at, str(expected.health.info_path), timeout=PATIENCE).json()
    return info.get("max_total_num_tokens") if isinstance(info, dict) else None
