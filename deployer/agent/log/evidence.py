"""The signs of causes among a start's lines, and the exceptions that its processes died of."""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Tuple

from deployer.agent.log.causes import CAUSES
from deployer.agent.log.known import Known
from deployer.agent.log.lines import Line
from deployer.agent.log.signs import HINT, RAISED, SAID, Seen, Sign
from deployer.protocol import patterns

EXCEPTION = patterns.compile(
    r"^\s*what\(\):\s|^(?:- |Last error:\s*)?(?:[A-Za-z_]\w*\.)*(?=[A-Z])\w*"
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Expired|OutOfResources|OfflineModeIsEnabled|Again|Failure|NotFound)"
    r"(?::(?: |$)|$)"
)
# What a library writes by itself before it ends the process, without an exception.
_UTTERED = patterns.compile(r"^(?:CUDA [Ee]rror|Failed: Cuda error|NCCL error|FATAL)\b")
_WHAT = patterns.compile(r"^\s*what\(\):\s")
_DIES = patterns.compile(
    r"^\w+ hit an exception|^Received sigquit from a child process|^SIGQUIT received\. signum="
    r"|^Received SIGQUIT from scheduler"
    r"|^Subprocess \S+ \(pid=\d+\) crashed with exit code|^terminate called after throwing|^Fatal Python error: "
    r"|^ERROR: +Application startup failed"
)
_CONSEQUENCE = patterns.compile(
    r"(?:BrokenPipeError|ConnectionResetError|EOFError|ConnectionRefusedError|KeyboardInterrupt|SystemExit|CancelledError)\b"
    r"|Connection (?:closed|reset) by peer|Broken pipe|Failed to recv|ncclRemoteError|remote process exited"
    r"|Initialization failed\. Please see|Triggering SIGQUIT"
)
_ALONE = patterns.compile(r"(?:BrokenPipeError|ConnectionResetError|EOFError)\b")
_COMMON = (
    "rror", "ail", "annot", "NCCL", "nccl", "NVML", "memory", "trust_remote", "status", "socket", "symbol",
    "not ", "No ", "rgument", "option", "exit", "xit code", "illed", "already", "LIBC", "nvcc", "build", "enied",
    "CUDA", "[Errno",
)
_KEPT = 512


def _by_needle(kinds: Tuple[str, ...]) -> List[Tuple[str, List[Tuple[str, Sign]]]]:
    found: Dict[str, List[Tuple[str, Sign]]] = {}
    for cause in CAUSES:
        for sign in cause.signs:
            if sign.kind in kinds:
                found.setdefault(sign.needle, []).append((cause.code, sign))
    return list(found.items())


def _words(needles: Iterable[str]) -> Tuple[str, ...]:
    """Words of which every needle holds at least one: a line without any of them holds no needle."""
    words: List[str] = []
    for needle in needles:
        if not any(word in needle for word in words):
            words.append(next((word for word in _COMMON if word in needle), needle))
    return tuple(words)


# Once a server is ready no exception of a request says anything, until a process says that it dies.
_ALWAYS = _by_needle((SAID, HINT))
_ALL = _by_needle((SAID, HINT, RAISED))
_ALWAYS_WORDS, _ALL_WORDS = _words(needle for needle, _ in _ALWAYS), _words(needle for needle, _ in _ALL)
TELLING: Tuple[str, ...] = tuple(dict.fromkeys([
    "SIGTERM received", "hit an exception", "sigquit", "SIGQUIT", "terminate called", "Fatal Python", "crashed with",
    "Application startup failed", ".service", "Started ", "Starting ", "Stopping ", "Stopped ", "-- Boot", "-- Reboot",
    "uppressed ", "server_args=", "usage: ", "still supported, but", "fired up", *(needle for needle, _ in _ALWAYS),
]))
"""What a line must hold to mean anything once a server is ready and well."""


