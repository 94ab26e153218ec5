"""How releases answer and end, at the bounds that SGLang's sources show."""

from __future__ import annotations

import pytest

from deployer.protocol.expectations import Health
from deployer.sglang.health import health, router_health
from deployer.sglang.signals import ExitSemantics, exit_semantics, stop_timeout


@pytest.mark.parametrize(("release", "path", "ready", "truth", "info"), [
    ("0.3.6", "/health_generate", None, True, None),
    ("0.4.0", "/health_generate", None, True, "/get_server_info"),
    ("0.4.6.post5", "/health_generate", None, True, "/get_server_info"),
    ("0.4.7", "/health_generate", None, False, "/get_server_info"),
    ("0.4.9", "/health_generate", None, False, "/get_server_info"),
    ("0.4.10", "/health_generate", None, True, "/get_server_info"),
    ("0.5.1", "/health", None, True, "/get_server_info"),
    ("0.5.5", "/health", None, True, "/get_server_info"),
    ("0.5.6", "/health", None, True, "/server_info"),
    ("0.5.19", "/health", None, True, "/server_info"),
    ("0.5.20", "/health", "/ready", True, "/server_info"),
    ("0.5.23", "/health", "/ready", True, "/server_info"),
    ("", "/health", "/ready", True, "/server_info"),
])
def test_health_of_a_release(release: str, path: str, ready: str | None, truth: bool, info: str | None) -> None:
    assert health(release) == Health(path, ready, truth, 25.0, info)


@pytest.mark.parametrize(("release", "env", "expected"), [
    ("0.5.9", {"SGLANG_HEALTH_CHECK_TIMEOUT": "60"}, ("/health", True, 65.0)),
    ("0.4.3", {"SGLANG_HEALTH_CHECK_TIMEOUT": "60"}, ("/health_generate", True, 25.0)),
    ("0.5.9", {"SGLANG_HEALTH_CHECK_TIMEOUT": "soon"}, ("/health", True, 25.0)),
    ("0.5.9", {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}, ("/health_generate", True, 25.0)),
    ("0.5.5", {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}, ("/health", True, 25.0)),
    ("0.5.23", {"SGLANG_DIAG_BYPASS_HEALTH_GENERATE": "true"}, ("/health", False, 25.0)),
])
def test_variables_change_the_answers(release: str, env: dict[str, str], expected: tuple[str, bool, float]) -> None:
    found = health(release, env=env)
    assert (found.path, found.means_ready, found.timeout) == expected


def test_a_rank_above_0_says_nothing() -> None:
    found = health("0.5.23", node_rank=1)
    assert (found.means_ready, found.ready_path, found.info_path) == (False, None, None)


def test_router_is_asked_for_readiness() -> None:
    assert router_health().path == "/readiness"


@pytest.mark.parametrize(("lowest", "program", "expected"), [
    ("0.4.0", "sglang", ExitSemantics("SIGKILL", "SIGKILL", "2")),
    ("0.5.18", "sglang", ExitSemantics("SIGKILL", "SIGKILL", "2")),
    ("0.5.19", "sglang", ExitSemantics("", "", "2")),
    ("", "sglang", ExitSemantics("SIGKILL", "SIGKILL", "2")),
    ("0.3.2", "router", ExitSemantics("", "", "2")),
])
def test_exit_semantics(lowest: str, program: str, expected: ExitSemantics) -> None:
    assert exit_semantics(lowest, program) == expected


def test_a_stop_may_take_the_drain_and_the_teardown() -> None:
    assert stop_timeout(120) == 195
