"""From a fresh login to the agent's hello, in one exec: login shell, sudo, Python, the agent's code where it is absent.

Nothing is written to the other side before it has asked in a marked line: a failed sudo would take it for a password.
"""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Callable
from typing import Any

from deployer.errors import AgentError, ConnectError, HostError, SudoError
from deployer.protocol.codec import DecodeError
from deployer.protocol.message import Hello, decode_hello
from deployer.protocol.records import dataclass, field
from deployer.remote import sudo
from deployer.remote.ask import Ask, Question
from deployer.remote.bundle import Bundle
from deployer.remote.stream import Stream, StreamEnded

ROOT_FOLDER = "/var/lib/deployer/agent"
PYTHONS = ("python3", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9", "python3.14",
           "/usr/local/bin/python3", "/usr/libexec/platform-python")

SILENCE = 30.0
"""Seconds without any progress in one stage after which a host is given up."""

# Both texts go through the login shell inside single quotes, which bash, dash, zsh, fish, csh and tcsh read alike as
# long as they hold no single quote, backslash, exclamation mark or newline.
_LOGIN = (
    'LC_ALL=C; export LC_ALL; u="$(id -u)"; echo; echo "$2 shell $u"; '
    'if [ "$u" = 0 ]; then exec sh -c "$1" sh "$2" "$4" "$5"; '
    'elif [ "$3" = none ]; then '
    'exec sh -c "$1" sh "$2" "$4" "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/deployer/agent"; '
    'elif command -v sudo >/dev/null 2>&1; then '
    'exec sudo -S -p "$2 password" -- sh -c "$1" sh "$2" "$4" "$5"; '
    'else echo "$2 nosudo"; fi'
)
_TERMINAL = "stty raw -echo 2>/dev/null; "
_TARGET = (
    'a="$3/$2"; if [ -O "$a" ] && [ -r "$a/python" ] && read -r p <"$a/python" && [ -x "$p" ]; then '
    'echo "$1 run"; exec "$p" -IS -X utf8 "$a/__main__.py" serve; fi; f=; '
    "for n in " + " ".join(PYTHONS) + '; do p="$(command -v $n)" || continue; '
    'if "$p" -c "import sys;sys.exit(sys.version_info<(3,9))" 2>/dev/null; then echo "$1 need"; '
    'exec "$p" -IS -X utf8 -c "import sys;i=sys.stdin.buffer;exec(i.read(int(i.readline())))" "$1" "$2" "$3"; fi; '
    'f="$f $n=$("$p" -c "import sys;print(sys.version.split()[0])" 2>/dev/null)"; done; echo "$1 nopython$f"'
)


class NeedsTerminal(Exception):
    """sudo on this host works on a terminal only (``requiretty``): try again with one."""


@dataclass(frozen=True)
class Login:
    """Who logs in where: for questions and messages. ``target`` is what one would type after ``ssh``."""

    host: str
    user: str
    target: str
    become: str = "sudo"
    passwords: bool = True
    """False where no password may be sent: the host key is not the one that was known."""


@dataclass
class _Heard:
    """What came so far: whole lines, the rest of a line, what was said on stderr."""

    out: bytes = b""
    err: bytes = b""
    noise: list[str] = field(default_factory=list)

    def said(self, mark: str) -> str:
        """All that is not the protocol's, for a message: the last two thousand characters."""
        text = "\n".join([*self.noise, self.out.decode("utf-8", "replace"), self.err.decode("utf-8", "replace")])
        return text.replace(f"{mark} password", "").strip()[-4000:]


def new_mark() -> str:
    """A word that no login noise holds."""
    return "deployer-" + secrets.token_hex(6)


def command(mark: str, agent: str, become: str, terminal: bool = False) -> str:
    """The one command line that is given to the login shell."""
    words = [(_TERMINAL if terminal else "") + _LOGIN, "sh", _TARGET, mark, become, agent, ROOT_FOLDER]
    return "sh -c " + " ".join(f"'{word}'" for word in words)


