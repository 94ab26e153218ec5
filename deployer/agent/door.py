"""The one door through which the agent runs a program: always a time limit, never a shell, never a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, TypeVar

from deployer.protocol import records

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "SYSTEMD_COLORS": "0",
    "SYSTEMD_PAGER": "",
    "SYSTEMD_LOG_COLOR": "0",
}
TIMED_OUT = 124
NOT_FOUND = 127


T = TypeVar("T")


class Refusal(Exception):
    """An operation that cannot be done, as the client is told it: a stable dashed ``code``, words, and figures."""

    def __init__(self, code: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


Emit = Callable[[str, Dict[str, Any]], None]
"""How an operation tells what happens meanwhile: the event's name and its data."""


@records.dataclass(frozen=True)
class Ran:
    """What a program left: ``code`` is its exit status, 124 for the time limit, 127 where it is not there."""

    argv: Sequence[str]
    code: int
    out: str
    err: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def said(self) -> str:
        """Its last words in one line, for a message."""
        text = (self.err or self.out).strip()
        return text.splitlines()[-1] if text else "exit status {}".format(self.code)


def run(
    argv: Sequence[str],
    timeout: float = 30.0,
    input: str = "",
    env: Optional[Dict[str, str]] = None,
) -> Ran:
    """Runs ``argv`` for at most ``timeout`` seconds; its output is decoded tolerantly, its locale is C.UTF-8.

    A program that cannot even be killed (a hung driver keeps it in uninterruptible sleep) is left behind after
    half a second more: the answer is then ``TIMED_OUT`` all the same, never a wait without end.
    """
    begun = time.monotonic()
    environment = dict(ENVIRONMENT, PATH=_path(), **(env or {}))
    try:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE if input else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment, close_fds=True, start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        return Ran(argv, NOT_FOUND, "", "{}: {}".format(argv[0], error.strerror), 0.0)
    try:
        out, err = process.communicate(input.encode() if input else None, timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        out, err, code = _end(process), b"", TIMED_OUT
    return Ran(argv, code, _decode(out), _decode(err), time.monotonic() - begun)


def begin(act: Callable[..., T], *args: Any) -> Callable[[], T]:
    """Runs ``act`` aside; what is given back waits for its result, or raises what it raised.

    The thread ends with the process: an operation that is stopped meanwhile does not wait for a driver that hangs.
    """
    results: List[T] = []
    failures: List[BaseException] = []

    def work() -> None:
        try:
            results.append(act(*args))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def wait() -> T:
        thread.join()
        if failures:
            raise failures[0]
        return results[0]

    return wait


def _end(process: "subprocess.Popen[bytes]") -> bytes:
    """Ends the program's own session, and takes what it had printed; gives up on one that cannot be ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        return process.communicate(timeout=0.5)[0] or b""
    except subprocess.TimeoutExpired as error:
        return error.output or b""


def _path() -> str:
    """PATH of the caller's in front: a driver's tools may lie in a place of their own."""
    own = os.environ.get("PATH", "")
    return own + ":" + ENVIRONMENT["PATH"] if own else ENVIRONMENT["PATH"]


def _decode(raw: Optional[bytes]) -> str:
    return (raw or b"").decode("utf-8", "replace")
