"""Holders that change while they are being ended: they fork, exec, exit, hand their place on, or take another's pid."""

from __future__ import annotations

from tests.hosts.bed import Host, Operator
from tests.hosts.clean_bed import UNIT, await_holders, leave, result

HOLD = """
import os, signal, sys, time
os.open("/dev/nvidia0", os.O_RDWR)
os.memfd_create("gpu0=5000MiB")
"""

FORKING = HOLD + """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:                      # every few ms another process, and the one before it is gone
    if os.fork():
        os._exit(0)
    time.sleep(0.003)
"""

BREEDING = HOLD + """
signal.signal(signal.SIGTERM, lambda *_: [os.fork() for _ in range(3)])
while True:                      # a SIGTERM makes eight of it
    signal.pause()
"""

EXECING = HOLD + """
for name in ("/dev/nvidia0",):
    os.set_inheritable(3, True)
    os.set_inheritable(4, True)
time.sleep(0.05)
os.execv(sys.executable, ["sglang::scheduler_TP0", "-c", "import time; time.sleep(100000)"])
"""


def unit_that_leaves(host: Host, program: str) -> None:
    """A stopped unit whose process goes on in its control group."""
    host.write("/root/holder.py", program)
    host.write(f"/etc/systemd/system/{UNIT}", (
        f"[Service]\nEnvironment=DEPLOYER_UNIT={UNIT}\nKillMode=process\n"
        "ExecStart=/bin/bash -c 'setsid python3 -IS /root/holder.py & exec sleep 100000'\n"))
    host.run(f"systemctl daemon-reload && systemctl start {UNIT}")
    await_holders(host, 1)
    host.run(f"systemctl stop {UNIT}")


def in_use(host: Host) -> int:
    return host.gpu.used_mib()[0]


def test_one_that_forks_faster_than_one_can_look(host: Host, operator: Operator) -> None:
    unit_that_leaves(host, FORKING)
    with host.gpu.hold({1: 3000}) as foreign:
        said = operator.deployer("clean", host.name, "--unit", UNIT, "--json")
        assert in_use(host) == 0 and said.code == 0, said.out + said.err
        assert host.run("pgrep -f holder.py", check=False).out == ""
        assert [pid for pid, _, _ in host.gpu.processes()] == [foreign.pid]


def test_children_that_a_sigterm_brings_forth_are_seen(host: Host, operator: Operator) -> None:
    unit_that_leaves(host, BREEDING)
    said = operator.deployer("clean", host.name, "--unit", UNIT, "--json", timeout=120)
    assert in_use(host) == 0 and said.code == 0, said.out + said.err
    assert host.run("pgrep -f holder.py", check=False).out == ""
    assert len(result(said)["cleaned"]["ended"]) >= 2


def test_one_that_becomes_another_program_is_still_the_same_process(host: Host, operator: Operator) -> None:
    unit_that_leaves(host, EXECING)
    said = operator.deployer("clean", host.name, "--unit", UNIT, "--json")
    assert in_use(host) == 0 and said.code == 0, said.out + said.err


def test_one_that_ends_by_itself_meanwhile(host: Host, operator: Operator) -> None:
    unit_that_leaves(host, HOLD + "time.sleep(2.5)\n")
    said = operator.deployer("clean", host.name, "--unit", UNIT, "--json")
    assert said.code == 0 and in_use(host) == 0, said.out + said.err


def test_a_loop_that_starts_it_again_is_named(host: Host, operator: Operator) -> None:
    """Nobody's shell starts an orphan anew each time it ends: the shell is not SGLang and is not touched, but named."""
    start = "bash -c 'exec -a sglang::scheduler_TP0 python3 -IS /root/holder.py'"
    host.write("/root/loop.sh", f"while :; do {start}; done\n")
    host.write("/root/holder.py", HOLD + "time.sleep(100000)\n")
    host.run("(setsid bash /root/loop.sh >/dev/null 2>&1 </dev/null &)")
    await_holders(host, 1)
    said = operator.deployer("clean", host.name, "--scope", "orphans", "--deadline", "20")
    assert said.code == 1 and "starts it again each time" in said.err and "loop.sh" in said.err, said.err


TAKE_ITS_PID = """
import ctypes, os, struct, sys, time
victim = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
wanted = (ctypes.c_int * 1)(victim)
# clone3(2) with set_tid: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, its size
words = struct.pack("10Q", 0, 0, 0, 0, 17, 0, 0, 0, ctypes.addressof(wanted), 1)
asked = ctypes.create_string_buffer(words, len(words))
print("waiting", flush=True)
while True:
    made = libc.syscall(435, asked, len(words))
    if made == 0:
        os.execv("/bin/sleep", ["sleep", "7777"])
    if made > 0:
        break
os.waitpid(made, 0)
"""


def test_a_pid_that_is_given_to_another_at_once(host: Host, operator: Operator) -> None:
    """A stranger takes the holder's pid in the moment in which it is free, and lives on."""
    leave(host, UNIT, "0=5000")
    (victim, _, _), = host.gpu.processes()
    host.write("/root/take.py", TAKE_ITS_PID)
    taker = host.popen(["python3", "/root/take.py", str(victim)])
    try:
        assert taker.stdout and taker.stdout.readline() == "waiting\n"
        said = operator.deployer("clean", host.name, "--unit", UNIT, "--json")
        assert said.code == 0 and in_use(host) == 0, said.err
        assert [one["holder"]["pid"] for one in result(said)["cleaned"]["ended"]] == [victim]
        assert host.pids("^sleep 7777") == [victim], "the stranger has the pid, and was not touched"
    finally:
        host.run(["kill", "-9", str(victim)], check=False)
        taker.kill()
        taker.communicate()
