"""Asking: on a terminal, through askpass programs, once for all, and never where nobody is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from deployer.remote.ask import Ask, Question

SUDO = Question("sudo", "admin@gpu1", "[sudo] password for admin on gpu1: ")


class Counting(Ask):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def prompt(self, question: Question) -> str | None:
        time.sleep(0.05)
        self.count += 1
        return f"answer {self.count}"


def test_many_threads_ask_once() -> None:
    ask = Counting()
    said: list[str | None] = []
    threads = [threading.Thread(target=lambda: said.append(ask.secret(SUDO))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["answer 1"] * 8


def test_a_wrong_answer_is_forgotten_but_not_its_successor() -> None:
    ask = Counting()
    first = ask.secret(SUDO) or ""
    ask.wrong(SUDO, first)
    assert ask.secret(SUDO) == "answer 2"
    ask.wrong(SUDO, first)
    assert ask.secret(SUDO) == "answer 2", "another thread's late word on the old answer changes nothing"


def test_questions_are_apart_and_challenges_are_never_kept() -> None:
    ask = Counting()
    assert ask.secret(SUDO) != ask.secret(Question("sudo", "admin@gpu2", ""))
    challenge = Question("challenge", "admin@gpu1", "Code: ")
    assert ask.secret(challenge) != ask.secret(challenge)


def test_nobody_answers_by_itself() -> None:
    assert Ask().secret(SUDO) is None
    assert Ask().confirm("sure?") is False and Ask().confirm("sure?", default=True) is True


def test_nothing_shows_in_a_repr() -> None:
    ask = Counting()
    ask.secret(SUDO)
    assert "answer" not in repr(ask)


# -- the terminal's

PROGRAM = """
import sys
from deployer.cli.ask import TerminalAsk
from deployer.remote.ask import Question
ask = TerminalAsk()
for host in sys.argv[1:]:
    kind, _, subject = host.partition(":")
    if kind == "yes":
        print("said", ask.confirm(subject), flush=True)
        continue
    question = Question(kind, subject, f"password of {subject}: ")
    print("got", repr(ask.secret(question)), flush=True)
