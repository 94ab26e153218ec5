"""``deployer check`` as an admin runs it: exit codes, places, JSON, speed."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployer.cli.check import command

ROOT = Path(__file__).resolve().parents[2]

GOOD = """\
description = "a server"

[sglang]
version = "0.5.9"
python = "/opt/sglang/.venv/bin/python"

[args]
model-path = "/models/m"
port = {port}
tp-size = 8
kv-cache-dtype = "bf16"
trust-remote-code = true

[gpu]
devices = [{gpu}]
"""


def unit(space: Path, name: str, text: str) -> None:
    (space / "units").mkdir(exist_ok=True)
    (space / "units" / f"{name}.toml").write_text(text, "utf-8")


def good(port: int = 30000, gpu: int = 0) -> str:
    return GOOD.format(port=port, gpu=gpu)


def run(space: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "deployer", *words], cwd=space, capture_output=True, text=True)


def found(space: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """The command in this process: a Python of its own for each case would take most of the time."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = command.main(["--json", *words], obj=str(space), standalone_mode=False)
    told = json.loads(output.getvalue())
    assert set(told) == {"ok", "findings"}
    assert told["ok"] == (code == 0)
    for finding in told["findings"]:
        assert set(finding) == {"code", "level", "message", "file", "line", "column", "hint"}
    return code, told["findings"]


def test_nothing_to_report(tmp_path: Path) -> None:
    unit(tmp_path, "a", good())
    assert found(tmp_path) == (0, [])
    ran = run(tmp_path, "check")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "1 unit checked: nothing to report\n")


def test_a_finding_reads_like_a_compilers(tmp_path: Path) -> None:
    unit(tmp_path, "a", good().replace('"bf16"', '"bf61"').replace("tp-size", "cuda_graph_max_bs_decode"))
    ran = run(tmp_path, "check", "a")
    assert ran.returncode == 1
    assert ran.stderr == (
        "units/a.toml:10:1: error: `cuda_graph_max_bs_decode` came in 0.5.14; SGLang 0.5.9 does not have it "
        "[argument-too-new]\n"
        "   10 | cuda_graph_max_bs_decode = 8\n"
        "      | ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "    help: write cuda-graph-max-bs, its name before 0.5.14\n"
        "units/a.toml:11:1: error: `kv-cache-dtype` does not take \"bf61\" in SGLang 0.5.9 [unknown-choice]\n"
        "   11 | kv-cache-dtype = \"bf61\"\n"
        "      | ^^^^^^^^^^^^^^\n"
        "    help: did you mean \"bf16\"? it takes auto, fp8_e5m2, fp8_e4m3, bf16, bfloat16, fp4_e2m1\n"
        "1 unit checked: 2 errors\n"
    )


def test_warnings_are_told_and_allowed(tmp_path: Path) -> None:
    unit(tmp_path, "a", good().replace("tp-size", "tp"))
    code, findings = found(tmp_path)
    assert code == 0
    assert [(f["code"], f["level"], f["line"]) for f in findings] == [("abbreviated-argument", "warning", 10)]


def test_toml_that_cannot_be_read_is_reported_beside_the_others(tmp_path: Path) -> None:
    unit(tmp_path, "a", "[args\n")
    unit(tmp_path, "b", good().replace("8", '"eight"', 1))
    code, findings = found(tmp_path)
    assert code == 1
    assert {Path(f["file"]).name for f in findings} == {"a.toml", "b.toml"}


def test_a_unit_that_is_not_there_is_usage(tmp_path: Path) -> None:
    unit(tmp_path, "qwen", good())
    ran = run(tmp_path, "check", "qven")
    assert ran.returncode == 2
    assert "did you mean qwen?" in ran.stderr


def test_a_template_with_a_fault_has_its_place(tmp_path: Path) -> None:
    unit(tmp_path, "a", good())
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "sglang.service.j2").write_text("[Unit]\n\n{{ no_such_name }}\n", "utf-8")
    code, findings = found(tmp_path)
    assert code == 1
    assert any(str(f["file"]).endswith("sglang.service.j2") and f["line"] == 3 for f in findings)


def test_entries_of_a_config_table_are_arguments(tmp_path: Path) -> None:
    unit(tmp_path, "a", good().replace("tp-size = 8", 'config = { tp-size = "many" }'))
    code, findings = found(tmp_path)
    assert code == 1
    assert [(f["code"], f["line"]) for f in findings] == [("value-type", 10)]


def test_overrides_point_into_hosts_toml(tmp_path: Path) -> None:
    unit(tmp_path, "a", good())
    (tmp_path / "hosts.toml").write_text(
        '[hosts.h]\naddress = "192.0.2.1"\nunits = ["a"]\n\n[hosts.h.overrides.a.args]\nport = "x"\n', "utf-8")
    code, findings = found(tmp_path)
    assert code == 1
    assert [(f["code"], Path(f["file"]).name, f["line"]) for f in findings] == [("value-type", "hosts.toml", 6)]


