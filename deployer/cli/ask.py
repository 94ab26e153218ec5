"""Asking the operator: on the terminal, or through the askpass programs that ssh and sudo use."""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import termios
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from deployer.remote.ask import Ask, Question

ASKPASS_SECONDS = 300.0


class TerminalAsk(Ask):
    """Asks on ``/dev/tty``, whatever stdin and stdout are; without one by ``SUDO_ASKPASS`` or ``SSH_ASKPASS``.

    ``around`` is entered while a question stands, so that a live view makes way for it. Nothing typed is shown,
    logged, or kept anywhere but in this object.
    """

    def __init__(self, around: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        super().__init__()
        self.around = around
        self._cancelled = threading.Event()
        self._last: dict[str, tuple[str, str]] = {}
        self._changed: tuple[int, list[Any]] | None = None
        atexit.register(self._restore)

    def cancel(self) -> None:
        """Ends a question that stands, and answers none any more (after Ctrl-C, for instance); from any thread."""
        self._cancelled.set()

    def prompt(self, question: Question) -> str | None:
        if self._cancelled.is_set():
            return None
        text, same = self._offer(question)
        program = _askpass(question)
        force = os.environ.get("SSH_ASKPASS_REQUIRE", "")
        answer: str | None
        if program and force in ("force", "prefer"):
            answer = _run(program, text)
        elif (terminal := _terminal()) is not None:
            with self.around():
                answer = self._read(terminal, text, question.echo)
        else:
            answer = _run(program, text) if program and force != "never" else None
        if answer == "" and same is not None:
            answer = same
        if answer is not None and question.kind != "challenge":
            self._last[question.kind] = (question.subject, answer)
        return answer

    def prompt_yes(self, text: str, default: bool) -> bool | None:
        terminal = None if self._cancelled.is_set() else _terminal()
        if terminal is None:
            return None
        with self.around():
            answer = self._read(terminal, f"{text} [{'Y/n' if default else 'y/N'}] ", echo=True)
        if answer is None or not answer.strip():
            return default if answer is not None else None
        return answer.strip().lower() in ("y", "yes")

    def _offer(self, question: Question) -> tuple[str, str | None]:
        """The text, and what an empty answer stands for: the password of the host before, for sudo."""
        last = self._last.get(question.kind)
        if question.kind != "sudo" or last is None or last[0] == question.subject:
            return question.text, None
        return f"{question.text.rstrip().rstrip(':')} (Enter: the same as for {last[0]}): ", last[1]

    def _read(self, terminal: int, text: str, echo: bool) -> str | None:
        """One line; None for the end of input and after ``cancel``. Closes ``terminal``."""
        try:
            before = termios.tcgetattr(terminal)
            quiet = [*before[:3], before[3] & ~termios.ECHO | (termios.ECHO if echo else 0), *before[4:]]
            try:
                self._changed = terminal, before
                termios.tcsetattr(terminal, termios.TCSAFLUSH, quiet)
                os.write(terminal, text.encode())    # after that: what is typed once the question stands is kept
                return self._line(terminal)
            finally:
                self._restore()
                if not echo:
                    os.write(terminal, b"\n")
        except (OSError, termios.error):
            return None
        finally:
            os.close(terminal)

    def _restore(self) -> None:
        """Gives the terminal its echo back, also when the process ends while another thread waits for an answer."""
        if self._changed:
            terminal, before = self._changed
            self._changed = None
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _line(self, terminal: int) -> str | None:
        line = b""
        watch = select.poll()
        watch.register(terminal, select.POLLIN)
        while not line.endswith(b"\n"):
            while not watch.poll(200):
                if self._cancelled.is_set():
                    return None
            data = os.read(terminal, 4096)
            if not data:
                return None
            line += data
        return line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _terminal() -> int | None:
    """The controlling terminal, or the one that stdin or stderr is."""
    for place in ("/dev/tty", 0, 2):
        try:
            name = place if isinstance(place, str) else os.ttyname(place)
            return os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            continue
    return None


def _askpass(question: Question) -> str | None:
    names = ("SUDO_ASKPASS", "SSH_ASKPASS") if question.kind == "sudo" else ("SSH_ASKPASS",)
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _run(program: str, text: str) -> str | None:
    """What an askpass program prints; None when it fails or the operator cancels."""
    try:
        ran = subprocess.run([program, text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             timeout=ASKPASS_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if ran.returncode:
        return None
    return ran.stdout.decode("utf-8", "surrogateescape").rstrip("\r\n")