class Evidence:
    """Fed with the lines that mark no progress; ``known`` is what the start's other lines said so far.

    ``fatal``: a process said that it dies, or a line came after which nothing else can follow; ``fatal_line`` is the
    first of these.
    """

    def __init__(self, known: Known) -> None:
        self._known = known
        self._best: Dict[Tuple[str, str], Seen] = {}
        self._exceptions: List[Tuple[int, str, bool]] = []
        self._breaks: List[int] = []
        self.triggers: List[int] = []
        self.fatal = False
        self.fatal_line = ""

    @property
    def raised(self) -> bool:
        """Something was raised, or said, after which the start did not go on."""
        return bool(self._exceptions) or any(seen.kind != HINT for seen in self._best.values())

    @property
    def exceptions(self) -> bool:
        return bool(self._exceptions)

    @property
    def parent_gone(self) -> bool:
        """All that was raised is that another process of the server's was no longer there."""
        return bool(self._exceptions) and all(_ALONE.search(text) for _, text, _ in self._exceptions)

    def seen(self, code: str) -> Optional[Seen]:
        """The line that bears witness for ``code``: of a line that proves and one that was raised the stronger."""
        found = [self._best[key] for key in ((code, SAID), (code, RAISED)) if key in self._best]
        return max(found, key=lambda seen: (seen.strength, -seen.index)) if found else None

    def hint(self, code: str) -> Optional[Seen]:
        return self._best.get((code, HINT))

    def last_exception(self) -> str:
        """The last line of the first dying rank's traceback, mere consequences of another's death left out.

        "" where no exception was seen. Without a dying rank: the last exception of the main process.
        """
        found = [item for item in self._exceptions if item[2]] or self._exceptions
        for end in [*(at for at in self._breaks if self.triggers and at > self.triggers[0]), None]:
            block = [text for index, text, _ in found if end is None or index < end]
            own = [text for text in block if not _CONSEQUENCE.search(text)]
            if own:
                return own[-1]
        return found[0][1] if found else ""

    def went_on(self) -> None:
        """The start goes on: what was raised before and did not come from a dying process was no matter."""
        if not self._known.armed:
            self._exceptions.clear()
            for key in [key for key, seen in self._best.items() if seen.kind == RAISED and not seen.armed]:
                del self._best[key]

    def feed(self, line: Line, index: int, by_systemd: bool) -> None:
        self._signs(line, index)
        if not by_systemd:
            self._dying(line, index)

    def _signs(self, line: Line, index: int) -> None:
        body, known = line.body, self._known
        raised: Optional[bool] = None
        said_dead = False
        quiet = line.warned or (known.timeline.ready_seen and not known.armed)
        if not any(word in body for word in (_ALWAYS_WORDS if quiet else _ALL_WORDS)):
            return
        for needle, signs in _ALWAYS if quiet else _ALL:
            if needle not in body:
                continue
            for code, sign in signs:
                match = sign.pattern.search(body)
                if not match or (sign.when and not sign.when(known, match)):
                    continue
                if sign.kind == RAISED and match.start() > 0:
                    raised = _by_itself(body) if raised is None else raised
                    if not raised:
                        continue
                self._saw(Seen(code, sign.strength, index, line.text, sign.kind, known.armed, match))
                said_dead = said_dead or sign.kind == SAID
        if said_dead:
            self._dies(line.text, index)

    def _saw(self, seen: Seen) -> None:
        before = self._best.get((seen.code, seen.kind))
        dying = seen.kind == RAISED and seen.armed and before is not None and not before.armed
        if before is None or seen.strength > before.strength or dying:
            self._best[seen.code, seen.kind] = seen

    def _dying(self, line: Line, index: int) -> None:
        body, known = line.body, self._known
        if EXCEPTION.match(body) and (not known.timeline.ready_seen or known.armed):
            self._note(index, line.text, known.armed)
            if _WHAT.match(body):
                self._dies(line.text, index)
        if _DIES.search(body):
            self._dies(line.text, index)
            if " hit an exception" in body:
                self.triggers.append(index)
            if " hit an exception: " in body and not body.rstrip().endswith("):"):
                self._note(index, line.text, True)
        elif "scheduler is dead. Please check" in body or "Initialization failed. Please see" in body:
            self.fatal = True
            self.fatal_line = self.fatal_line or line.text

    def _note(self, index: int, text: str, armed: bool) -> None:
        if len(self._exceptions) < _KEPT:
            self._exceptions.append((index, text, armed))

    def _dies(self, text: str, index: int) -> None:
        self._known.armed = self.fatal = True
        self.fatal_line = self.fatal_line or text
        self._breaks.append(index)


def _by_itself(body: str) -> bool:
    """Whether a sign may stand anywhere in a line: that of an exception, or of a library that ends the process."""
    return bool(EXCEPTION.match(body) or _UTTERED.match(body)) or " hit an exception: " in body
