"""The ladder against real processes of this machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deployer.agent.clean import ladder
from deployer.agent.clean.ladder import Ladder, grip
from deployer.agent.facts.process import read, start_of
from deployer.protocol.holder import Holder


@pytest.fixture
def spawn():
    made = []

    def start(code="signal.pause()", wait=True):
        words = [sys.executable, "-c", f"import os, signal, sys, time\nprint(1, flush=True)\n{code}"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
        made.append(process)
        if wait:
            process.stdout.readline()
        return process

    yield start
    for process in made:
        process.kill()
        process.wait()
        process.stdout.close()


def holder(pid, start=None):
    found = read(pid)
    return Holder(pid, start or found.start, 0, "u", ("x",), "/")


def climb(steps, limit=10.0):
    until = time.monotonic() + limit
    while steps.pending and time.monotonic() < until:
        steps.climb(until)
    return [(one.holder.pid, one.how) for one in steps.ended]


def yes(one):
    return True


@pytest.fixture(params=["pidfd", "pid"])
def way(request, monkeypatch):
    if request.param == "pid":
        monkeypatch.delattr(os, "pidfd_open")
    return request.param


def test_term_then_kill(spawn, way):
    gentle = spawn()
    stubborn = spawn("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(2, flush=True)\nsignal.pause()")
    stubborn.stdout.readline()
    told = []
    steps = Ladder(lambda event, data: told.append((event, data["pid"])), grace=0.3)
    for one in (gentle, stubborn):
        steps.add(holder(one.pid), yes)
    begun = time.monotonic()
    assert climb(steps) == [(gentle.pid, "SIGTERM"), (stubborn.pid, "SIGKILL")]
    assert 0.3 <= time.monotonic() - begun < 1.5
    assert gentle.wait() == -signal.SIGTERM and stubborn.wait() == -signal.SIGKILL
    assert [event for event, pid in told if pid == stubborn.pid] == ["signal", "signal", "ended"]


def test_another_process_of_the_same_pid_is_not_signalled(spawn, way):
    other = spawn()
    steps = Ladder(lambda *_: None)
    steps.add(holder(other.pid, start=start_of(other.pid)[0] - 1), yes)
    assert [one.how for one in steps.ended] == ["by itself"] and not steps.pending
    assert other.poll() is None


def test_a_pid_that_comes_to_another_between_opening_and_signal(spawn, way, monkeypatch):
    """The process ends, and its number is another's, just before the signal goes out."""
    victim, bystander = spawn(), spawn()
    held = grip(victim.pid, start_of(victim.pid)[0])
    victim.kill()
    victim.wait()
    # Whoever has the number now: asked for the start time, /proc shows the other one's.
    monkeypatch.setattr(ladder, "start_of", lambda pid: start_of(bystander.pid))
    held.start -= 1 if start_of(bystander.pid)[0] == held.start else 0
    assert held.send(signal.SIGKILL) is False
    assert bystander.poll() is None
    held.close()


def test_one_that_no_longer_is_to_end_gets_nothing(spawn, way):
    one = spawn()
    steps = Ladder(lambda *_: None)
    steps.add(holder(one.pid), lambda holder: False)
    assert not steps.pending and one.poll() is None


def test_exec_does_not_make_it_another(spawn, way):
    one = spawn("time.sleep(0.2)\nos.execv('/bin/sleep', ['sleep', '1000'])")
    target = holder(one.pid)
    until = time.monotonic() + 5
    while read(one.pid).argv[:1] != ("sleep",):
        assert time.monotonic() < until
        time.sleep(0.02)
    steps = Ladder(lambda *_: None)
    steps.add(target, yes)
    assert climb(steps) == [(one.pid, "SIGTERM")]


def test_a_zombie_has_ended(spawn, way):
    one = spawn("pid = os.fork()\nif not pid: os._exit(0)\nprint(pid, flush=True)\nsignal.pause()")
    zombie = int(one.stdout.readline())
    until = time.monotonic() + 5
    while start_of(zombie)[1] != "Z":
        assert time.monotonic() < until
    steps = Ladder(lambda *_: None)
    steps.add(Holder(zombie, start_of(zombie)[0], 0, "u", ("x",), "/"), yes)
    assert [ended.how for ended in steps.ended] == ["by itself"]


def test_a_thread_that_outlives_its_leader_is_no_zombie(spawn):
    code = ("import threading, ctypes\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
            "print(2, flush=True)\nctypes.CDLL(None).syscall(60, 0)")       # exit(2) of the leader alone (x86-64)
    if os.uname().machine != "x86_64":
        pytest.skip("the number of exit(2) is x86-64's")
    one = spawn(code)
    one.stdout.readline()
    until = time.monotonic() + 5
    while Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
    assert start_of(one.pid)[1] != "Z" and not read(one.pid).dead
    steps = Ladder(lambda *_: None, grace=0.2)
    steps.add(holder(one.pid), yes)
    assert climb(steps)[0][0] == one.pid
