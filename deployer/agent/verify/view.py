"""What a watch tells while it goes on: gates when they change, and how the start gets on."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

from deployer.agent.door import Emit
from deployer.agent.verify.say import duration
from deployer.protocol.redact import Redactor
from deployer.protocol.verdict import GateState, Verdict

EVERY = 1.0
"""Seconds between two events about the same waiting gate, and between two about the progress."""


class View:
    """Everything that leaves it has passed the redactor."""

    def __init__(self, emit: Emit, redactor: Redactor) -> None:
        self._emit = emit
        self._redactor = redactor
        self._told: Dict[str, Tuple[GateState, str, float]] = {}
        self._progress: Tuple[float, Dict[str, Any]] = (float("-inf"), {})

    def gates(self, verdicts: Sequence[Verdict], now: float) -> None:
        """Events ``gate``: each change of state at once, a change of what it waits for once a second at most."""
        for verdict in verdicts:
            before = self._told.get(verdict.gate)
            if before and before[0] is verdict.state and (
                    verdict.state is not GateState.WAITING or before[1] == verdict.text or now - before[2] < EVERY):
                continue
            self._told[verdict.gate] = (verdict.state, verdict.text, now)
            data: Dict[str, Any] = {"gate": verdict.gate, "state": verdict.state.value, "text": verdict.text}
            if verdict.state is not GateState.WAITING:
                data["figures"] = verdict.figures
            self._emit("gate", self._redactor.plain(data))

    def progress(self, now: float, begun: float, log: Dict[str, Any], gpus: Sequence[Dict[str, Any]], line: str,
                 left: Optional[str], left_seconds: Optional[float]) -> None:
        """An event ``progress`` once a second at most, and only when something but the time is new."""
        phase, percent = log.get("phase"), log.get("percent")
        data: Dict[str, Any] = {
            "phase": phase, "percent": percent, "line": line,
            "memory": [{"gpu": gpu.get("index"), "used": gpu.get("used"), "total": gpu.get("total")} for gpu in gpus],
        }
        at, before = self._progress
        if now - at < EVERY or before == data:
            return
        self._progress = (now, data)
        words = [str(phase) + ("" if percent is None else " {:.0f} %".format(percent))] if phase else []
        words += [str(log["slow"])] if log.get("slow") else []
        words.append(duration(now - begun))
        if left:
            words.append(left)
        seconds = None if left_seconds is None else round(left_seconds, 1)
        told = dict(data, seconds=round(now - begun, 1), left=seconds, text=", ".join(words))
        self._emit("progress", self._redactor.plain(told))
