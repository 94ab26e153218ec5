"""Hand edits on a real host become settings: the push after that changes nothing that runs, the drift is settled."""

from __future__ import annotations

import tomllib

from tests.hosts.bed import Host, Operator
from tests.hosts.pushing import SERVICE, argv, declare, push

UNIT_FILE = f"/etc/systemd/system/{SERVICE}"


def test_hand_edits_are_taken_over(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    text = host.read(UNIT_FILE)
    host.write(UNIT_FILE, text.replace("--tp-size 1", "--tp-size 1 \\\n    --context-length 2048"))
    host.run(f"mkdir -p {UNIT_FILE}.d")
    host.write(f"{UNIT_FILE}.d/10-hand.conf", "[Service]\nEnvironment=NCCL_DEBUG=WARN\nNice=3\n")
    host.run(f"systemctl daemon-reload && systemctl restart {SERVICE}")
    edited = argv(host)
    assert "--context-length" in edited

    printed = operator.deployer("adopt", host.name, "-u", "qwen", "-o", "-")
    assert printed.code == 0, printed.err
    refused = operator.deployer("adopt", host.name, "-u", "qwen")
    assert refused.code == 7, refused.err
    said = operator.deployer("adopt", host.name, "-u", "qwen", "--yes")
    assert said.code == 0, said.err
    assert "not taken over" not in said.err
    written = (operator.workspace / "units" / "qwen.toml").read_text()
    assert written == printed.out
    data = tomllib.loads(written)
    assert data["args"]["context-length"] == 2048
    assert data["env"] == {"NCCL_DEBUG": "WARN"}
    assert data["service"] == {"Nice": "3"}

    without = push(operator, host, code=7)
    assert f"deployer push {host.name} -u qwen --overwrite-drift (the settings declare" in without
    push(operator, host, "--overwrite-drift")
    assert argv(host) == edited
    assert not host.exists(f"{UNIT_FILE}.d/10-hand.conf")
    environment = host.run(f"systemctl show -p Environment -p Nice {SERVICE}").out
    assert "NCCL_DEBUG=WARN" in environment and "Nice=3" in environment
    assert "nothing to do" in push(operator, host)
    again = operator.deployer("adopt", host.name, "-u", "qwen")
    assert (again.code, "nothing to adopt" in again.err) == (0, True)
    assert operator.deployer("diff", host.name, "-u", "qwen", "--exit-code").code == 0


def test_a_unit_that_was_never_declared(host: Host, operator: Operator) -> None:
    command = "/opt/s/bin/python -m sglang.launch_server --model /m --tp 2"
    host.write("/etc/systemd/system/old.service", "[Service]\nUser=sglang\nEnvironment=A=1\n"
               f"ExecStart={command}\n[Install]\nWantedBy=multi-user.target\n")
    operator.write("hosts.toml", "")
    said = operator.deployer("adopt", host.name, "-u", "old")
    assert said.code == 0, said.err
    data = tomllib.loads((operator.workspace / "units" / "old.toml").read_text())
    assert data["args"] == {"model-path": "/m", "tp-size": 2}
    assert (data["env"], data["service"]) == ({"A": "1"}, {"User": "sglang"})
    missing = operator.deployer("adopt", host.name, "-u", "nobody")
    assert missing.code == 7
    assert "to adopt" in missing.err
