"""/proc as it is: this process and children made for it."""

import os
import socket
import subprocess
import sys

import pytest

from deployer.agent.facts.process import MARKER, read, since, snapshot, start_of
from deployer.agent.facts.sockets import listening


@pytest.fixture
def child():
    made = []

    def start(code, **env):
        words = [sys.executable, "-c", f"import os, sys, time\n{code}\nprint(1, flush=True)\ntime.sleep(1000)"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **env})
        made.append(process)
        assert process.stdout.readline() == b"1\n"
        return process

    yield start
    for process in made:
        process.kill()
        process.wait()
        process.stdout.close()


def test_this_process():
    me = read(os.getpid())
    assert (me.pid, me.ppid, me.uid) == (os.getpid(), os.getppid(), os.getuid())
    assert me.argv[0] and me.ns_pids[-1] == me.pid and me.pidns > 0 and me.readable
    assert start_of(me.pid)[0] == me.start


def test_when_it_began(child):
    import time

    now = time.time()
    one = child("pass")
    assert abs(since(read(one.pid).start) - now) < 2.0


def test_marker_and_devices(child, tmp_path):
    one = child("pass", **{MARKER: "qwen.service", "INVOCATION_ID": "abc", "X" + MARKER: "no"})
    found = read(one.pid)
    assert (found.marker, found.invocation, found.devices) == ("qwen.service", "abc", ())
    assert snapshot()[one.pid].marker == "qwen.service"


def test_a_comm_with_blanks_and_brackets(child):
    one = child("open('/proc/self/comm', 'w').write('a) (b 1 2')")
    assert read(one.pid).comm == "a) (b 1 2" and read(one.pid).ppid == os.getpid()


def test_a_title_over_the_whole_of_argv(child):
    """setproctitle leaves NULs behind: they are no empty words."""
    code = ("import ctypes\nargc = ctypes.c_int(); libc = ctypes.CDLL(None)\n"
            "stat = open('/proc/self/stat').read().rpartition(')')[2].split()\n"
            "begin, end = int(stat[45]), int(stat[46])\n"
            "ctypes.memset(begin, 0, end - begin)\nctypes.memmove(begin, b'sglang::scheduler_TP0', 21)")
    assert read(child(code).pid).argv == ("sglang::scheduler_TP0",)


def test_what_is_gone_is_none():
    process = subprocess.Popen(["true"])
    process.wait()
    assert read(process.pid) is None and start_of(process.pid) is None


def test_kernel_threads_are_left_out():
    assert 2 not in snapshot()


@pytest.mark.parametrize("family, address", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_listening_sockets_and_their_owner(family, address):
    with socket.socket(family) as server:
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip(f"no {address} here")
        server.listen()
        port = server.getsockname()[1]
        (found,) = [one for one in listening() if one.port == port]
        assert (found.address, found.pid) == (address, os.getpid())
