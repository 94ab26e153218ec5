"""The verifier run on a host as the transaction runs it: a mark, a start, a watch; its events as they come."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

from deployer.protocol.codec import to_plain
from deployer.protocol.expectations import Expectations
from deployer.remote.bundle import bundle
from tests.hosts.bed import Host

UNIT = """\
[Unit]
StartLimitIntervalSec=1000
[Service]
Type=exec
Environment=PYTHONUNBUFFERED=1 DEPLOYER_UNIT=s.service
ExecStart=/opt/sglang/.venv/bin/python -m sglang.launch_server {}
KillMode=mixed
LogRateLimitBurst=1000000
{}
"""
DRIVER = """\
import json, resource, subprocess, sys, time
sys.path.insert(0, "/root/agent")
from deployer.agent.verify.mark import take
from deployer.agent.verify.operation import answer
from deployer.agent.verify.watch import watch
from deployer.protocol.codec import from_plain
from deployer.protocol.expectations import Expectations
from deployer.protocol.redact import Redactor

asked = json.loads(sys.argv[1])

def emit(event, data):
    print(json.dumps({"at": time.monotonic(), "event": event, "data": data}), flush=True)

redactor = Redactor(asked["secrets"].values())
mark = None
if asked["start"]:
    mark = take(asked["unit"])
    subprocess.run(["systemctl", "start", *asked["options"], asked["unit"]], stderr=subprocess.DEVNULL)
result = watch(asked["unit"], from_plain(Expectations, asked["expectations"]), mark, emit, secrets=asked["secrets"],
               redactor=redactor, history=asked["history"])
own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
emit("end", dict(answer(result, redactor), cpu_own=own.ru_utime + own.ru_stime,
                 cpu_children=children.ru_utime + children.ru_stime))
"""


class Watching:
    """A verifier at work on a host. ``told`` holds every event so far; ``at`` is the host's monotonic clock."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.told: list[dict[str, Any]] = []

    def events(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: dict[str, Any] = json.loads(line)
            self.told.append(event)
            yield event

    def until(self, gate: str, state: str) -> dict[str, Any]:
        """Waits for a gate to reach a state."""
        for event in self.events():
            if event["event"] == "gate" and (event["data"]["gate"], event["data"]["state"]) == (gate, state):
                return event
            assert event["event"] != "end", f"{gate} never became {state}: {verdicts(event)}"
        raise AssertionError("the verifier ended without a word")

    def end(self) -> dict[str, Any]:
        """The last event: passed, verdicts, explanation, figures, and the CPU time it took."""
        for event in self.events():
            if event["event"] == "end":
                self._process.wait(10)
                return event
        raise AssertionError("the verifier ended without a word")


def verdicts(end: dict[str, Any]) -> str:
    return "\n".join(f"{v['gate']}: {v['state']} {v['text']}" for v in end["data"]["verdicts"])


def gate(end: dict[str, Any], name: str) -> tuple[str, str]:
    """State and text of a gate at the end."""
    return next((v["state"], v["text"]) for v in end["data"]["verdicts"] if v["gate"] == name)


def install(host: Host, words: str = "--model-path /models/tiny --port 30000 --tp-size 2", *, lines: str = "",
            release: str = "", unit: str = "s") -> None:
    """The agent's code, the release, and a unit that serves on port 30000."""
    if release:
        host.sglang.install(release)
    host.run(["mkdir", "-p", "/root/agent"])
    host.run(["python3", "-c", "import json,os,sys\nfor path, text in json.load(sys.stdin).items():\n"
              "  path = '/root/agent/' + path; os.makedirs(os.path.dirname(path), exist_ok=True)\n"
              "  open(path, 'w').write(text)"], input=bundle().plain.decode())
    host.write("/root/driver.py", DRIVER)
    host.write(f"/etc/systemd/system/{unit}.service", UNIT.format(words, lines))
    host.run("systemctl daemon-reload")


def watch(host: Host, expectations: Expectations, *, start: bool = True, secrets: dict[str, str] | None = None,
          history: list[dict[str, Any]] | None = None, unit: str = "s.service",
          options: list[str] | None = None) -> Watching:
    """Starts the unit and watches it, or with ``start=False`` judges what runs."""
    asked = {"unit": unit, "start": start, "expectations": to_plain(expectations), "secrets": secrets or {},
             "history": history or [], "options": options or []}
    return Watching(host.popen(["python3", "-u", "/root/driver.py", json.dumps(asked)]))


def logged(host: Host, text: str, unit: str = "s") -> float:
    """When the unit's journal got the last line with ``text``, by the monotonic clock that events are stamped with."""
    rows = host.run(["journalctl", "-q", "-o", "json", "-a", "-u", unit]).out.splitlines()
    return max(int(row["__MONOTONIC_TIMESTAMP"]) / 1e6 for row in map(json.loads, rows) if text in str(row["MESSAGE"]))
