"""The one that asks the operator: passwords, passphrases, yes or no. ``deployer.cli.ask`` has the one of a terminal."""

from __future__ import annotations

import threading
from typing import Any

from deployer.protocol.records import dataclass


@dataclass(frozen=True)
class Question:
    """What is wanted. ``kind`` and ``subject`` identify it: the same question is asked once for all hosts.

    ``kind``: "sudo" (subject user@host), "ssh-password" (user@host), "key" (path of a private key), "challenge"
    (user@host and the server's own words; its answers are never kept). ``text`` is shown. ``echo``: may be seen.
    """

    kind: str
    subject: str
    text: str
    echo: bool = False


class Ask:
    """Answers nothing by itself; keeps what was answered, so that nobody is asked twice. Safe among threads.

    Subclasses override ``prompt`` and ``prompt_yes``. Answers live in this object alone and show in no repr.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._answers: dict[tuple[str, str], str] = {}
        self.unlocking = threading.RLock()
        self.keys: dict[str, Any] = {}
        """Private keys that were unlocked, by path and time of change: unlocking costs up to a second of CPU."""

    def secret(self, question: Question) -> str | None:
        """The answer, from before or now; None where nobody can be asked or nothing was said."""
        with self._lock:
            known = self._answers.get((question.kind, question.subject))
            if known is not None:
                return known
            answer = self.prompt(question)
            if answer is not None and question.kind != "challenge":
                self._answers[question.kind, question.subject] = answer
            return answer

    def wrong(self, question: Question, answer: str) -> None:
        """Forgets an answer that was refused, unless a newer one has taken its place."""
        with self._lock:
            if self._answers.get((question.kind, question.subject)) == answer:
                del self._answers[question.kind, question.subject]

    def confirm(self, text: str, default: bool = False) -> bool:
        """A yes or no; ``default`` where nobody can be asked."""
        with self._lock:
            answer = self.prompt_yes(text, default)
            return default if answer is None else answer

    def prompt(self, question: Question) -> str | None:
        """Asks for a secret."""
        return None

    def prompt_yes(self, text: str, default: bool) -> bool | None:
        """Asks yes or no."""
        return None
