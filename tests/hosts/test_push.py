"""A push on a real host: the first one, nothing to do, a change, and each way to fail."""

from __future__ import annotations

import json

from tests.hosts.bed import Host, Operator
from tests.hosts.pushing import MODEL, SERVICE, UNIT, argv, declare, events, push, serves


def test_first_push_then_nothing_to_do_then_a_change(host: Host, operator: Operator) -> None:
    host.unvisited()
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


def test_a_first_push_onto_nothing_that_fails_leaves_nothing(host: Host, operator: Operator) -> None:
    host.sglang.behave(fail={"at": "weights", "how": "cuda-oom"})
    declare(operator)
    said = push(operator, host, code=5)
    assert "was not there before and is not there now; nothing serves" in said
    assert not host.exists(f"/etc/systemd/system/{SERVICE}")
    assert not host.exists("/etc/deployer")
    assert host.run("ls -A /etc/systemd/system | grep -i -E 'qwen|deployer'", check=False).out == ""
    assert host.state(SERVICE)["LoadState"] == "not-found"
    assert host.gpu.used_mib() == [0, 0]


HAND_MADE = """\
[Service]
ExecStart=/opt/sglang/.venv/bin/python -m sglang.launch_server --model-path /models/tiny --port 30000
Environment=HAND=made
KillMode=mixed
[Install]
WantedBy=multi-user.target
"""


def test_a_unit_that_was_there_is_release_0_and_comes_back(host: Host, operator: Operator) -> None:
    host.write(f"/etc/systemd/system/{SERVICE}", HAND_MADE)
    host.write(f"/etc/systemd/system/{SERVICE}.d/20-more.conf", "[Service]\nEnvironment=MORE=1\n")
    host.run(f"systemctl daemon-reload && systemctl enable --now {SERVICE} 2>&1")
    host.sglang.at(30000).wait("ready")
    host.sglang.behave({"when": {"context_length": 1024}, "fail": {"at": "graphs", "how": "graph-oom"}})
    declare(operator, args="context-length = 1024")
    said = push(operator, host, code=4)
    assert "release 0 of qwen.service serves again" in said
    assert host.read(f"/etc/systemd/system/{SERVICE}") == HAND_MADE
    assert "MORE=1" in host.read(f"/etc/systemd/system/{SERVICE}.d/20-more.conf")

    declare(operator)
    push(operator, host)
    assert not host.exists(f"/etc/systemd/system/{SERVICE}.d/20-more.conf")
    said = operator.deployer("rollback", host.name, "-u", UNIT)
    assert said.code == 0, said.err
    assert host.read(f"/etc/systemd/system/{SERVICE}") == HAND_MADE


def test_hand_edits_are_refused_and_shown(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    host.run(f"sed -i s/RestartSec=10/RestartSec=77/ /etc/systemd/system/{SERVICE}")
    pid = host.state(SERVICE)["MainPID"]
    said = push(operator, host, code=7)
    assert "was edited by hand" in said and "--overwrite-drift" in said
    diff = operator.deployer("diff", host.name, "-u", UNIT, "--exit-code")
    assert diff.code == 1 and "-RestartSec=10\n+RestartSec=77" in diff.out and "nothing to push" in diff.err
    assert host.state(SERVICE)["MainPID"] == pid
    dry = push(operator, host, "--overwrite-drift", "--dry-run")
    assert f"deployer push {host.name} -u {UNIT} --overwrite-drift" in dry
    push(operator, host, "--overwrite-drift")
    assert "RestartSec=77" not in host.read(f"/etc/systemd/system/{SERVICE}")


def test_a_regular_user_loses_its_shared_memory(host: Host, operator: Operator) -> None:
    for user, warned in (("ops", True), ("sglang", False)):
        declare(operator, service=f'User = "{user}"')
        assert ("remove-ipc" in push(operator, host, "--dry-run")) is warned, user
    declare(operator, service='User = "ops"')
    host.run("loginctl enable-linger ops")
    assert "remove-ipc" not in push(operator, host, "--dry-run")


def test_a_broken_unit_on_the_host_is_replaced(host: Host, operator: Operator) -> None:
    host.write(f"/etc/systemd/system/{SERVICE}", "[Service]\nExecStart=relative/path\n")
    host.run("systemctl daemon-reload")
    declare(operator)
    push(operator, host)
    assert host.state(SERVICE)["ActiveState"] == "active"


def test_the_port_held_by_another_sglang(host: Host, operator: Operator) -> None:
    """Log line and health both lie: refused before anything is changed; after it, failed by who owns the port."""
    other = HAND_MADE.replace("30000", "30007")
    host.write("/etc/systemd/system/other.service", other)
    host.run("systemctl daemon-reload && systemctl start other.service")
    host.sglang.at(30007).wait("ready")
    declare(operator, port=30007)
    said = push(operator, host, code=7)
    assert "port 30007 is held by other.service" in said
    assert not host.exists(f"/etc/systemd/system/{SERVICE}")
    assert host.state("other.service")["ActiveState"] == "active"


def test_the_port_taken_while_the_model_loads(host: Host, operator: Operator) -> None:
    declare(operator)
    host.sglang.behave(hold=["capacity"])
    started = operator.start("push", host.name, "-u", UNIT)
    server = host.sglang.at(30000)
    server.wait("capacity")
    host.write("/etc/systemd/system/other.service", "[Service]\nExecStart=/usr/bin/python3 -m http.server 30000\n")
    host.run("systemctl daemon-reload && systemctl start other.service")
    host.run("until curl -s -o /dev/null http://127.0.0.1:30000/; do sleep 0.05; done")
    server.advance()
    out, err = started.communicate(timeout=90)
    assert started.returncode == 5, out + err
    assert "port-in-use" in err
    assert host.state("other.service")["ActiveState"] == "active"
    assert host.state(SERVICE)["LoadState"] == "not-found"


def test_wrong_paths_are_all_told_before_anything_is_changed(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    pid = host.state(SERVICE)["MainPID"]
    declare(operator, python="/opt/nowhere/bin/python", model="/models/absent", service='User = "nobody-here"')
    said = push(operator, host, code=7)
    for code in ("python-missing", "model-path-missing", "user-missing"):
        assert code in said, said
    assert host.state(SERVICE)["MainPID"] == pid


def test_a_death_at_once_after_loading_and_after_ready(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    faults = ({"at": "launched", "how": "exit", "code": 1}, {"at": "capacity", "how": "scheduler-kill"},
              {"at": "ready", "how": "kill"})
    for number, fault in enumerate(faults):
        length = 512 * (number + 1)
        host.sglang.behave({"when": {"context_length": length}, "fail": fault})
        declare(operator, args=f"context-length = {length}", settle="3s")
        said = push(operator, host, code=4)
        assert "release 1 of qwen.service serves again, verified" in said, fault


def test_a_foreign_process_on_the_gpu_is_left_alone(host: Host, operator: Operator) -> None:
    declare(operator)
    with host.gpu.hold({0: 5000}):
        said = push(operator, host, code=7)
        assert "foreign-holder" in said
        assert host.gpu.used_mib()[0] == 5000
    push(operator, host)


def test_nothing_changes_with_dry_run(host: Host, operator: Operator) -> None:
    declare(operator)
    said = push(operator, host, "--dry-run")
    assert "would change" in said
    assert not host.exists(f"/etc/systemd/system/{SERVICE}")
    assert host.run("ls /var/lib/deployer", check=False).out.split() in ([], ["agent"])
