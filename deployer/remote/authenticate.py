"""Who the admin is, to a host: keys first, then what the server asks for. No secret leaves by any message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from deployer.errors import ConnectError
from deployer.remote import algorithms
from deployer.remote.ask import Ask, Question
from deployer.remote.destination import Destination
from deployer.remote.identities import Identity, candidates
from deployer.remote.keyfiles import KeyFailed
from deployer.remote.sshagent import AgentFailed
from deployer.remote.userauth import FAILURE, GONE, OK_OR_QUERY, SUCCESS, Answer, NoAnswer, Userauth
from deployer.remote.wire import kind_of

SECONDS = 30.0
"""For each answer of the server: PAM with a directory behind it can be slow."""


def authenticate(transport: Any, destination: Destination, ask: Ask, *, passwords: bool = True) -> None:
    """Logs in; raises ConnectError with what was tried. ``passwords``: whether one may be sent to this host."""
    _Login(transport, destination, ask, passwords).run()


class _Login:
    def __init__(self, transport: Any, destination: Destination, ask: Ask, passwords: bool) -> None:
        self._destination = destination
        self._ask = ask
        self._passwords = passwords and not destination.batch
        self._notes: list[str] = []
        self._tried: list[str] = []
        self._offers = 0
        self._allowed: tuple[str, ...] = ()
        self._done = False
        self._auth = Userauth(transport, destination.user, SECONDS)

    def run(self) -> None:
        try:
            used: set[str] = set()
            # Each round that the server calls a partial success opens the way for another method.
            while not self._done:
                method = self._next(used)
                if method is None:
                    raise self._refused()
                used.add(method)
                partial = {"publickey": self._keys, "keyboard-interactive": self._interactive,
                           "password": self._password}[method]()
                if partial:
                    used.discard("publickey")
        except NoAnswer:
            raise ConnectError(
                self._destination.name,
                f"{self._destination.where} said nothing for {SECONDS:.0f} s (stage: authentication)",
                hint=f"try `ssh -v {self._destination.target} true`") from None

    def _next(self, used: set[str]) -> str | None:
        for method in self._destination.methods:
            if method not in used and (not self._allowed or method in self._allowed):
                return method
        return None

    def _take(self, answer: Answer) -> bool:
        """Notes what the server said; whether it was a partial success."""
        if answer.kind == GONE:
            raise self._cut()
        self._done = answer.kind == SUCCESS
        if answer.kind == FAILURE:
            self._allowed = answer.methods
        return answer.partial

    # -- keys

    def _keys(self) -> bool:
        found = candidates(self._destination, self._ask, self._notes)
        if not found:
            self._notes.append("no key was found to offer")
            return self._take(self._auth.none())
        for identity in found:
            if self._offer(identity):
                return True
            if self._done or (self._allowed and "publickey" not in self._allowed):
                return False
        if not self._allowed and not self._done:
            return self._take(self._auth.none())
        return False

    def _offer(self, identity: Identity) -> bool:
        """Offers one key; whether that was a partial success. RSA keys are offered under both SHA-2 algorithms: what
        servers say they verify is not always what they accept."""
        try:
            shown, sign = identity.blob, None
            if not (identity.probe and shown):
                unlocked = self._unlocked(identity)
                if unlocked is None:
                    return False
                shown, sign = unlocked
            for algorithm in self._algorithms(shown):
                self._tried = list(dict.fromkeys([*self._tried, identity.label]))
                self._offers += 1
                if sign is None:
                    answer = self._auth.probe(algorithm, shown)
                    if answer.kind != OK_OR_QUERY:
                        self._take(answer)
                        continue
                    unlocked = self._unlocked(identity)
                    if unlocked is None:
                        return False
                    _, sign = unlocked
                partial = self._take(self._auth.publickey(algorithm, shown, sign))
                if partial or self._done:
                    return partial
        except (KeyFailed, AgentFailed) as error:
            self._notes.append(str(error))
        return False

    def _unlocked(self, identity: Identity) -> tuple[bytes, Callable[[bytes, str], bytes]] | None:
        unlocked = identity.unlock()
        if unlocked is None:
            self._notes.append(f"nobody gave the passphrase of {identity.label}")
        return unlocked

    def _algorithms(self, blob: bytes) -> list[str]:
        """The signature algorithms that both sides take for this key."""
        kind = kind_of(blob)
        ours = algorithms.choose(self._destination.pubkey_algorithms, algorithms.signatures(kind))
        theirs = self._auth.rsa_algorithms() if "rsa" in kind else ()
        if theirs:
            ours = [name for name in ours if name.partition("-cert-v01@")[0] in theirs or name in theirs]
        if not ours:
            self._notes.append(f"for a key of the kind {kind} there is no algorithm that both sides take")
        return ours

    # -- passwords

    def _password(self) -> bool:
        partial = False
        for attempt in range(self._destination.prompts):
            question = self._question(attempt)
            answer = self._secret(question)
            if answer is None:
                self._notes.append("there is nobody to ask for a password")
                return False
            if not attempt:
                self._tried.append("a password")
            partial = self._take(self._auth.password(answer))
            if self._done or partial:
                return partial
            self._ask.wrong(question, answer)
        return partial

    def _interactive(self) -> bool:
        for attempt in range(self._destination.prompts):
            if not self._passwords:
                return False
            answer = self._auth.interactive()
            given: list[tuple[Question, str]] = []
            while answer.kind == OK_OR_QUERY:
                replies: list[str] = []
                for text, echo in answer.prompts:
                    question = self._question(attempt) if _is_password(answer, text, echo) else Question(
                        "challenge", f"{self._destination.user}@{self._destination.name}",
                        f"{answer.title + ': ' if answer.title else ''}{text}", echo)
                    reply = self._secret(question)
                    if reply is None:
                        self._notes.append(f"nobody answered the server's question {text.strip()!r}")
                        return False
                    given.append((question, reply))
                    replies.append(reply)
                answer = self._auth.respond(replies)
            if given and not attempt:
                self._tried.append("an answer to the server's question")
            partial = self._take(answer)
            if self._done or partial or not given:
                return partial
            for question, reply in given:
                self._ask.wrong(question, reply)
        return False

    def _question(self, attempt: int) -> Question:
        who = f"{self._destination.user}@{self._destination.name}"
        again = "That was not it. " if attempt else ""
        return Question("ssh-password", who, f"{again}Password of {who}: ")

    def _secret(self, question: Question) -> str | None:
        return self._ask.secret(question) if self._passwords else None

    # -- ends

    def _refused(self) -> ConnectError:
        target = self._destination
        tried = ", ".join(self._tried) or "nothing"
        notes = "".join(f"; {note}" for note in dict.fromkeys(self._notes))
        allowed = ", ".join(self._allowed) or "nothing"
        return ConnectError(
            target.name,
            f"{target.host} did not let {target.user} in (stage: authentication): tried {tried}{notes}; "
            f"the server takes {allowed}",
            hint=f"try `ssh -v {target.target} true`; `ssh-copy-id {target.target}` puts your key there")

    def _cut(self) -> ConnectError:
        target = self._destination
        if self._offers >= 3:
            return ConnectError(
                target.name,
                f"{target.host} ended the connection after {self._offers} offers of keys (stage: authentication): "
                f"too many for it, most likely",
                hint="name the right key: IdentityFile and `IdentitiesOnly yes` in ~/.ssh/config")
        banner = re.sub(r"\s+", " ", self._auth.banner).strip()[:200]
        return ConnectError(
            target.name,
            f"{target.where} ended the connection (stage: authentication){': ' + banner if banner else ''}",
            hint=f"try `ssh -v {target.target} true`")


def _is_password(answer: Answer, text: str, echo: bool) -> bool:
    return not echo and len(answer.prompts) == 1 and re.search(r"(?i)pass ?word", text) is not None