def argv(mark: str, agent: str, become: str) -> list[str]:
    """The same for this machine, without a login shell."""
    return shlex.split(command(mark, agent, become))


def greet(stream: Stream, mark: str, bundle: Bundle, login: Login, ask: Ask) -> Hello:
    """Leads the other side to its hello; raises SudoError, AgentError, ConnectError, NeedsTerminal."""
    return _Dialogue(stream, mark, bundle, login, ask).run()


class _Dialogue:
    def __init__(self, stream: Stream, mark: str, bundle: Bundle, login: Login, ask: Ask) -> None:
        self._stream = stream
        self._mark = mark
        self._bundle = bundle
        self._login = login
        self._ask = ask
        self._heard = _Heard()
        self._stage = "login shell"
        self._tries = 0
        self._answered: tuple[Question, str] | None = None
        self._hello: Hello | None = None

    def run(self) -> Hello:
        until = time.monotonic() + SILENCE
        while self._hello is None:
            chunk = self._stream.read(max(0.0, until - time.monotonic()))
            if chunk is None:
                raise self._silent()
            if not chunk.data:
                raise self._ended()
            if chunk.error:
                self._heard.err = (self._heard.err + chunk.data)[-65536:]
            else:
                self._heard.out += chunk.data
            stage = self._stage
            self._lines()
            if self._prompted() or self._stage != stage:
                until = time.monotonic() + SILENCE
            # Noise alone must not keep a host alive: only a new stage or an answered prompt gives more time.
        return self._hello

    def _lines(self) -> None:
        while b"\n" in self._heard.out and self._hello is None:
            raw, _, self._heard.out = self._heard.out.partition(b"\n")
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            _, found, rest = line.partition(self._mark + " ")
            if found and rest != "password":
                self._marked(rest)
            elif self._stage == "start of the agent" and line.startswith("{"):
                try:
                    self._hello = decode_hello(raw)
                except DecodeError as error:
                    raise AgentError(
                        self._login.host, f"the agent's first line is no hello: {error}",
                        hint=f"try `ssh {self._login.target} python3 -V`") from None
            else:
                self._heard.noise = [*self._heard.noise[-40:], line]

    def _marked(self, rest: str) -> None:
        word, _, data = rest.partition(" ")
        known: dict[str, Callable[[str], None]] = {
            "shell": self._shell, "run": self._run, "need": self._need,
            "nosudo": self._no_sudo, "nopython": self._no_python, "failed": self._failed,
        }
        if word in known:
            known[word](data)

    def _shell(self, data: str) -> None:
        self._stage = "sudo" if self._login.become == "sudo" and data != "0" else "start of the agent"

    def _run(self, data: str) -> None:
        self._stage = "start of the agent"

    def _need(self, data: str) -> None:
        self._stage = "transfer of the agent"
        try:
            self._stream.write(self._bundle.unpacker + self._bundle.payload, SILENCE)
        except StreamEnded:
            pass                                     # what it said at its end is still to be read

    def _prompted(self) -> bool:
        """Answers sudo's prompt, when it stands there unanswered."""
        prompt = f"{self._mark} password".encode()
        for name in ("err", "out"):
            text: bytes = getattr(self._heard, name)
            if prompt in text:
                setattr(self._heard, name, text.replace(prompt, b""))
                self._answer()
                return True
        return False

    def _answer(self) -> None:
        login = self._login
        if not login.passwords:
            raise SudoError(login.host, "sudo asks for a password, and none is sent: the host key has changed",
                            hint="make sure of the host key first, see the warning above")
        if self._answered:
            self._ask.wrong(*self._answered)
            if self._tries >= sudo.TRIES:
                raise self._refused()
        again = "Sorry, try again. " if self._answered else ""
        question = Question("sudo", f"{login.user}@{login.host}",
                            f"{again}[sudo] password for {login.user} on {login.host}: ")
        answer = self._ask.secret(question)
        if answer is None and self._answered:
            raise self._refused()
        if answer is None:
            raise sudo.nobody_to_ask(login.host, login.user, login.target)
        self._answered = (question, answer)
        self._tries += 1
        try:
            self._stream.write(answer.encode() + b"\n", SILENCE)
        except StreamEnded:
            pass

    def _refused(self) -> HostError:
        tries = f"{self._tries} times" if self._tries > 1 else "once"
        return SudoError(self._login.host, f"sudo did not accept the password for {self._login.user} ({tries})",
                         hint=f"try `ssh -t {self._login.target} sudo -v`")

    # -- ends

    def _no_sudo(self, data: str) -> None:
        login = self._login
        raise SudoError(login.host, f"sudo is not installed on the host, and {login.user} is not root",
                        hint="install sudo there, log in as root (user = \"root\" in hosts.toml), or set "
                             "become = \"none\" where looking is enough")

    def _no_python(self, data: str) -> None:
        found = [name for name in data.split() if not name.endswith("=")]
        older = f" (found: {', '.join(found)})" if found else ""
        raise AgentError(self._login.host, f"the host has no Python 3.9 or newer{older}",
                         hint=f"install it: `ssh {self._login.target} sudo apt-get install python3`; "
                              f"also python3.9 to python3.14 beside an older python3 are found")

    def _failed(self, data: str) -> None:
        try:
            failure: dict[str, Any] = json.loads(data)
        except ValueError:
            failure = {"message": data}
        message = str(failure.get("message"))
        hint = f"look at it: `ssh {self._login.target} df -h /var/lib`"
        if failure.get("errno") == 28:               # ENOSPC
            hint = f"free some space there: `ssh {self._login.target} df -h`"
        elif self._login.become == "none":
            hint = "the agent needs a folder of the user's own: create the home directory, or use become = \"sudo\""
        elif failure.get("kind") == "Broken" and "written by others" in message:
            hint = "make it root's alone: `sudo chown -R root: /var/lib/deployer && sudo chmod 700 /var/lib/deployer`"
        raise AgentError(self._login.host, f"the agent could not be put on the host: {message}", hint=hint)

    def _silent(self) -> HostError:
        said = self._heard.said(self._mark)
        last = f"; its last words: {said.splitlines()[-1][:200]!r}" if said else ""
        kinds: dict[str, tuple[type[HostError], str]] = {
            "login shell": (ConnectError, f"look at what hangs there: `ssh {self._login.target} true`"),
            "sudo": (SudoError, f"look at what it asks: `ssh -t {self._login.target} sudo true`"),
        }
        kind, hint = kinds.get(self._stage, (AgentError, f"look at the host: `ssh {self._login.target} uptime`"))
        return kind(self._login.host, f"no answer for {SILENCE:.0f} s (stage: {self._stage}){last}", hint=hint)

    def _ended(self) -> Exception:
        login, said, status = self._login, self._heard.said(self._mark), self._stream.status()
        why = self._stream.why()
        if self._stage == "sudo":
            if sudo.NEEDS_TTY.search(said):
                return NeedsTerminal()
            if self._answered and not why:
                refused = sudo.refusal(login.host, login.user, login.target, said)
                if refused is None or "password" in refused.message:
                    self._ask.wrong(*self._answered)
                    refused = refused or SudoError(
                        login.host, f"sudo ended after the password was given: {said or 'without a word'}",
                        hint=f"try `ssh -t {login.target} sudo -v`")
                return refused
            refused = sudo.refusal(login.host, login.user, login.target, said)
            if refused:
                return refused
        tail = " | ".join(said.splitlines()[-3:])[:400]
        words = why or (f"exit status {status}" if status is not None else "no exit status")
        message = f"the connection ended before the agent answered (stage: {self._stage}; {words})"
        if tail:
            message += f": {tail}"
        if self._stage == "login shell":
            return ConnectError(login.host, message, hint=f"try `ssh {login.target} true`")
        return AgentError(login.host, message, hint=f"try `ssh {login.target} python3 -V`")
