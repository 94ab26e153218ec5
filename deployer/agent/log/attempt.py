"""One start of the server: what its lines and systemd's said of it."""

from __future__ import annotations

from collections import deque
from typing import Deque, List, Optional

from deployer.agent.log import systemd
from deployer.agent.log.evidence import EXCEPTION, Evidence
from deployer.agent.log.findings import Findings
from deployer.agent.log.known import Known
from deployer.agent.log.lines import Line

_LONGEST = 1 << 18
_OF_PYTHON = ("Traceback", "usage: ")
SOURCE = "    "
"""Source text in a traceback and the options in a usage text: these say nothing of their own."""


class Attempt:
    """Fed line by line. ``index`` counts lines of the whole log; ``unit`` is the unit's name where a line gave it."""

    def __init__(self, unit: str = "") -> None:
        self.known = Known()
        self.evidence = Evidence(self.known)
        self.findings = Findings()
        self.unit = unit
        self.begun_by: str = ""
        self.by_restart = False
        self.started = False
        self.lines = 0
        self.process_lines = 0
        self.served = 0
        self.stop_line = ""
        self.stop_asked = False
        self.fatal_before_stop = False
        self.start_timeout = ""
        self.limit = ""
        self.control = ""
        self.exit: Optional[systemd.Event] = None
        self.exit_line = ""
        self.result = ""
        self.restart_due = False
        self.rebooted = False
        self.ready_line = ""
        self.gaps: List[str] = []
        self.lost = 0
        self.tail: Deque[str] = deque(maxlen=12)
        self.invocation = ""
        self._arguments = ""

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def unbound(self) -> bool:
        """The port was never this server's."""
        return self.evidence.seen("port-in-use") is not None

    @property
    def ready(self) -> bool:
        return bool(self.ready_line) and not self.unbound

    @property
    def ended(self) -> bool:
        """systemd said that the main process is gone, or gave up."""
        return bool(self.exit or self.result or self.limit)

    @property
    def ran(self) -> bool:
        """The program itself ran, not only systemd and what comes before it."""
        return self.known.timeline.begun

    # -- lines ----------------------------------------------------------------------------------------------------

    def feed(self, line: Line, index: int, event: Optional[systemd.Event]) -> None:
        self.lines += 1
        known, timeline = self.known, self.known.timeline
        if line.lost:
            self.lost += line.lost == "null"
            return
        if line.bar:
            known.read_bar(line.bar, line.text)
            return
        body = line.body
        if line.source == "journald" or ("Suppressed " in body and "messages from" in body):
            self._gap(body)
            return
        if "obj=" in body and body.startswith(("Receive: obj=", "Finish: obj=")):
            return
        if body.startswith(SOURCE) and not event:
            self.source(line.text)
            return
        self._remember(line)
        if event:
            self._event(event, line)
        elif line.source in ("", "process") and not line.warned:
            self.process_lines += 1
            if line.own or self.started or EXCEPTION.match(body) or body.startswith(_OF_PYTHON):
                timeline.start(line.stamp, line.own)
        if not event and self._progress(line):
            self.evidence.went_on()
            return
        if not event and self._stopped_from_outside(body):
            self._stop(line.text)
        elif self.fatal_before_stop or not self.stop_asked:
            self.evidence.feed(line, index, event is not None)

    def source(self, text: str) -> None:
        """A line that begins with ``SOURCE``."""
        self.process_lines += 1
        if text.strip("^~ |"):
            self.tail.append(text[:2000])

    def _progress(self, line: Line) -> bool:
        known, body = self.known, line.body
        if "server_args=" in body and (line.stamp is not None or body.startswith("server_args=")):
            known.timeline.start(line.stamp, True)
            self._read_arguments(body)
            return True
        if self._arguments and line.stamp is None:
            self._read_arguments(self._arguments + line.text)
            return True
        self._arguments = ""
        if " mem" in body or "size: " in body or "dtype" in body or "_tokens=" in body:
            known.read_capacity(body, line.rank)
        self.findings.feed(body, line.text)
        before = known.timeline.current
        moved = known.timeline.feed(body.rstrip(), line.rank, line.stamp)
        if moved:
            self._note_progress(body, line)
            if known.timeline.current != before:
                known.bar = None
        elif "pool_host" in body and body.startswith("  File "):
            known.pinning = True
        if "Entering DeepGEMM JIT Pre-Comp" in body:
            known.compiling, known.compiling_line = True, line.text
        return moved

    def _read_arguments(self, body: str) -> None:
        """The journal cuts a long line: what is missing of the arguments then stands in the next one."""
        self.known.read_arguments(body)
        self.findings.arguments(body)
        whole = body.rstrip().endswith((")", "}")) or len(body) > _LONGEST
        self._arguments = "" if whole else body

    def _note_progress(self, body: str, line: Line) -> None:
        known = self.known
        if known.compiling and (known.timeline.capacity_seen or ("Capture " in body and known.timeline.captured)):
            known.compiling = False
        if known.timeline.ready_seen and not self.ready_line and "ready to roll" in body:
            self.ready_line = line.text
        if known.timeline.node_ready and not self.ready_line and known.number("node_rank") and "ummy health" in body:
            self.ready_line = line.text

    def _stopped_from_outside(self, body: str) -> bool:
        early = not (self.evidence.fatal or self.known.timeline.ready_seen)
        return body.startswith("SIGTERM received") or (early and body.startswith("KeyboardInterrupt"))

    def _stop(self, text: str) -> None:
        if not self.stop_asked:
            self.stop_asked, self.stop_line, self.known.stopping = True, text, True
            self.fatal_before_stop = self.evidence.fatal or self.ended

    def _event(self, event: systemd.Event, line: Line) -> None:
        kind = event.kind
        if kind in (systemd.STARTING, systemd.STARTED):
            self.begun_by = self.begun_by or kind
            self.started = self.started or kind == systemd.STARTED
        elif kind == systemd.STOPPING:
            self._stop(line.text)
        elif kind == systemd.EXITED:
            if event.code == "killed" and event.status.startswith(("15/", "2/")):
                self._stop(line.text)
            self.exit, self.exit_line = event, line.text
        elif kind == systemd.GOOD and self.ran:
            # SIGTERM to the main process alone: systemd takes it for a clean end and names neither stop nor status.
            self._stop(line.text)
        elif kind == systemd.CONTROL and event.status != "0":
            self.control = line.text
        elif kind == systemd.RESULT:
            self.result = self.result or event.what
        elif kind == systemd.LIMIT:
            self.limit = line.text
        elif kind == systemd.TIMEOUT and event.what.startswith("start"):
            if not self.evidence.fatal and not self.stop_asked:
                self.start_timeout = line.text
            self._stop(line.text)
        elif kind == systemd.RESTART:
            self.restart_due = True
        elif kind == systemd.REBOOT:
            self.rebooted = True

    def _gap(self, body: str) -> None:
        if "Suppressed " in body or "Missed " in body or "lost" in body:
            self.gaps.append(body.strip())

    def _remember(self, line: Line) -> None:
        text = line.text.strip()
        if text.strip("^~ |"):
            self.tail.append(line.text if len(line.text) <= 2000 else line.text[:2000] + "…")
