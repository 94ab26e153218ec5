"""``deployer verify`` and the view from outside, from the operator's machine over SSH."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.hosts.bed import Host, Operator
from tests.hosts.pushing import SERVICE, UNIT, declare, push


def verify(operator: Operator, host: Host, *words: str, code: int) -> list[dict[str, Any]]:
    said = operator.deployer("verify", host.name, "-u", UNIT, "--json", *words)
    assert said.code == code, f"exit {said.code}\n{said.out}\n{said.err}"
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert lines[-1]["event"] == "result"
    return lines


def states(lines: list[dict[str, Any]]) -> dict[str, str]:
    return {line["data"]["gate"]: line["data"]["state"] for line in lines if line["event"] == "gate"}


def test_verify_changes_nothing_and_says_what_is_wrong(host: Host, operator: Operator) -> None:
    declare(operator, more='prompt = { text = "The capital of France is" }')
    push(operator, host)
    pid = host.state(SERVICE)["MainPID"]
    lines = verify(operator, host, code=0)
    assert states(lines) == {
        "unit": "passed", "log": "passed", "port": "passed", "health": "passed", "declared": "passed",
        "memory": "passed", "capacity": "passed", "accuracy": "skipped", "answer": "passed", "settle": "skipped"}
    assert lines[-1]["passed"] is True and lines[-1]["figures"]["max_total_num_tokens"] > 0
    host.sglang.at(30000).set(health=503)
    lines = verify(operator, host, code=8)
    assert states(lines)["health"] == "failed" and lines[-1]["passed"] is False
    assert "503" in lines[-1]["text"]
    assert host.state(SERVICE)["MainPID"] == pid
    host.run(["systemctl", "stop", SERVICE])
    said = operator.deployer("verify", host.name, "-u", UNIT)
    assert said.code == 8 and "NOT GOOD" in said.err and "nothing was changed" in said.err


def test_a_unit_that_the_workspace_does_not_have(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    (operator.workspace / "units" / f"{UNIT}.toml").unlink()
    declare(operator, "other")
    said = operator.deployer("verify", host.name, "-u", UNIT)
    assert said.code == 0 and "good: all gates passed" in said.err, said.err
    said = operator.deployer("verify", host.name, "-u", "nowhere")
    assert said.code == 7 and "never pushed" in said.err, said.err


def test_a_drop_in_by_hand_that_changes_what_runs(host: Host, operator: Operator) -> None:
    declare(operator, args="mem-fraction-static = 0.8")
    push(operator, host)
    exec_start = host.run(f"systemctl cat {SERVICE}").out.split("ExecStart=")[1].split("\nExec")[0]
    changed = "ExecStart=" + exec_start.split("\n\n")[0].replace("0.8", "0.7").replace("\\\n", " ").split("\n")[0]
    host.write(f"/etc/systemd/system/{SERVICE}.d/hand.conf", f"[Service]\nExecStart=\n{changed}\n")
    host.run(f"systemctl daemon-reload; systemctl restart {SERVICE}")
    host.sglang.at(30000).wait("ready")
    lines = verify(operator, host, code=8)
    assert "--mem-fraction-static: declared 0.8, running 0.7" in lines[-1]["text"]


@pytest.mark.parametrize(("address", "outside", "code"), [
    ("0.0.0.0", "true", ""),
    ("127.0.0.1", "true", "outside-loopback"),
    ("0.0.0.0", '"http://{}:30001"', "outside-refused"),
])
def test_seen_from_outside(host: Host, operator: Operator, address: str, outside: str, code: str) -> None:
    declare(operator, args=f'host = "{address}"', more=f"outside = {outside.format(host.address)}")
    said = push(operator, host, code=8 if code else 0)
    if code:
        assert "serves on its own host" in said
    lines = verify(operator, host, code=8 if code else 0)
    assert lines[-1].get("code", "") == code, lines[-1]
    assert states(lines)["outside"] == ("failed" if code else "passed")
    assert host.state(SERVICE)["ActiveState"] == "active"
