"""Defaults, and the settings' own directives over them."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.settings.model import Container, GpuSettings, VerifySettings, WatchSettings
from deployer.systemd.lint import lint
from deployer.systemd.parse import Unit, merge, parse
from tests.render.declared import codes, findings, rendered, text


def read(**changes: Any) -> Unit:
    return merge(parse(text(rendered(**changes))))


def service(section: str = "Service", **directives: Any) -> Unit:
    return read(directives={section: directives})


def test_defaults() -> None:
    unit = read(args={"model-path": "/models/x"}, verify=VerifySettings(drain=100, deadline=600))
    assert lint(unit) == []
    assert {key: unit.value("Service", key) for key in (
        "Type", "KillMode", "TimeoutStopSec", "Restart", "SuccessExitStatus", "RestartForceExitStatus",
        "RestartPreventExitStatus", "LogRateLimitBurst", "LimitMEMLOCK", "SyslogIdentifier",
    )} == {
        "Type": "exec", "KillMode": "mixed", "TimeoutStopSec": "175", "Restart": "on-failure",
        "SuccessExitStatus": "SIGKILL", "RestartForceExitStatus": "SIGKILL", "RestartPreventExitStatus": "2",
        "LogRateLimitBurst": "1000000", "LimitMEMLOCK": "infinity", "SyslogIdentifier": "x",
    }
    assert unit.words("Unit", "RequiresMountsFor") == ["/models/x", "/opt/sglang"]
    assert unit.words("Unit", "After") == ["network-online.target", "nvidia-persistenced.service"]
    assert unit.words("Install", "WantedBy") == ["multi-user.target"]
    for key in ("PrivateDevices", "ProtectHome", "MemoryDenyWriteExecute", "NoNewPrivileges", "ProtectClock"):
        assert unit.value("Service", key) is None


@pytest.mark.parametrize(("release", "success"), [
    ("0.4.0", "SIGKILL"), ("0.5.18", "SIGKILL"), ("0.5.19", None), ("0.5.23", None), (">=0.5.9,<0.6", "SIGKILL"),
    (">=0.5.20,<0.6", None),
])
def test_exit_semantics_of_the_release(release: str, success: str | None) -> None:
    unit = read(sglang=release)
    assert unit.value("Service", "SuccessExitStatus") == success
    assert unit.value("Service", "RestartForceExitStatus") == success


@pytest.mark.parametrize(("unit_section", "service_section", "deadline"), [
    ({}, {}, 1200.0), ({"StartLimitBurst": 10}, {}, 60.0), ({}, {"RestartSec": "5min"}, 60.0),
    ({"StartLimitBurst": "3"}, {"RestartSec": 90}, 1200.0),
])
def test_start_limit_window_holds_all_slow_crashes(
    unit_section: dict[str, Any], service_section: dict[str, Any], deadline: float
) -> None:
    from deployer.systemd.values import seconds

    unit = read(directives={"Unit": unit_section, "Service": service_section}, verify=VerifySettings(deadline=deadline))
    window = seconds(unit.value("Unit", "StartLimitIntervalSec") or "") or 0
    burst = int(unit.value("Unit", "StartLimitBurst") or 0)
    pause = seconds(unit.value("Service", "RestartSec") or "") or 0
    assert window >= burst * (deadline + pause)


@pytest.mark.parametrize(("section", "key", "value", "expected"), [
    ("Service", "KillMode", "process", "process"), ("Service", "Type", "simple", "simple"),
    ("Service", "TimeoutStopSec", 5, "5"), ("Service", "Restart", "no", "no"), ("Service", "LimitNOFILE", 1024, "1024"),
    ("Service", "PrivateTmp", False, "no"), ("Service", "NoNewPrivileges", True, "yes"), ("Service", "Nice", -5, "-5"),
    ("Service", "User", "sglang", "sglang"), ("Service", "RestartPreventExitStatus", "3", "3"),
    ("Service", "CPUWeight", 1.5, "1.5"), ("Unit", "StartLimitBurst", 9, "9"), ("Unit", "Description", "mine", "mine"),
    ("Unit", "StartLimitInterval", 7, None),
])
def test_a_declared_directive_takes_the_place_of_the_default(section: str, key: str, value: Any, expected: Any) -> None:
    unit = service(section, **{key: value})
    if expected is None:                           # an old name takes the place of the new one
        assert [item.value for item in unit.all("Unit", "StartLimitIntervalSec")] == ["7"]
    else:
        assert [item.value for item in unit.all(section, key)] == [expected]


def test_a_list_repeats_and_what_adds_up_is_added() -> None:
    assert [item.value for item in service(ExecStartPre=["/bin/a", "/bin/b"]).all("Service", "ExecStartPre")] == [
        "/bin/a", "/bin/b"]
    assert service("Unit", After=["a.mount"]).words("Unit", "After")[-2:] == ["nvidia-persistenced.service", "a.mount"]
    assert service("Unit", After=["", "a.mount"]).words("Unit", "After") == ["a.mount"]
    wanted = service("Install", WantedBy=["a.target", "b.target"])
    assert wanted.words("Install", "WantedBy") == ["a.target", "b.target"]
    assert service("Install", WantedBy=[]).words("Install", "WantedBy") == []
    assert service(ReadWritePaths="/srv").words("Service", "ReadWritePaths") == ["/srv"]


def test_declared_environment_directive_adds_to_env() -> None:
    release = rendered(env={"A": "1"}, directives={"Service": {"Environment": ["B=2", '"C=x y"']}})
    assert {key: release.env[key] for key in "ABC"} == {"A": "1", "B": "2", "C": "x y"}
    assert release.env["DEPLOYER_UNIT"] == "x.service"


def test_unset_variables_are_not_told() -> None:
    release = rendered(env={"B": "1"}, directives={"Service": {"UnsetEnvironment": "HOME PATH=/other HF_HOME"}})
    assert {"HOME", "HF_HOME"}.isdisjoint(release.env)
    assert {"PATH", "B"} <= set(release.env)
    assert codes(env={"A": "1"}, directives={"Service": {"UnsetEnvironment": "A"}}) == [
        ("template-drops-variable", ("env", "A"))]


def test_env_takes_the_place_of_a_default_variable() -> None:
    shown = text(rendered(env={"HOME": "/srv/h", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}))
    assert shown.count("Environment=HOME=") == 1
    assert "numbered as nvidia-smi" not in shown
    assert rendered(env={"HOME": "/srv/h"}).env["HOME"] == "/srv/h"


@pytest.mark.parametrize(("directives", "code", "key"), [
    ({"Service": {"ExecStart": "/bin/x"}}, "own-directive", ("service", "ExecStart")),
    ({"Service": {"User": "a\nb"}}, "line-break", ("service", "User")),
    ({"Unit": {"Documentation": "x\\"}}, "trailing-backslash", ("unit", "Documentation")),
    ({"Service": {"Environment": "NAME=%Q"}}, "percent-unknown", ("template",)),
])
def test_directives_that_cannot_be_written(directives: Any, code: str, key: tuple[str, ...]) -> None:
    assert codes(directives=directives) == [(code, key)]


def test_declared_environment_cannot_contradict_env() -> None:
    assert codes(env={"A": "1"}, directives={"Service": {"Environment": "A=2"}}) == [
        ("template-drops-variable", ("env", "A"))]


@pytest.mark.parametrize(("devices", "visible", "order"), [
    ("all", None, "PCI_BUS_ID"), ((0, 3), "0,3", "PCI_BUS_ID"), (("GPU-aa", "GPU-bb"), "GPU-aa,GPU-bb", "PCI_BUS_ID"),
    (None, None, None),
])
def test_gpus(devices: Any, visible: str | None, order: str | None) -> None:
    release = rendered(gpu=GpuSettings(devices=devices))
    assert release.env.get("CUDA_VISIBLE_DEVICES") == visible
    assert release.env.get("CUDA_DEVICE_ORDER") == order
    assert ("nvidia-persistenced" in text(release)) is (devices is not None)


@pytest.mark.parametrize(("changes", "private"), [
    ({}, "yes"), ({"args": {"model-path": "/tmp/m"}}, None), ({"env": {"HF_HOME": "/var/tmp/hf"}}, None),
    ({"args": {"x": ["a=/tmp/l"]}}, None), ({"args": {"model-path": "/tmpfs/m"}}, "yes"),
])
def test_sandbox_hides_nothing_that_is_named(changes: dict[str, Any], private: str | None) -> None:
    assert read(**changes).value("Service", "PrivateTmp") == private


def test_container_is_refused_in_words() -> None:
    found = findings(runtime=Container("lmsysorg/sglang:v0.5.9"))
    assert [finding.code for finding in found] == ["container-unsupported"]
    assert "python =" in found[0].hint


def test_mounts_leave_out_what_is_no_local_path() -> None:
    assert read(args={"model-path": "Qwen/Qwen3-8B"}).words("Unit", "RequiresMountsFor") == ["/opt/sglang"]
    assert read(args={"model-path": "/a/../b"}).words("Unit", "RequiresMountsFor") == ["/opt/sglang"]
    assert read(args={"model-path": '/a "b\\c%'}).words("Unit", "RequiresMountsFor")[0] == '/a "b\\c%%'


def test_watch_renders_three_files_that_are_wanted() -> None:
    release = rendered(watch=WatchSettings(interval=20, misses=3, timeout=30), args={"host": "::", "port": 5})
    assert [file.path for file in release.files] == [
        "/etc/systemd/system/x.service", "/etc/deployer/x/watch.sh", "/etc/systemd/system/x-watch.service",
        "/etc/systemd/system/x-watch.timer",
    ]
    assert "Wants=x-watch.timer\n" in text(release)
    assert "'http://[::1]:5/health'" in text(release, "/etc/deployer/x/watch.sh")
    for path in ("x-watch.service", "x-watch.timer"):
        unit = merge(parse(text(release, f"/etc/systemd/system/{path}"), sections=("Unit", "Service", "Timer")))
        assert unit.problems == ()
