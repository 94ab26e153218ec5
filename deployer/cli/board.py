"""What the live view knows of one host: steps and gates so far, what the current one waits for. No terminal here."""

from __future__ import annotations

import time
from typing import Any

from deployer.cli.views import STEPS
from deployer.protocol.records import dataclass, field, replace

VERIFYING = (STEPS["verify"], STEPS["back-verify"])
"""The steps below which the gates stand."""


@dataclass
class Row:
    """``state``: begin, done, failed, waiting, passed or skipped. ``seconds`` once it has ended."""

    name: str
    state: str
    text: str = ""
    begun: float = 0.0
    seconds: float | None = None

    @property
    def running(self) -> bool:
        return self.state in ("begin", "waiting")


@dataclass
class Board:
    """Fed with events in their order; read by the live view at any time."""

    host: str
    title: str = ""
    rows: list[Row] = field(default_factory=list)
    gates: dict[str, Row] = field(default_factory=dict)
    memory: list[dict[str, Any]] = field(default_factory=list)
    line: str = ""
    estimate: str = ""
    percent: float | None = None
    notes: list[str] = field(default_factory=list)
    ended: bool = False

    def take(self, event: str, data: dict[str, Any]) -> None:
        """One event, as ``View.tell`` gets it."""
        handler = getattr(self, f"_on_{event}", None)
        if handler:
            handler(data)

    def shown(self, room: int) -> list[tuple[str, Row]]:
        """Steps and, below the one that they belong to, gates, each with its indent: ``room`` if that can be.

        What has passed goes first, then the gates that wait behind another, then the steps that are done.
        """
        at = next((at for at in range(len(self.rows), 0, -1) if self.rows[at - 1].name in VERIFYING), len(self.rows))
        gates = [("  ", gate) for gate in self.gates.values() if gate.state != "skipped"]
        waiting = next((gate for _, gate in gates if gate.running), None)
        steps = [("", row) for row in self.rows]
        kept = gates
        for round in range(3):
            if round:
                kept = [entry for entry in kept if entry[1].state != "passed"]
            if round == 2:
                kept = [entry for entry in kept if not entry[1].running or entry[1] is waiting]
            if len(steps) + len(kept) <= room:
                return [*steps[:at], *kept, *steps[at:]]
        later = [step for step in steps[at:] if step[1].state != "done"]
        return [*(step for step in steps[:at] if step[1].state != "done"), *kept, *later]

    def now(self) -> Row | None:
        """Where the host stands, in one row: what failed, else the step under way and what it waits for; None: nowhere.

        Without steps (the gates alone are run) the first gate that waits, or the last one.
        """
        gates = list(self.gates.values())
        failed = [row for row in [*self.rows, *gates] if row.state == "failed"]
        waiting = next((gate for gate in gates if gate.running), None)
        last = self.rows[-1] if self.rows else None
        if failed or last is None:
            return failed[0] if failed else waiting
        if last.running and last.name in VERIFYING:
            return replace(last, text=self.estimate or (f"{waiting.name}: {waiting.text}" if waiting else last.text))
        if not last.running and gates and last.name not in STEPS.values():
            return waiting or gates[-1]
        return last

    def close(self) -> None:
        """The host has ended: nothing on it is running any more."""
        self.ended = True
        now = time.monotonic()
        for row in [*self.rows, *self.gates.values()]:
            if row.running:
                row.state, row.seconds = "skipped", now - row.begun

    def _on_connect(self, data: dict[str, Any]) -> None:
        self._row("connect", "connect", str(data["state"]), "", None)

    def _on_plan(self, data: dict[str, Any]) -> None:
        unit = str(data.get("unit", "")).removesuffix(".service")
        self.title = f"{unit}: {data.get('changes', '')}"

    def _on_step(self, data: dict[str, Any]) -> None:
        step = str(data["step"])
        if data["state"] == "begin" and step in ("verify", "back-verify"):
            self.gates, self.percent, self.estimate = {}, None, ""
        if data["state"] != "begin" and step in ("verify", "back-verify"):
            self.memory, self.line, self.estimate, self.percent = [], "", "", None
        self._row(step, STEPS.get(step, step), str(data["state"]), str(data.get("text", "")), data.get("seconds"))

    def _on_gate(self, data: dict[str, Any]) -> None:
        name = str(data["gate"])
        row = self.gates.get(name) or Row(name, "waiting", begun=time.monotonic())
        row.state, row.text = str(data["state"]), str(data.get("text", ""))
        if not row.running and row.seconds is None:
            row.seconds = time.monotonic() - row.begun
        self.gates[name] = row

    def _on_progress(self, data: dict[str, Any]) -> None:
        self.memory = data.get("memory") or self.memory
        self.line = str(data.get("line") or self.line)
        self.percent = data.get("percent")
        text = str(data.get("text", ""))
        # Only for how long it has been: the step's own row says that.
        told = data.get("phase") or "seconds" not in data or "," in text
        self.estimate = text if told else ""
        if "step" in data and self.rows and self.rows[-1].running:
            self.rows[-1].text, self.estimate = text, ""

    def _on_rollback(self, data: dict[str, Any]) -> None:
        self.notes.append(f"failed in the step {data.get('step')}: {data.get('reason')}")

    def _on_recovery(self, data: dict[str, Any]) -> None:
        self.notes.append(f"an interrupted push of {data.get('unit')} is put right first")

    def _on_reconnect(self, data: dict[str, Any]) -> None:
        lost = f"connection lost ({data.get('text')}): the host goes on by itself"
        self.notes.append("connected again" if data["state"] == "done" else lost)
        self.notes = self.notes[-4:]

    def _on_turn(self, data: dict[str, Any]) -> None:
        self._row("turn", "turn", str(data["state"]), str(data["text"]), data.get("seconds"))

    def _on_hook(self, data: dict[str, Any]) -> None:
        name = f"hook {data['when']}: {' '.join(data['command'])}"
        self._row(name, name, str(data["state"]), str(data.get("text", "")), None)

    def _row(self, key: str, name: str, state: str, text: str, seconds: Any) -> None:
        now = time.monotonic()
        if state == "begin" or not self.rows or self.rows[-1].name != name:
            self.rows.append(Row(name, state, text, now))
        row = self.rows[-1]
        row.state, row.text = state, text
        if not row.running:
            row.seconds = float(seconds) if seconds is not None else now - row.begun