def test_units_of_one_host_collide(tmp_path: Path) -> None:
    unit(tmp_path, "a", good(30000, 0))
    unit(tmp_path, "b", good(30000, 1))
    unit(tmp_path, "c", good(30100, 0))
    assert found(tmp_path) == (0, [])
    (tmp_path / "hosts.toml").write_text('[hosts.h]\naddress = "192.0.2.1"\nunits = ["a", "b", "c"]\n', "utf-8")
    code, findings = found(tmp_path)
    assert code == 1
    assert [(f["code"], Path(f["file"]).name, f["line"]) for f in findings] == [
        ("port-collision", "b.toml", 9), ("gpu-shared", "c.toml", 15)]
    assert "on h, b and a both take port 30000 (HTTP; HTTP)" in findings[0]["message"]


def hosts(space: Path, *units: str) -> None:
    listed = ", ".join(f'"{name}"' for name in units)
    (space / "hosts.toml").write_text(f'[hosts.h]\naddress = "192.0.2.1"\nunits = [{listed}]\n', "utf-8")


def test_addresses_of_their_own_do_not_collide(tmp_path: Path) -> None:
    unit(tmp_path, "a", good(30000, 0).replace("tp-size", 'host = "192.0.2.7"\ntp-size'))
    unit(tmp_path, "b", good(30000, 1).replace("tp-size", 'host = "192.0.2.8"\ntp-size'))
    hosts(tmp_path, "a", "b")
    assert found(tmp_path) == (0, [])


def test_ports_behind_dp_attention_collide(tmp_path: Path) -> None:
    """--port + 233 and what follows it, and --port + 13: server_args.py, PortArgs.init_new, 0.5.9."""
    unit(tmp_path, "a", good(30000, 0).replace("tp-size = 8", "tp-size = 8\ndp-size = 8\nenable-dp-attention = true"))
    unit(tmp_path, "b", good(30234, 1))
    unit(tmp_path, "c", good(30240, 2))
    hosts(tmp_path, "a", "b", "c")
    code, findings = found(tmp_path)
    assert code == 1
    assert [(f["code"], Path(f["file"]).name) for f in findings] == [("port-collision", "b.toml")]


def test_a_random_port_may_meet_a_fixed_one(tmp_path: Path) -> None:
    """Up to 0.5.8 --port + 100 to 1000, while the other's port is bound only after its model has been loaded."""
    unit(tmp_path, "a", good(30000, 0).replace("0.5.9", "0.5.8"))
    unit(tmp_path, "b", good(30500, 1).replace("0.5.9", "0.5.8"))
    hosts(tmp_path, "a", "b")
    code, findings = found(tmp_path)
    assert code == 0
    assert [(f["code"], f["level"]) for f in findings] == [("port-may-collide", "warning")]
    assert "pin nccl-port of a" in findings[0]["hint"]
    unit(tmp_path, "a", good(30000, 0).replace("0.5.9", "0.5.8").replace("tp-size", "nccl-port = 40000\ntp-size"))
    assert found(tmp_path) == (0, [])


def test_a_collision_that_an_override_resolves(tmp_path: Path) -> None:
    unit(tmp_path, "a", good(30000, 0))
    unit(tmp_path, "b", good(30000, 1))
    (tmp_path / "hosts.toml").write_text(
        '[hosts.h]\naddress = "192.0.2.1"\nunits = ["a", "b"]\n\n[hosts.h.overrides.b.args]\nport = 30500\n', "utf-8")
    assert found(tmp_path) == (0, [])


@pytest.mark.parametrize(("directive", "code", "level"), [
    ('Type = "notify"', "type-notify", "error"),
    ('Type = "forking"', "type-forking", "error"),
    ("PrivateDevices = true", "private-devices", "error"),
    ("MemoryDenyWriteExecute = true", "memory-deny-write-execute", "error"),
    ('RestrictAddressFamilies = ["AF_INET", "AF_INET6"]', "address-families", "error"),
    ('ProcSubset = "pid"', "proc-subset", "error"),
    ('SystemCallFilter = "~@resources"', "system-calls", "error"),
    ("PrivateNetwork = true", "private-network", "error"),
    ('KillMode = "process"', "kill-mode", "error"),
    ('KillMode = "control-group"', "kill-mode", "warning"),
    ('TimeoutStartSec = "20min"', "timeoutstart-on-simple", "warning"),
    ('TimeoutStopSec = "5s"', "stop-before-drain", "warning"),
    ('WatchdogSec = "30s"', "watchdog-without-notify", "error"),
    ('StandardOutput = "null"', "log-not-in-journal", "warning"),
    ('StartLimitIntervalSec = "1h"', "startlimit-in-service", "error"),
    ("StartLimitBurst = 3", "startlimit-in-service", "warning"),
    ('After = "a.service"', "key-in-wrong-section", "error"),
    ("RestrtSec = 3", "unknown-directive", "error"),
    ('Restart = "sometimes"', "bad-directive", "error"),
])
def test_directives(tmp_path: Path, directive: str, code: str, level: str) -> None:
    unit(tmp_path, "a", good() + f"\n[service]\n{directive}\n")
    _, findings = found(tmp_path)
    assert (code, level, 18) in [(f["code"], f["level"], f["line"]) for f in findings]
    assert {f["code"] for f in findings} == {code}


