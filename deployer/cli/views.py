"""How a rollout is watched: JSON events, one a line, or plain lines for people. The live view has a file of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from deployer.cli import console
from deployer.protocol.codec import from_plain
from deployer.protocol.finding import Finding
from deployer.protocol.message import RESULT
from deployer.protocol.outcome import Outcome
from deployer.rollout.many import GOOD
from deployer.rollout.view import Report

STEPS = {
    "preflight": "preflight", "stop": "stop", "clean": "clean GPUs", "install": "install", "start": "start",
    "verify": "verify", "keep": "keep", "back-stop": "roll back: stop", "back-clean": "roll back: clean GPUs",
    "back-install": "roll back: install", "back-start": "roll back: start", "back-verify": "roll back: verify",
}


class JsonView:
    """One JSON object a line on stdout, the last being the result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def tell(self, host: str, event: str, data: dict[str, Any]) -> None:
        with self._lock:
            console.result_json({"event": event, "host": host, "data": data}, stream=True)

    def finish(self, reports: Sequence[Report]) -> None:
        with self._lock:
            if len(reports) == 1:
                console.result_json({"event": RESULT, **reports[0].plain()}, stream=True)
            else:
                console.result_json({"event": RESULT, "hosts": [report.plain() for report in reports]}, stream=True)


class PlainView:
    """Lines that can be read in a log: each step when it ends, each gate when it changes, a wait now and then."""

    EVERY = 10.0
    """Seconds between two lines about the same wait."""

    def __init__(self, many: bool) -> None:
        self._many = many
        self._lock = threading.Lock()
        self._said: dict[str, float] = {}

    def tell(self, host: str, event: str, data: dict[str, Any]) -> None:
        with self._lock:
            for line in self._lines(host, event, data):
                console.say(f"{host + ': ' if self._many else ''}{line}")

    def finish(self, reports: Sequence[Report]) -> None:
        for report in reports:
            summary(report)

    def _lines(self, host: str, event: str, data: dict[str, Any]) -> list[str]:
        if event == "finding":
            if "where" in data:
                console.show_findings([from_plain(Finding, {k: v for k, v in data.items() if k != "unit"})])
                return []
            return [f"{data.get('level', 'note')}: {data.get('message', '')}"]
        if event == "plan":
            return [f"{str(data['unit']).removesuffix('.service')}: {data['changes']}"]
        if event == "step":
            return self._step(host, data)
        if event == "gate":
            mark = {"passed": "ok", "failed": "FAILED", "skipped": "--"}.get(str(data.get("state")))
            return [f"  {data['gate']:<10} {mark:<6} {data.get('text', '')}"] if mark else []
        if event == "progress":
            return self._progress(host, data)
        if event == "rollback":
            return [console.paint(f"rolling back, since the step {data.get('step')} failed", "33;1")]
        if event == "recovery":
            return [f"an interrupted push of {data.get('unit')} (step {data.get('step') or '?'}) is put right first"]
        if event == "reconnect":
            if data["state"] == "done":
                return ["connected again"]
            return [f"connection lost ({data.get('text')}): the host goes on by itself, connecting again"]
        if event == "hook":
            return self._hook(data)
        if event == "turn":
            return [f"  … {data['text']}"] if data["text"] else []
        return []

    def _step(self, host: str, data: dict[str, Any]) -> list[str]:
        name, state = STEPS.get(str(data["step"]), str(data["step"])), data["state"]
        if state == "begin":
            self._said[host] = time.monotonic()
            return []
        # A failed gate has told why already.
        told = step_is_verify(data) and data.get("verdicts")
        text = f": {data['text']}" if data.get("text") and state == "failed" and not told else ""
        extra = f"  ({data['text']})" if data.get("text") and state == "done" else ""
        return [f"{name:<22} {'done' if state == 'done' else 'FAILED'} {data.get('seconds', 0):6.1f} s{extra}{text}"]

    def _progress(self, host: str, data: dict[str, Any]) -> list[str]:
        now = time.monotonic()
        if float(data.get("seconds", self.EVERY)) < self.EVERY:
            # A verification has only begun: what it finds is told by its gates.
            return []
        if not data.get("text") or now - self._said.get(host, 0.0) < self.EVERY:
            return []
        self._said[host] = now
        return [f"  … {data['text']}"]

    def _hook(self, data: dict[str, Any]) -> list[str]:
        if data["state"] == "begin":
            return []
        output = [f"  | {line}" for line in str(data.get("output", "")).splitlines()]
        said = f"hook {data['when']}: {' '.join(data['command'])} {data['state']} {data.get('text', '')}"
        return [said.rstrip(), *output]


def step_is_verify(data: dict[str, Any]) -> bool:
    return str(data.get("step")) in ("verify", "back-verify")


def summary(report: Report) -> None:
    """What one would paste into a ticket: what happened, the cause, the state now, the next command."""
    good = report.outcome in GOOD
    name = f"{report.host} {report.unit.removesuffix('.service')}".rstrip()
    word = str(report.data.get("word") or WORDS[report.outcome])
    told = f": {report.text}" if report.text else ""
    console.paragraph(f"{name}: {word}{told}", 2, word, "32;1" if good else "31;1")
    explanation = report.data.get("explanation") or {}
    if not good and explanation.get("evidence"):
        console.paragraph(f"  evidence: {explanation['evidence']}", 12)
    if not good and explanation.get("remedy"):
        console.paragraph(f"  remedy:   {explanation['remedy']}", 12)
    problem = report.data.get("rollback_problem")
    if problem:
        both = "THE ROLLBACK FAILED TOO"
        console.paragraph(f"  {both}: {problem.get('text')}", 4, both, "31;1")
    if report.state_now:
        console.paragraph(f"  now:      {report.state_now}", 12)
    figures = report.data.get("figures") or {}
    if report.outcome is Outcome.DONE and figures.get("down_s"):
        console.say(f"  down:     {figures['down_s']:.1f} s from stop to start")
    if report.next:
        console.say(f"  next:     {report.next}")


WORDS = {
    Outcome.DONE: "pushed", Outcome.NOTHING_TO_DO: "nothing to do", Outcome.REFUSED: "REFUSED",
    Outcome.LOCKED: "LOCKED", Outcome.ROLLED_BACK: "FAILED, ROLLED BACK", Outcome.DARK: "FAILED, NOTHING SERVES",
    Outcome.VERIFY_FAILED: "NOT GOOD", Outcome.UNREACHED: "NOT REACHED", Outcome.INTERRUPTED: "INTERRUPTED",
    Outcome.FAILED: "FAILED",
}
