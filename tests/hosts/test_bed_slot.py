"""Runs keep apart, and what a killed one left is cleaned by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.hosts.bed import Pool, cgroups, slot
from tests.hosts.bed.image import CHECKOUT

RUN = """
from tests.hosts.bed import Pool
pool = Pool()
[host] = pool.take()
host.run("systemd-run sleep 1000")
print(pool.folder.name, flush=True)
import signal
signal.pause()
"""


def test_a_killed_run_leaves_nothing_for_long(pool: Pool) -> None:
    run = subprocess.Popen([sys.executable, "-c", RUN], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    number = int(run.stdout.readline())
    name = f"dbed{number}"
    assert number != int(pool.folder.name), "two runs share no slot"
    assert cgroups.members(name) and Path("/sys/class/net", name).exists()
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + 10
    while cgroups.members(name):
        assert time.monotonic() < deadline, "the hosts outlive their run"
        time.sleep(0.02)
    slot.sweep()
    assert not Path("/sys/class/net", name).exists()
    assert not list(Path("/run/netns").glob(f"{name}-*"))
    assert not (slot.BASE / str(number)).exists()
    assert not any((hierarchy / name).exists() for hierarchy in cgroups.hierarchies())
    assert pool.folder.is_mount(), "a living run's is untouched"
