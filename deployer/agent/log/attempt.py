"""One start of the server: everything that its lines said, and the signs of causes among them."""

from __future__ import annotations

import re
from collections import deque
from typing import Deque, Dict, List, Optional, Tuple

from deployer.agent.log import systemd
from deployer.agent.log.causes import CAUSES
from deployer.agent.log.findings import Findings
from deployer.agent.log.known import Known
from deployer.agent.log.lines import Line
from deployer.agent.log.signs import HINT, RAISED, SAID, Seen, Sign

EXCEPTION = re.compile(
    r"^\s*what\(\):\s|^(?:- |Last error:\s*)?(?:[A-Za-z_]\w*\.)*(?=[A-Z])\w*"
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Expired|OutOfResources|OfflineModeIsEnabled|Again|Failure|NotFound)"
    r"(?::(?: |$)|$)"
)
# What a library writes by itself before it ends the process, without an exception.
_UTTERED = re.compile(r"^(?:CUDA [Ee]rror|Failed: Cuda error|NCCL error|FATAL)\b")
_WHAT = re.compile(r"^\s*what\(\):\s")
_DIES = re.compile(
    r"^\w+ hit an exception|^Received sigquit from a child process|^SIGQUIT received\. signum=|^Received SIGQUIT "
    r"from scheduler"
    r"|^Subprocess \S+ \(pid=\d+\) crashed with exit code|^terminate called after throwing|^Fatal Python error: "
    r"|^ERROR: +Application startup failed"
)
_CONSEQUENCE = re.compile(
    r"(?:BrokenPipeError|ConnectionResetError|EOFError|ConnectionRefusedError|KeyboardInterrupt|SystemExit|CancelledError)\b"
    r"|Connection (?:closed|reset) by peer|Broken pipe|Failed to recv|ncclRemoteError|remote process exited"
    r"|Initialization failed\. Please see|Triggering SIGQUIT"
)


def _by_needle(kinds: Tuple[str, ...]) -> List[Tuple[str, List[Tuple[str, Sign]]]]:
    found: Dict[str, List[Tuple[str, Sign]]] = {}
    for cause in CAUSES:
        for sign in cause.signs:
            if sign.kind in kinds:
                found.setdefault(sign.needle, []).append((cause.code, sign))
    return list(found.items())


# Once a server is ready no exception of a request says anything, until a process says that it dies.
_ALWAYS = _by_needle((SAID, HINT))
_ALL = _by_needle((SAID, HINT, RAISED))
TELLING: Tuple[str, ...] = tuple(dict.fromkeys([
    "SIGTERM received", "hit an exception", "sigquit", "SIGQUIT", "terminate called", "Fatal Python", "crashed with",
    "Application startup failed", ".service", "Started ", "Starting ", "Stopping ", "Stopped ", "-- Boot", "-- Reboot",
    "uppressed ", "server_args=", "usage: ", "still supported, but", "fired up", *(needle for needle, _ in _ALWAYS),
]))
"""What a line must hold to mean anything once a server is ready and well."""


