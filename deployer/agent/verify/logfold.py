"""The journal's entries to what the gates know of the log: only this start's lines, read by the log reader."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from deployer.agent.log.explanation import Explanation
from deployer.agent.log.read import LogReader
from deployer.agent.verify.journal import RESTART_SCHEDULED, STARTING, Entry
from deployer.protocol import patterns

READ_UP_TO = 100_000
"""Entries of a server that runs already, read from its start on, before its ready line is given up."""
_START_LIMIT = "Start request repeated too quickly"
_SKIPPED = ("was skipped because", "Condition check resulted in", "Starting requested but asserts failed")
"""systemd's own words, in no other language: before 249 the second."""
_SLOW = (
    ("DeepGEMM JIT Pre-Compile session", "compiles DeepGEMM kernels, 10 to 20 minutes on a cold cache"),
    ("Running FlashInfer autotune", "FlashInfer tries out kernels"),
    ("host memory for hierarchical KV cache", "pins host memory for hicache, longer the more it is"),
    ("hierarchical KV host pool", "pins host memory for hicache, longer the more it is"),
)
"""SGLang's lines 0.4.6 on, 0.5.12 on, 0.4.8 to 0.5.16, 0.5.17 on."""
_OUR_OWN = patterns.compile(r'"(?:GET|POST) /(?:health|health_generate|ready|readiness|server_info|get_server_info|'
                            r'model_info|get_model_info|v1/models|v1/completions|generate)[ ?].*HTTP/')
"""What a server logs of our asking: no sign that the start moves."""


class LogFold:
    """Fed with entries as they come. ``marked``: a new start is watched, whose invocation differs from ``old``."""

    def __init__(self, marked: bool, old: str = "", unit: str = "") -> None:
        self._reader = LogReader(unit)
        self._marked = marked
        self._old = old
        self._invocation = ""
        self._held: List[Entry] = []
        self._value: Dict[str, Any] = {"heard": 0, "lines": 0, "moving_lines": 0, "complete": marked}
        self._slow_in: Optional[str] = None
        self.last_line = ""

    def start_is(self, invocation: str) -> bool:
        """Tells which start is watched, once it is known; whether that was news."""
        if self._invocation or not invocation or (self._marked and invocation == self._old):
            return False
        self._invocation = invocation
        return True

    def feed(self, entries: Sequence[Entry]) -> Dict[str, Any]:
        """Takes entries and gives the value of a ``log`` observation. Lines of other starts are left out."""
        self._value["heard"] += len(entries)
        for entry in entries:
            self._systemd_says(entry)
        if not self._invocation and any(entry.invocation for entry in entries):
            self._held.extend(entries)
            return dict(self._value)
        entries, self._held = [*self._held, *entries], []
        for entry in entries:
            if self._ours(entry):
                self._take(entry)
        return self._told()

    def _systemd_says(self, entry: Entry) -> None:
        """What counts whosesoever start it names: a refused start has no invocation of its own."""
        if not entry.systemd or not self._marked:
            return
        if _START_LIMIT in entry.text:
            self._value["start_limit"] = True
        if any(word in entry.text for word in _SKIPPED):
            self._value["skipped"] = entry.text
        if entry.message_id in STARTING and entry.invocation and entry.invocation != self._old:
            self._value["started"] = True
            self.start_is(entry.invocation)

    def _ours(self, entry: Entry) -> bool:
        if entry.invocation:
            return entry.invocation == self._invocation
        return self._marked or not entry.systemd

    def _take(self, entry: Entry) -> None:
        value = self._value
        value["lines"] += 1
        if entry.message_id in STARTING:
            value["complete"] = True
        if entry.dropped:
            value["lost"] = value.get("lost", 0) + entry.dropped
        if entry.message_id == RESTART_SCHEDULED:
            value["restart_scheduled"] = True
        self._reader.feed(entry.text)
        self._slow(entry.text)
        if not self._marked and value["lines"] > READ_UP_TO and not self._reader.ready:
            value["complete"], value["given_up"] = False, True
        if not entry.systemd and entry.text.strip() and not _OUR_OWN.search(entry.text):
            value["moving_lines"] += 1
            self.last_line = entry.text

    def _slow(self, text: str) -> None:
        """Names what is known to take long, until its phase is over."""
        phase = self._reader.phase.name
        if self._slow_in is not None and (phase != self._slow_in or "autotune completed" in text):
            self._slow_in = None
            self._value.pop("slow", None)
        for needle, words in _SLOW:
            if needle in text:
                self._value["slow"], self._slow_in = words, phase

    def _told(self) -> Dict[str, Any]:
        reader, value = self._reader, self._value
        ready, fatal, phase = reader.ready, reader.fatal, reader.phase
        tokens = reader.capacity.get("max_total_num_tokens")
        news = (ready, fatal, tokens) != tuple(value.get(key) for key in ("ready", "fatal", "max_total_num_tokens"))
        value.update(ready=ready, fatal=fatal, phase=phase.name or None, percent=_running(phase.percent),
                     detail=phase.detail, max_total_num_tokens=tokens)
        if fatal or news:
            found = reader.explanation()
            value.update(cause=found.cause, evidence=found.evidence, kv_cache_dtype=found.kv_cache_dtype)
        return dict(value)

    def explanation(self, unit_state: Optional[Dict[str, Any]]) -> Explanation:
        return self._reader.explanation(unit_state)


def _running(percent: Optional[int]) -> Optional[int]:
    """A bar that has come to its end says nothing about what goes on now."""
    return percent if percent is not None and percent < 100 else None


Redact = Callable[[str], str]


def shown_line(line: str, redact: Redact, width: int = 200) -> str:
    """A log line as people are shown it: of a progress bar its last state, redacted, cut."""
    parts = [part for part in line.replace("\n", " ").split("\r") if part.strip()]
    return redact(parts[-1].strip())[:width] if parts else ""
