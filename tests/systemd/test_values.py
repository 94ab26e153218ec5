"""Time spans and values as systemd takes them."""

from __future__ import annotations

import pytest

from deployer.systemd import directives
from deployer.systemd.values import accepted, is_unit_name, seconds


@pytest.mark.parametrize(("text", "value"), [
    ("90", 90.0), ("1min 30s", 90.0), ("1h30min", 5400.0), ("0.5", 0.5), ("2 min", 120.0), ("100ms", 0.1),
    ("1M", 2629800.0), ("infinity", float("inf")), ("", None), ("5 ; seconds", None), ("soon", None), ("-1", None),
    ("1x", None),
])
def test_seconds(text: str, value: float | None) -> None:
    assert seconds(text) == (pytest.approx(value) if value is not None else None)


@pytest.mark.parametrize(("section", "key", "value", "taken"), [
    ("Service", "Type", "exec", True), ("Service", "Type", "simple # as always", False),
    ("Service", "Restart", "always", True), ("Service", "Restart", "sometimes", False),
    ("Service", "PrivateTmp", "Yes", True), ("Service", "PrivateTmp", "maybe", False),
    ("Service", "KillSignal", "SIGINT", True), ("Service", "KillSignal", "RTMIN+3", True),
    ("Service", "KillSignal", "SIGNONE", False), ("Service", "LimitNOFILE", "1024:infinity", True),
    ("Service", "LimitSTACK", "64M", True), ("Service", "LimitNOFILE", "many", False),
    ("Service", "UMask", "0027", True), ("Service", "UMask", "u=rwx", False),
    ("Service", "TimeoutStopSec", "45", True), ("Service", "TimeoutStopSec", "45 # long", False),
    ("Service", "EnvironmentFile", "-/etc/x", True), ("Service", "EnvironmentFile", '-"/etc/x"', False),
    ("Service", "OOMScoreAdjust", "-400", True), ("Service", "Nice", "%i", True),
    ("Service", "ProtectSystem", "odd", True), ("Service", "PrivateTmp", "disconnected", True),
])
def test_accepted(section: str, key: str, value: str, taken: bool) -> None:
    assert accepted(value, directives.kind(section, key).value, key) is taken


@pytest.mark.parametrize(("name", "valid"), [
    ("network.target", True), ("a@b.service", True), ("mnt-a\\x2db.mount", True), ("%i.service", True), (";", False),
    ("boot", False), ("a b.service", False),
])
def test_unit_names(name: str, valid: bool) -> None:
    assert is_unit_name(name) is valid


def test_table_knows_sections_kinds_and_releases() -> None:
    assert directives.home("KillMode") == "Service"
    assert directives.home("WantedBy") == "Install"
    assert directives.home("StartLimitIntervalSec") == "Unit"
    assert directives.home("Nonsense") is None
    assert directives.kind("Service", "ExecStart").many
    assert directives.kind("Unit", "After").dependency
    assert directives.kind("Unit", "RequiresMountsFor").dependency
    assert not directives.kind("Service", "User").many
    assert directives.kind("Service", "RestartSteps").since == 257
    assert directives.nearest("Service", "restart") == "Restart"
    assert directives.nearest("Service", "RestartSecs") == "RestartSec"
    assert directives.known("Service", "X-Owner")