class Attempt:
    """Fed line by line. ``index`` counts lines of the whole log; ``unit`` is the unit's name where a line gave it."""

    def __init__(self, unit: str = "") -> None:
        self.known = Known()
        self.findings = Findings()
        self.unit = unit
        self.begun_by: str = ""
        self.by_restart = False
        self.started = False
        self.lines = 0
        self.process_lines = 0
        self.served = 0
        self.best: Dict[Tuple[str, str], Seen] = {}
        self.exceptions: List[Tuple[int, str, bool]] = []
        self.triggers: List[int] = []
        self.breaks: List[int] = []
        self.fatal_line = ""
        self.fatal = False
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

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def unbound(self) -> bool:
        """The port was never this server's."""
        return ("port-in-use", SAID) in self.best or ("port-in-use", RAISED) in self.best

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
        self._remember(line)
        if event:
            self._event(event, line)
        elif line.source in ("", "process") and not line.warned:
            self.process_lines += 1
            if line.own or self.started or EXCEPTION.match(body) or body.startswith(("Traceback", "usage: ",
                "  File ")):
                timeline.start(line.stamp, line.own)
        if not event and self._progress(line):
            self._went_on()
        else:
            self._signs(line, index)
            if not event:
                self._dying(line, index)

    def _progress(self, line: Line) -> bool:
        known, body = self.known, line.body
        if "server_args=" in body and (line.stamp is not None or body.startswith("server_args=")):
            known.timeline.start(line.stamp, True)
            known.read_arguments(body)
            self.findings.arguments(body)
            return True
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

    def _note_progress(self, body: str, line: Line) -> None:
        known = self.known
        if known.compiling and (known.timeline.capacity_seen or ("Capture " in body and known.timeline.captured)):
            known.compiling = False
        if known.timeline.ready_seen and not self.ready_line and "ready to roll" in body:
            self.ready_line = line.text
        if known.timeline.node_ready and not self.ready_line and known.number("node_rank") and "ummy health" in body:
            self.ready_line = line.text

    def _went_on(self) -> None:
        """The start goes on: what was raised before and did not come from a dying process was no matter."""
        if not self.known.armed:
            self.exceptions.clear()
            for key in [key for key, seen in self.best.items() if seen.kind == RAISED and not seen.armed]:
                del self.best[key]

    def _signs(self, line: Line, index: int) -> None:
        body, known = line.body, self.known
        if self.stop_asked and not self.fatal_before_stop:
            return
        raised: Optional[bool] = None
        said_dead = False
        quiet = line.warned or (known.timeline.ready_seen and not known.armed)
        for needle, signs in _ALWAYS if quiet else _ALL:
            if needle not in body:
                continue
            for code, sign in signs:
                match = sign.pattern.search(body)
                if not match or (sign.when and not sign.when(known, match)):
                    continue
                if sign.kind == RAISED and match.start() > 0:
                    if raised is None:
                        raised = bool(EXCEPTION.match(body)) or " hit an exception: " in body or bool(
                            _UTTERED.match(body))
                    if not raised:
                        continue
                self._saw(Seen(code, sign.strength, index, line.text, sign.kind, known.armed, match))
                said_dead = said_dead or sign.kind == SAID
        if said_dead:
            self._fatal(line.text)
            self.breaks.append(index)

    def _saw(self, seen: Seen) -> None:
        key = (seen.code, seen.kind)
        before = self.best.get(key)
        dying = seen.kind == RAISED and seen.armed and before is not None and not before.armed
        if before is None or seen.strength > before.strength or dying:
            self.best[key] = seen

    def _dying(self, line: Line, index: int) -> None:
        body, known = line.body, self.known
        if body.startswith("SIGTERM received"):
            self._stop(line.text)
            return
        if self.stop_asked and not self.fatal_before_stop:
            return
        if EXCEPTION.match(body) and (not known.timeline.ready_seen or known.armed):
            if body.startswith("KeyboardInterrupt") and not known.armed and not known.timeline.ready_seen:
                self._stop(line.text)
                return
            if len(self.exceptions) < 512:
                self.exceptions.append((index, line.text, known.armed))
            if _WHAT.match(body):
                self._fatal(line.text)
        if _DIES.search(body):
            self._fatal(line.text)
            self.breaks.append(index)
            if " hit an exception" in body:
                self.triggers.append(index)
            if " hit an exception: " in body and len(self.exceptions) < 512 and not body.rstrip().endswith("):"):
                self.exceptions.append((index, line.text, True))
        elif "scheduler is dead. Please check" in body or "Initialization failed. Please see" in body:
            self.fatal = True
            self.fatal_line = self.fatal_line or line.text

    def _fatal(self, text: str) -> None:
        self.known.armed = self.fatal = True
        self.fatal_line = self.fatal_line or text

    def _stop(self, text: str) -> None:
        if not self.stop_asked:
            self.stop_asked, self.stop_line, self.known.stopping = True, text, True
            self.fatal_before_stop = self.fatal or self.ended

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
        elif kind == systemd.CONTROL and event.status != "0":
            self.control = line.text
        elif kind == systemd.RESULT:
            self.result = self.result or event.what
        elif kind == systemd.LIMIT:
            self.limit = line.text
        elif kind == systemd.TIMEOUT and event.what.startswith("start"):
            if not self.fatal and not self.stop_asked:
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
        if text and not set(text) <= set("^~ |"):
            self.tail.append(line.text if len(line.text) <= 2000 else line.text[:2000] + "…")

    # -- what it comes to -----------------------------------------------------------------------------------------

    def last_exception(self) -> str:
        """The last line of the first dying rank's traceback, mere consequences of another's death left out.

        "" where no exception was seen. Without a dying rank: the last exception of the main process.
        """
        found = [item for item in self.exceptions if item[2]] or self.exceptions
        for end in [*(at for at in self.breaks if self.triggers and at > self.triggers[0]), None]:
            block = [text for index, text, _ in found if end is None or index < end]
            own = [text for text in block if not _CONSEQUENCE.search(text)]
            if own:
                return own[-1]
        return found[0][1] if found else ""

    def seen(self, code: str) -> Optional[Seen]:
        """The line that bears witness for ``code``: of a line that proves and one that was raised the stronger."""
        found = [self.best[key] for key in ((code, SAID), (code, RAISED)) if key in self.best]
        return max(found, key=lambda seen: (seen.strength, -seen.index)) if found else None

    def hint(self, code: str) -> Optional[Seen]:
        return self.best.get((code, HINT))
