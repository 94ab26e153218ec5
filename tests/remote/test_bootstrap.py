"""The dialogue up to the hello, against a scripted other side that notices what is written too early."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deployer.errors import AgentError, ConnectError, HostError, SudoError
from deployer.protocol.message import Hello, encode
from deployer.remote import bootstrap
from deployer.remote.ask import Ask
from deployer.remote.bundle import bundle
from deployer.remote.stream import Chunk, PipeStream
from tests.remote.answers import Answers

MARK = "deployer-0123456789ab"
HELLO = encode(Hello(1, bundle().hash, "3.11.2", 0))
SHELL = f"\n{MARK} shell 1000\n".encode()
RUN = f"{MARK} run\n".encode()
PROMPT = f"{MARK} password".encode()
PASSWORD = "correct horse"


class Script:
    """The other side. A ``bytes`` step is said on stdout, a tuple on stderr; a callable takes what is written."""

    def __init__(
        self, *steps: bytes | tuple[bytes] | Callable[[bytes], None], status: int | None = 1, why: str = ""
    ) -> None:
        self.silence: float | None = None
        self.steps = list(steps)
        self.written: list[bytes] = []
        self.code, self.cause = status, why
        self.hangs = False

    def read(self, timeout: float) -> Chunk | None:
        if not self.steps:
            return None if self.hangs else Chunk(b"")
        step = self.steps.pop(0)
        if isinstance(step, bytes):
            return Chunk(step)
        if isinstance(step, tuple):
            return Chunk(step[0], error=True)
        raise AssertionError("the other side waits for something to be written")

    def write(self, data: bytes, timeout: float) -> None:
        assert self.steps and callable(self.steps[0]), f"written too early: {data[:40]!r}"
        self.written.append(data)
        self.steps.pop(0)(data)  # type: ignore[operator]

    def status(self) -> int | None:
        return self.code

    def why(self) -> str:
        return self.cause

    def close(self) -> None:
        pass


def is_password(text: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        assert data == text.encode() + b"\n"

    return check


def is_agent(data: bytes) -> None:
    assert data == bundle().unpacker + bundle().payload


def greet(script: Script, ask: Ask | None = None, *, become: str = "sudo", passwords: bool = True) -> Hello:
    login = bootstrap.Login("gpu1", "admin", "-p 2222 admin@gpu1", become, passwords)
    return bootstrap.greet(script, MARK, bundle(), login, ask or Answers())


def fails(script: Script, ask: Ask | None = None, **settings: object) -> HostError:
    with pytest.raises(HostError) as raised:
        greet(script, ask, **settings)  # type: ignore[arg-type]
    error = raised.value
    assert error.host == "gpu1" and error.state == "nothing was changed on the host" and error.hint
    assert PASSWORD not in f"{error.message} {error.hint} {error!r}"
    return error


def test_the_agent_is_there_and_sudo_asks_nothing() -> None:
    assert greet(Script(SHELL, RUN, HELLO)).uid == 0


def test_all_in_one_piece_and_in_single_bytes() -> None:
    whole = b"Welcome!\n" + SHELL + RUN + HELLO
    assert greet(Script(whole)).v == 1
    assert greet(Script(*[whole[i:i + 1] for i in range(len(whole))])).v == 1


def test_noise_before_the_hello_is_passed_over() -> None:
    noise = b"\x1b[31mmotd\x1b[0m\r\n{\"v\":1,\"hash\":\"fake\",\"python\":\"x\",\"uid\":0}\nno newline"
    assert greet(Script(noise + SHELL, (b"bash: warning: setlocale\n",), RUN + HELLO)).hash == bundle().hash


def test_an_absent_agent_is_sent_when_it_is_asked_for() -> None:
    need = f"{MARK} need\n".encode()
    script = Script(SHELL, need, is_agent, RUN, HELLO)
    assert greet(script).uid == 0
    assert len(script.written) == 1


def test_sudo_with_a_lecture_and_a_password() -> None:
    ask = Answers(PASSWORD)
    lecture = b"\nWe trust you have received the usual lecture from the local System\nAdministrator.\n\n"
    assert greet(Script(SHELL, (lecture + PROMPT,), is_password(PASSWORD), RUN, HELLO), ask).uid == 0
    assert [question.kind for question in ask.asked] == ["sudo"]


def test_the_prompt_is_found_on_a_terminal_and_in_pieces() -> None:
    script = Script(SHELL, PROMPT[:5], PROMPT[5:], is_password(PASSWORD), RUN + HELLO)
    assert greet(script, Answers(PASSWORD)).uid == 0


def test_a_wrong_password_is_asked_for_again() -> None:
    ask = Answers("wrong", PASSWORD)
    script = Script(SHELL, (PROMPT,), is_password("wrong"), (b"Sorry, try again.\n" + PROMPT,), is_password(PASSWORD),
                    RUN + HELLO)
    assert greet(script, ask).uid == 0
    assert "try again" in ask.asked[1].text
    assert ask.secret(ask.asked[1]) == PASSWORD, "the right one is kept"


def test_three_wrong_passwords_are_enough() -> None:
    again = (b"Sorry, try again.\n" + PROMPT,)
    script = Script(SHELL, (PROMPT,), is_password("1"), again, is_password("2"), again, is_password("3"), again)
    error = fails(script, Answers("1", "2", "3", "4"))
    assert isinstance(error, SudoError) and "3 times" in error.message


def test_sudo_gives_up_by_itself() -> None:
    ask = Answers(PASSWORD)
    error = fails(Script(SHELL, (PROMPT,), is_password(PASSWORD), (b"\nsudo: 1 incorrect password attempt\n",)), ask)
    assert isinstance(error, SudoError) and "did not accept" in error.message
    assert ask.secret(ask.asked[0]) is None, "a refused password is forgotten"


def test_nobody_to_ask() -> None:
    error = fails(Script(SHELL, (PROMPT,)))
    assert isinstance(error, SudoError) and "nobody to ask" in error.message and "NOPASSWD" in error.hint


def test_no_password_for_a_host_whose_key_has_changed() -> None:
    error = fails(Script(SHELL, (PROMPT,)), Answers(PASSWORD), passwords=False)
    assert isinstance(error, SudoError) and "host key has changed" in error.message


@pytest.mark.parametrize(("said", "words"), [
    (b"admin is not in the sudoers file.\n", "may not use sudo"),
    (b"Sorry, user admin may not run sudo on gpu1.\n", "may not use sudo"),
    (b"Sorry, user admin is not allowed to execute '/bin/sh -c x' as root on gpu1.\n", "only some commands"),
    (b"sudo: /usr/bin/sudo must be owned by uid 0 and have the setuid bit set\n", "cannot become root"),
    (b"sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.\n", "cannot become root"),
    (b"sudo: account validation failure, is your account locked?\n", "expired"),
    (b">>> /etc/sudoers: syntax error near line 3 <<<\nsudo: parse error in /etc/sudoers near line 3\n", "is broken"),
    (b"sh: 1: sudo: not found\n", "not installed"),
])
def test_what_sudo_refuses(said: bytes, words: str) -> None:
    error = fails(Script(SHELL, (said,)))
    assert isinstance(error, SudoError) and words in error.message
    assert "{" not in error.hint


def test_sudo_that_needs_a_terminal_is_another_try() -> None:
    for said in (b"sudo: sorry, you must have a tty to run sudo\n", b"sudo: no tty present and no askpass program\n"):
        with pytest.raises(bootstrap.NeedsTerminal):
            greet(Script(SHELL, (said,)))


def test_sudo_is_missing() -> None:
    error = fails(Script(SHELL, f"{MARK} nosudo\n".encode()))
    assert isinstance(error, SudoError) and "not installed" in error.message


def test_python_is_missing_or_too_old() -> None:
    missing = fails(Script(SHELL, f"{MARK} nopython\n".encode()))
    assert isinstance(missing, AgentError) and "no Python 3.9" in missing.message
    old = fails(Script(SHELL, f"{MARK} nopython python3=3.6.8 python3.13=\n".encode()))
    assert "found: python3=3.6.8)" in old.message


@pytest.mark.parametrize(("failure", "hint"), [
    ({"errno": 28, "message": "/var/lib/deployer: No space left on device", "kind": "OSError"}, "free some space"),
    ({"errno": 30, "message": "/var/lib/deployer: Read-only file system", "kind": "OSError"}, "df -h"),
    ({"errno": None, "message": "/var/lib/deployer can be written by others", "kind": "Broken"}, "chown"),
])
def test_the_agent_cannot_be_unpacked(failure: dict[str, object], hint: str) -> None:
    need, failed = f"{MARK} need\n".encode(), f"{MARK} failed {json.dumps(failure)}\n".encode()
    error = fails(Script(SHELL, need, is_agent, failed))
    assert isinstance(error, AgentError) and str(failure["message"]) in error.message and hint in error.hint


@pytest.mark.parametrize(("steps", "stage", "kind"), [
    ((), "login shell", ConnectError),
    ((SHELL,), "sudo", SudoError),
    ((SHELL, RUN), "start of the agent", AgentError),
    ((SHELL, b"Verification code: "), "sudo", SudoError),
])
def test_a_host_that_falls_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch, steps: tuple[bytes, ...], stage: str, kind: type[HostError]
) -> None:
    script = Script(*steps)
    script.hangs = True
    error = fails(script)
    assert isinstance(error, kind) and f"stage: {stage}" in error.message and "30 s" in error.message
    if len(steps) == 2 and steps[1] != RUN:
        assert "Verification code" in error.message


def test_a_connection_that_ends_is_told_with_its_last_words() -> None:
    error = fails(Script(b"This account is currently not available.\n"))
    assert isinstance(error, ConnectError) and "not available" in error.message
    error = fails(Script(SHELL, RUN, (b"Fatal Python error: init_fs_encoding\n",)))
    assert isinstance(error, AgentError) and "Fatal Python error" in error.message
    assert "SSH connection ended" in fails(Script(SHELL, why="the SSH connection ended")).message


def test_a_first_line_that_is_no_hello() -> None:
    assert "no hello" in fails(Script(SHELL, RUN, b'{"surprise": 1}\n')).message


# -- the command line itself, through real shells

SHELLS = [name for name in ("sh", "dash", "bash", "zsh", "ksh", "fish", "tcsh", "csh", "busybox") if shutil.which(name)]


@pytest.mark.parametrize("shell", SHELLS)
def test_login_shells(agent_folder: Path, shell: str) -> None:
    mark = bootstrap.new_mark()
    command = bootstrap.command(mark, bundle().hash, "none")
    words = ["busybox", "sh", "-c"] if shell == "busybox" else [shell, "-c"]
    stream = PipeStream([*words, command])
    login = bootstrap.Login("here", "me", "here", "none")
    try:
        assert bootstrap.greet(stream, mark, bundle(), login, Ask()).hash == bundle().hash
    finally:
        stream.close()
    assert (agent_folder / bundle().hash).is_dir()


def test_the_words_given_to_the_login_shell_hold_nothing_that_shells_read_differently() -> None:
    command = bootstrap.command(MARK, "0" * 32, "sudo", terminal=True)
    for word in command.split("'")[1::2]:
        assert not set(word) & set("'\\!\n")
    assert len(command) < 2000


def test_a_python_that_cannot_run_is_passed_over(tmp_path: Path) -> None:
    """A version manager's wrapper, or Python 3.6 under the name python3."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "id", "cat"):
        (tools / name).symlink_to(shutil.which(name) or "")
    (tools / "python3").write_text("#!/bin/sh\ncase \"$*\" in *split*) echo 3.6.8;; *) exit 1;; esac\n")
    (tools / "python3").chmod(0o755)
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = bootstrap.command(MARK, "0" * 32, "none")
    ran = subprocess.run(
        [str(tools / "sh"), "-c", command], env=environment, capture_output=True, text=True, check=False)
    elsewhere = any(Path(name).exists() for name in bootstrap.PYTHONS if name.startswith("/"))
    expected = f"{MARK} need" if elsewhere else f"{MARK} nopython python3=3.6.8"
    assert expected in ran.stdout.splitlines()
