"""What the tests of a push share: a declared unit and the words of a run."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.hosts.bed import Host, Operator, forked
from tests.hosts.faults import operate

UNIT = "qwen"
SERVICE = "qwen.service"
PYTHON = "/opt/sglang/.venv/bin/python"
MODEL = "/models/tiny"

SETTINGS = """\
[sglang]
version = "{version}"
python = "{python}"

[args]
model-path = "{model}"
port = {port}
tp-size = 1
{args}

[service]
{service}

[gpu]
devices = [0]

[verify]
deadline = "{deadline}"
settle = "{settle}"
drain = "5s"
{more}
"""


def declare(operator: Operator, name: str = UNIT, **changes: str | int) -> None:
    """Writes ``units/NAME.toml``; ``args``, ``service`` and ``more`` are lines of TOML."""
    values: dict[str, str | int] = {
        "version": "0.5.9", "python": PYTHON, "model": MODEL, "port": 30000, "args": "", "service": "",
        "deadline": "60s", "settle": "0s", "more": "", **changes,
    }
    operator.write(f"units/{name}.toml", SETTINGS.format(**values))


def push(operator: Operator, host: Host, *words: str, code: int = 0) -> str:
    """Pushes, expects the exit code, gives what was said."""
    said = operator.deployer("push", host.name, "-u", UNIT, *words)
    assert said.code == code, f"exit {said.code}, expected {code}\n{said.out}\n{said.err}"
    return said.out + said.err


def events(operator: Operator, host: Host, *words: str) -> list[dict[str, Any]]:
    """The JSON events of a push, the result last."""
    said = operator.deployer("push", host.name, "-u", UNIT, "--json", *words)
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert lines and lines[-1]["event"] == "result", said.out + said.err
    return lines


def serves(host: Host, port: int = 30000) -> dict[str, Any]:
    """What the server on the port says of itself."""
    ran = host.run(f"curl -s -m 5 http://127.0.0.1:{port}/server_info")
    return dict(json.loads(ran.out))


def argv(host: Host) -> list[str]:
    """The command line that runs, or nothing."""
    pid = host.state(SERVICE).get("MainPID", "0")
    raw = host.run(f"tr '\\0' '\\n' </proc/{pid}/cmdline", check=False).out
    return raw.splitlines() if pid != "0" else []


class Client:
    """A push that goes on while the test breaks something; its agent stops at points (tests/hosts/faults)."""

    def __init__(self, operator: Operator, host: Host, *words: str) -> None:
        number, said = tempfile.mkstemp(dir=operator.home, suffix=".said")
        os.close(number)
        self._said = Path(said)
        self.process = forked.begin(["push", host.name, "-u", UNIT, *words], operator.env, operator.workspace,
                                    (os.devnull, said, said), operate.arm)

    def end(self, timeout: float = 120.0) -> tuple[int, str]:
        """Its exit code and all that it said."""
        self.process.join(timeout)
        said = self._said.read_text(errors="replace")
        assert self.process.exitcode is not None, f"the push goes on after {timeout:.0f} s:\n{said}"
        return self.process.exitcode, said


ROOT = Path(__file__).parents[2]
