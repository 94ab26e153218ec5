"""A push on a real host: the first one, nothing to do, a change, and each way to fail."""

from __future__ import annotations

import json

from tests.hosts.bed import Host, Operator
from tests.hosts.pushing import MODEL, SERVICE, UNIT, argv, declare, events, push, serves


def test_first_push_then_nothing_to_do_then_a_change(host: Host, operator: Operator) -> None:
    declare(operator)
    said = push(operator, host)
    assert "release 1 serves" in said
    assert serves(host)["model_path"] == MODEL
    assert host.state(SERVICE)["UnitFileState"] == "enabled"

    pid = host.state(SERVICE)["MainPID"]
    said = push(operator, host)
    assert "nothing to do" in said
    assert host.state(SERVICE)["MainPID"] == pid

    declare(operator, args="context-length = 1024")
    said = push(operator, host)
    assert "--context-length (absent) → 1024" in said
    assert "--context-length" in argv(host)
    assert host.state(SERVICE)["MainPID"] != pid
    assert host.run("ls -A /etc/systemd/system | grep deployer-", check=False).out == ""


def test_json_events_in_order(host: Host, operator: Operator) -> None:
    declare(operator)
    told = events(operator, host)
    steps = [line["data"]["step"] for line in told if line["event"] == "step" and line["data"]["state"] == "done"]
    assert steps == ["preflight", "stop", "clean", "install", "start", "verify", "keep"]
    assert told[-1]["outcome"] == "done"
    assert told[-1]["host"] == host.name


def test_a_failed_change_comes_back(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    before = argv(host)
    host.sglang.behave({"when": {"context_length": 1024}, "fail": {"at": "weights", "how": "cuda-oom"}})
    declare(operator, args="context-length = 1024")
    said = push(operator, host, code=4)
    assert "cuda-oom-weights" in said
    assert "release 1 of qwen.service serves again, verified" in said
    assert argv(host) == before
    assert serves(host)["context_length"] != 1024
    history = json.loads(operator.deployer("history", host.name, "-u", UNIT, "--json").out)["units"][0]
    assert history["current"] == 1
    assert [entry["outcome"] for entry in history["releases"]] == ["done", "rolled-back"]
