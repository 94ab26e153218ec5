"""What the live view knows of one host: steps and gates so far, what the current one waits for. No terminal here."""

from __future__ import annotations

import time
from typing import Any

from deployer.cli.views import STEPS
from deployer.protocol.records import dataclass, field

GATES = ("unit", "log", "port", "health", "declared", "memory", "capacity", "accuracy", "answer", "load", "settle")


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
        self.estimate = text
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
