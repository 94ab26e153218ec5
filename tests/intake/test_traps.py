"""Every code of a trap, each by the smallest unit that has it; and units that look alike and have none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from deployer.cli.check import command
from deployer.intake.bring import How, bring_unit
from deployer.intake.files import Files
from deployer.intake.traps import LEVELS

HEAD = "[Unit]\nDescription=x\n[Service]\n"
RUN = "ExecStart=/opt/s/bin/python -m sglang.launch_server --model-path /srv/m --port 1\n"
TRAPS = [
    ("path-dollar-in-environment", RUN + 'Environment="PATH=/opt/bin:$PATH"\n'),
    ("path-dollar-in-environment", RUN + "Environment=LD_LIBRARY_PATH=/x:${LD_LIBRARY_PATH}\n"),
    ("startlimit-in-service", RUN + "StartLimitIntervalSec=60\n"),
    ("key-in-wrong-section", RUN + "WantedBy=multi-user.target\n"),
    ("unknown-key", RUN + "RestartSecs=5\n"),
    ("unknown-section", RUN + "[Servce]\nUser=x\n"),
    ("repeated-key", RUN + "User=a\nUser=b\n"),
    ("remark-behind-value", RUN + "Restart=always # yes\n"),
    ("remark-behind-value", RUN.strip() + " # --tp 2\n"),
    ("blank-after-backslash", RUN.strip() + " \\ \n  --tp 2\n"),
    ("continuation-into-empty-line", RUN.strip() + " \\\n\n  --tp 2\n"),
    ("two-execstart", RUN + RUN), ("semicolon-commands", "ExecStartPre=/bin/true ; /bin/true\n" + RUN),
    ("relative-execstart", RUN.replace("/opt/s", "venv")),
    ("unit-refused", 'ExecStart=/opt/python "-m\n'), ("unit-refused", "User=x\n"),
    ("percent-unknown", RUN + "Environment=A=50%x\n"), ("percent-unknown", RUN.strip() + " --x 5%z\n"),
    ("percent-h-is-roots-home", RUN + "User=svc\nEnvironment=HF_HOME=%h/hf\n"),
    ("percent-p-as-user", RUN + "User=%p\n"),
    ("unset-variable", RUN.strip() + " --x ${NOWHERE}\n"),
    ("unquoted-json", RUN.strip() + ' --json-model-override-args {"a":1}\n'),
    ("unquoted-json", RUN.strip() + ' --json-model-override-args={"a": [1, 2]}\n'),
    ("secret-in-unit", RUN + "Environment=HF_TOKEN=hf_abcdefghijkl\n"),
    ("secret-in-unit", RUN.strip() + " --api-key abc\n"), ("secret-in-unit", RUN.strip() + " --api-key=abc\n"),
    ("private-devices", RUN + "PrivateDevices=true\n"),
    ("memory-deny-write-execute", RUN + "MemoryDenyWriteExecute=1\n"),
    ("protect-home", RUN.replace("/srv", "/home/ai") + "ProtectHome=yes\n"),
    ("pull-in-execstartpre", "ExecStartPre=-/usr/bin/docker pull img\n" + RUN),
    ("timeoutstart-on-simple", RUN + "TimeoutStartSec=1200\n"), ("type-notify", RUN + "Type=notify\n"),
    ("type-forking", RUN + "Type=forking\n"),
]
HARMLESS = [
    RUN, RUN + "ProtectHome=yes\n", RUN + "PrivateDevices=no\n", RUN + "TimeoutStartSec=30\n",
    RUN + 'Environment="NOTE=a # b" "COST=5$" "ESC=a$$b"\n', RUN + "Environment=TAG=a;b HF_TOKEN_PATH=/x\n",
    RUN + "TimeoutStartSec=1200\nType=oneshot\n", RUN + "User=root\nEnvironment=HF_HOME=%h/hf\n",
    RUN.strip() + """ --json-model-override-args '{"a": 1}' --x "{\\"b\\": 2}"\n""",
    RUN.strip() + " --api-key ${KEY}\nEnvironment=KEY=/x\n",
    RUN.strip() + " --tokenizer-path /x --max-total-tokens 5\n",
    "ExecStartPre=/bin/sh -c 'true # not a remark' \n" + RUN, RUN + "ExecStartPost=/opt/wait\nTimeoutStartSec=900\n",
    "Type=forking\nExecStart=/usr/bin/tmux new -d '/opt/s/bin/python -m sglang.launch_server --model /m'\n",
    "ExecStart=/bin/sh -c 'exec /opt/s/bin/python -m sglang.launch_server --api-key $${KEY}'\n",
    RUN + "TimeoutStopSec=300\nRestart=always\nRestartSec=5\n", RUN + "EnvironmentFile=-/etc/none.env\n",
]


def traps(text: str, name: str = "x.service", dropins: dict[str, bytes] | None = None, **how: object) -> set[str]:
    result = bring_unit(text.encode(), name, dropins or {}, Files(None), How(**how))  # type: ignore[arg-type]
    return set(result.traps)


@pytest.mark.parametrize(("code", "body"), TRAPS, ids=[f"{i}-{code}" for i, (code, _) in enumerate(TRAPS)])
def test_trap(code: str, body: str) -> None:
    found = traps(HEAD + body)
    refused = {"two-execstart", "relative-execstart", "unit-refused"}
    assert code in found
    assert found - {code} <= ({"unit-refused"} if code in refused or "--x 5%z" in body else set())


@pytest.mark.parametrize("body", HARMLESS)
def test_no_trap(body: str) -> None:
    assert traps(HEAD + body) == set()


def test_dropins_are_sorted_as_text() -> None:
    body = HEAD + RUN
    nine, ten = {"9-a.conf": b"[Service]\nNice=1\n"}, {"10-b.conf": b"[Service]\nNice=2\n"}
    assert traps(body, dropins=nine | ten) == {"dropin-order-as-text"}
    assert traps(body, dropins={"05-a.conf": b"[Service]\nNice=1\n"} | ten) == set()


def test_a_users_unit_cannot_require_one_of_the_systems() -> None:
    text = HEAD.replace("x\n", "x\nRequires=docker.service\n", 1) + RUN + "[Install]\nWantedBy=default.target\n"
    assert traps(text) == {"requires-system-unit"}
    assert traps(text.replace("default.target", "multi-user.target")) == set()
    assert traps(text.replace("docker.service", "my-weights.service")) == set()


def test_every_code_is_tried() -> None:
    tried = {code for code, _ in TRAPS} | {"dropin-order-as-text", "requires-system-unit"}
    assert tried == set(LEVELS)


def test_check_of_a_unit_file(tmp_path: Path) -> None:
    file = tmp_path / "llm.service"
    file.write_text(HEAD + RUN + "PrivateDevices=yes\n")
    result = CliRunner().invoke(command, [str(file), "--json"], standalone_mode=False)
    data = json.loads(result.stdout)
    assert result.return_value == 1
    assert [(item["code"], item["level"], item["file"], item["line"]) for item in data["findings"]] == [
        ("private-devices", "error", str(file), 5)]