"""


def on_terminal(words: list[str], typed: list[bytes], program: str = PROGRAM) -> tuple[str, str]:
    """Runs the program with a terminal of its own; what the terminal showed, and what came on stdout."""
    read, write = os.pipe()
    pid, master = pty.fork()
    if pid == 0:
        os.dup2(write, 1)
        os.environ.pop("SSH_ASKPASS", None)
        os.execv(sys.executable, [sys.executable, "-c", program, *words])
    os.close(write)
    shown = b""
    for line in typed:
        while not shown.endswith(b": ") and b"] " not in shown[-3:]:
            shown += os.read(master, 1024)
        os.write(master, line)
        shown += b"|"
    out = b""
    while data := os.read(read, 4096):
        out += data
    while True:
        try:
            data = os.read(master, 1024)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.waitpid(pid, 0)
    os.close(master)
    os.close(read)
    return shown.decode(), out.decode()


def test_what_is_typed_is_not_shown() -> None:
    shown, out = on_terminal(["sudo:admin@gpu1"], [b"s3cret typed\n"])
    assert out == "got 's3cret typed'\n"
    assert "s3cret" not in shown and "password of admin@gpu1: " in shown


def test_the_same_for_the_next_host_by_one_key() -> None:
    shown, out = on_terminal(["sudo:a@h1", "sudo:a@h2", "sudo:a@h1", "key:/k"], [b"one\n", b"\n", b"\n"])
    assert out == "got 'one'\ngot 'one'\ngot 'one'\ngot ''\n", "never a sudo password for a key"
    assert "Enter: the same as for a@h1" in shown


def test_end_of_input_is_no_answer() -> None:
    assert on_terminal(["sudo:a@h1"], [b"\x04"])[1] == "got None\n"


@pytest.mark.parametrize(("typed", "said"), [(b"y\n", True), (b"Yes\n", True), (b"\n", False), (b"no\n", False)])
def test_yes_or_no(typed: bytes, said: bool) -> None:
    shown, out = on_terminal(["yes:go on?"], [typed])
    assert out == f"said {said}\n" and "[y/N]" in shown


def without_terminal(words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if "ASKPASS" not in key}
    return subprocess.run([sys.executable, "-c", PROGRAM, *words], env={**clean, **environment}, capture_output=True,
                          text=True, check=True, start_new_session=True, input="not for you\n")


def test_without_a_terminal_nobody_is_asked() -> None:
    ran = without_terminal(["sudo:a@h1", "yes:go on?"])
    assert ran.stdout == "got None\nsaid False\n" and ran.stderr == ""


def test_a_terminal_that_is_not_the_controlling_one_is_asked_too() -> None:
    master, slave = pty.openpty()
    running = subprocess.Popen([sys.executable, "-c", PROGRAM, "sudo:a@h1"], stdin=slave, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True, text=True)
    os.close(slave)
    shown = b""
    while b": " not in shown:
        shown += os.read(master, 1024)
    os.write(master, b"typed\n")
    out, _ = running.communicate(timeout=20)
    os.close(master)
    assert out == "got 'typed'\n"


def test_askpass_programs(tmp_path: Path) -> None:
    for name, answer in (("ssh", "from ssh"), ("sudo", "from sudo")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho \"{answer}: $1\"\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "fails").write_text("#!/bin/sh\necho no; exit 1\n")
    (tmp_path / "fails").chmod(0o755)
    ssh, sudo = str(tmp_path / "ssh"), str(tmp_path / "sudo")
    assert without_terminal(["sudo:a@h", "key:/k"], SSH_ASKPASS=ssh, SUDO_ASKPASS=sudo).stdout == (
        "got 'from sudo: password of a@h: '\ngot 'from ssh: password of /k: '\n")
    assert without_terminal(["key:/k"], SUDO_ASKPASS=sudo).stdout == "got None\n"
    assert without_terminal(["key:/k"], SSH_ASKPASS=str(tmp_path / "fails")).stdout == "got None\n"
    assert without_terminal(["key:/k"], SSH_ASKPASS=str(tmp_path / "absent")).stdout == "got None\n"
    assert without_terminal(["key:/k"], SSH_ASKPASS=ssh, SSH_ASKPASS_REQUIRE="never").stdout == "got None\n"


def test_a_cancelled_question_is_no_answer() -> None:
    program = PROGRAM.replace("ask = TerminalAsk()", "ask = TerminalAsk()\nimport threading\n"
                              "threading.Timer(0.5, ask.cancel).start()")
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", program, "sudo:a@h1", "sudo:a@h2"])
    shown = b""
    while b"got None" not in shown.replace(b"\r", b"").partition(b"got None")[2]:
        shown += os.read(master, 1024)
    os.waitpid(pid, 0)
    os.close(master)
    assert b"a@h2" not in shown, "after a cancel nothing more is asked"


def test_the_terminal_gets_its_echo_back_when_the_process_ends_meanwhile() -> None:
    program = PROGRAM.replace("for host in", "import threading, time\nthreading.Thread(target=lambda: ask.secret("
                              "Question('sudo', 'x', 'waiting: ')), daemon=True).start()\ntime.sleep(0.5)\nsys.exit()\n"
                              "for host in")
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])
    shown = b""
    while b"waiting: " not in shown:
        shown += os.read(master, 1024)
    assert not termios.tcgetattr(master)[3] & termios.ECHO
    os.waitpid(pid, 0)
    assert termios.tcgetattr(master)[3] & termios.ECHO
    os.close(master)


def test_a_live_view_makes_way_for_a_question() -> None:
    program = PROGRAM.replace("ask = TerminalAsk()", "import contextlib\n@contextlib.contextmanager\ndef around():\n"
                              "    print('paused', flush=True)\n    yield\n    print('resumed', flush=True)\n"
                              "ask = TerminalAsk()\nask.around = around")
    _, out = on_terminal(["sudo:a@h1"], [b"one\n"], program)
    assert out == "paused\nresumed\ngot 'one'\n"