@pytest.mark.parametrize("directive", [
    "PrivateDevices = false", "ProtectHome = true", 'ProtectHome = "read-only"', 'User = "sglang"',
    'Restart = "always"',
    'RestrictAddressFamilies = ["AF_INET", "AF_UNIX", "AF_NETLINK"]', 'TimeoutStopSec = "10min"', "LimitNOFILE = 65536",
    'StandardOutput = "journal"', 'KillMode = "mixed"', 'WatchdogSec = 0', 'WorkingDirectory = "/srv"',
])
def test_directives_that_do_no_harm(tmp_path: Path, directive: str) -> None:
    unit(tmp_path, "a", good() + f"\n[service]\n{directive}\n")
    assert found(tmp_path) == (0, [])


def test_protect_home_with_something_in_a_home(tmp_path: Path) -> None:
    unit(tmp_path, "a", good().replace("/models/m", "/home/ann/m") + "\n[service]\nProtectHome = true\n")
    _, findings = found(tmp_path)
    assert [(f["code"], f["line"]) for f in findings] == [("protect-home", 18)]
    assert "/home/ann/m" in findings[0]["message"]


def test_without_gpus_their_devices_may_be_hidden(tmp_path: Path) -> None:
    unit(tmp_path, "a", good().replace("[0]", '"none"') + "\n[service]\nPrivateDevices = true\n")
    assert found(tmp_path) == (0, [])


def test_the_examples_have_no_error() -> None:
    code, findings = found(ROOT)
    assert code == 0, findings


def test_two_hundred_units_take_three_seconds(tmp_path: Path) -> None:
    """Processor time: the clock of a machine that runs other tests too tells nothing of this program."""
    for number in range(200):
        unit(tmp_path, f"u{number}", good(30000 + 20 * number, 0).replace('"0.5.9"', '">=0.5.4,<0.5.20"'))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = run(tmp_path, "check")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.returncode == 0, ran.stderr[-500:]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3.0


FAULTY = {
    "type": 'description = 5\n\n[sglang]\nversion = "0.5.9"\npython = "/opt/python"\n\n',
    "unknown-key": 'frob = 1\n\n[sglang]\nversion = "0.5.9"\npython = "/opt/python"\n\n',
    "python": '[sglang]\nversion = "0.5.9"\npython = "opt/python"\n\n',
    "version": '[sglang]\nversion = 5\npython = "/opt/python"\n\n',
    "sglang": "",
}


@pytest.mark.parametrize("head", FAULTY.values(), ids=list(FAULTY))
def test_arguments_are_judged_beside_faults_of_the_same_file(tmp_path: Path, head: str) -> None:
    unit(tmp_path, "a", head + '[args]\nmodel-path = "/m"\nno-such-argument = 1\nport = 2026-01-01\n\n'
         '[service]\nRestrt = "no"\n')
    code, findings = found(tmp_path)
    codes = [finding["code"] for finding in findings]
    assert code == 1
    assert len(codes) == 4 and codes[-3:] == ["unknown-argument", "wrong-type", "unknown-directive"]
    assert all(finding["line"] and finding["file"].endswith("a.toml") for finding in findings)


def test_what_a_fault_itself_brings_about_is_not_reported(tmp_path: Path) -> None:
    unit(tmp_path, "a", good().replace("[args]", "[arg]"))
    unit(tmp_path, "b", good().replace('model-path = "/models/m"', "model-path = 2026-01-01"))
    unit(tmp_path, "c", good().replace("devices = [0]", 'devices = 7\n[service]\nPrivateDevices = true'))
    unit(tmp_path, "d", good() + '[verify]\ndrain = "x"\n[service]\nTimeoutStopSec = "1s"\n')
    codes = [finding["code"] for finding in found(tmp_path)[1]]
    assert codes == ["unknown-key", "wrong-type", "wrong-type", "bad-value"]


def test_overrides_with_a_fault_hide_no_argument(tmp_path: Path) -> None:
    unit(tmp_path, "a", good())
    (tmp_path / "hosts.toml").write_text('[hosts.g]\nunits = ["a"]\n[hosts.g.overrides.a.args]\nprt = 1\n'
                                         '[hosts.g.overrides.a.verify]\ndeadline = "1s"\n')
    assert {finding["code"] for finding in found(tmp_path)[1]} >= {"unknown-argument", "conflict"}
