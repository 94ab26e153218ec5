"""The host with the real SGLang and its operator: declaring, pushing, reading what the journal tells."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.hosts.bed import Host, Operator
from tests.sglang.install import Installed

UNITS = Path(__file__).resolve().parents[2] / "units"
TEMPLATES = UNITS.with_name("templates")
SERVER, ROUTER, MODEL = "/opt/sglang-cpu", "/opt/router/.venv", "/srv/models/tiny-gpt2"
"""Where the examples in ``units/`` have them."""

LIMIT = 900.0
"""Seconds for one command; a start takes 20 on a quiet machine."""

PATIENT = {"deadline": "10min", "stall": "3min"}
"""On a machine that is busy with other tests."""


def binds(installed: Installed) -> list[str]:
    """systemd-nspawn's options that show the host what is installed, read-only.

    An environment may be looked at from any path, but the interpreter that it links to stays at its own. One of the
    system's own is not bound: the host's root file system is of the same release and has it too.
    """
    places = [(installed.server, SERVER), (installed.router, ROUTER), (installed.model, MODEL)]
    if installed.python != Path("/usr"):
        places.append((installed.python, str(installed.python)))
    return [f"--bind-ro={source}:{target}" for source, target in places]


class Scene:
    """``declare`` and ``push`` work on the repository's own examples, with this host's overrides over them."""

    def __init__(self, host: Host, operator: Operator) -> None:
        self.host = host
        self.operator = operator
        self._overrides: dict[str, dict[str, dict[str, Any]]] = {}
        operator.write("units/tiny-gpt2.toml", (UNITS / "tiny-gpt2.toml").read_text())
        operator.write("units/probe.toml", (UNITS / "tiny-gpt2.toml").read_text())
        operator.write("units/sglang-router.toml", (UNITS / "sglang-router.toml").read_text())

    def declare(self, unit: str, **tables: dict[str, Any]) -> None:
        """What this host declares of ``unit`` over the example: ``args={"port": 31002}``, ``verify=...``."""
        self._overrides[unit] = {**tables, "verify": {**PATIENT, **tables.get("verify", {})}}
        lines = []
        for name, overrides in self._overrides.items():
            for table, values in overrides.items():
                lines.append(f'[hosts."{self.host.name}".overrides."{name}".{table}]')
                lines += [f"{json.dumps(key)} = {_toml(value)}" for key, value in values.items()]
        self.operator.write("hosts.toml", "\n".join(lines) + "\n")

    def append_arguments(self, *words: str) -> None:
        """The workspace's own template puts ``words`` behind the arguments, unseen by the check. None: the packaged."""
        text = (TEMPLATES / "sglang.service.j2").read_text()
        assert "(command_line, arguments)" in text
        more = text.replace("(command_line, arguments)", f"(command_line, arguments + {list(words)!r})")
        file = self.operator.write("templates/sglang.service.j2", more)
        if not words:
            file.unlink()

    def push(self, unit: str, *words: str, code: int = 0) -> str:
        """Pushes, expects the exit code, gives what was said."""
        said = self.operator.deployer("push", self.host.name, "-u", unit, *words, timeout=LIMIT)
        assert said.code == code, f"exit {said.code}, expected {code}\n{said.out}\n{said.err}"
        return said.out + said.err

    def begin_push(self, unit: str) -> subprocess.Popen[str]:
        return self.operator.start("push", self.host.name, "-u", unit)

    def ask(self, command: str, unit: str, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """What a command says with --json, one value a line."""
        said = self.operator.deployer(command, self.host.name, "-u", unit, *words, "--json", timeout=LIMIT)
        assert said.code == code, f"exit {said.code}, expected {code}\n{said.out}\n{said.err}"
        return [json.loads(line) for line in said.out.splitlines()]

    def explain(self, unit: str) -> dict[str, Any]:
        """``deployer explain`` of the unit's whole journal: its last start counts."""
        text = self.host.run(f"journalctl --no-pager -a -o short-iso -u {unit}.service").out
        said = self.operator.deployer("explain", "-", "--json", input=text)
        assert said.code == 0, said.err
        return dict(json.loads(said.out))

    def serve_by_hand(self, unit: str, port: int) -> None:
        """Starts a server on ``port`` that the tool knows nothing of."""
        words = ["--unit", unit, "--property=KillMode=mixed", "--setenv=HF_HUB_OFFLINE=1", "--setenv=HOME=/root"]
        arguments = ["--model-path", MODEL, "--port", str(port), "--device", "cpu", "--max-total-tokens", "4096",
                     "--attention-backend", "torch_native", "--max-running-requests", "4", "--sleep-on-idle"]
        self.host.run(["systemd-run", *words, f"{SERVER}/bin/python", "-m", "sglang.launch_server", *arguments])

    def pid(self, unit: str) -> int:
        return int(self.host.state(f"{unit}.service")["MainPID"])

    def wait_for(self, unit: str, line: str, seconds: float = 240.0) -> None:
        """Returns once the log of the present start of ``unit`` has ``line``."""
        self.until(f'id=$(systemctl show --value -p InvocationID {unit}.service); [ -n "$id" ] && '
                   f"journalctl -q -o cat _SYSTEMD_INVOCATION_ID=$id | grep -q -F -- '{line}'", seconds)

    def until(self, condition: str, seconds: float = 240.0) -> None:
        """Returns once the shell's ``condition`` holds on the host."""
        text = f"for i in $(seq {int(seconds * 5)}); do ( {condition} ) && exit 0; sleep 0.2; done; exit 1"
        self.host.run(text, timeout=seconds * 4)

    def servers(self) -> set[int]:
        """Every process of any SGLang on the host: by program, or by the title that it gave itself."""
        return set(self.host.pids(f"^(sglang::|{SERVER}/bin/python)"))

    def status(self, path: str, port: int = 31000, key: str = "") -> int:
        """The status code of an HTTP answer; 0 where nobody answers."""
        header = f"-H 'Authorization: Bearer {key}' " if key else ""
        ran = self.host.run(f"curl -s -m 30 -o /dev/null -w '%{{http_code}}' {header}http://127.0.0.1:{port}{path}",
                            check=False)
        return int(ran.out)

    def running(self, port: int = 31000) -> dict[str, Any]:
        """What the server on the port says of itself."""
        return dict(json.loads(self.host.run(f"curl -s -m 30 http://127.0.0.1:{port}/server_info").out))


def _toml(value: Any) -> str:
    """Scalars and lists are written alike in JSON; a table is inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
