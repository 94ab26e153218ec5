"""Runs on the host, bundled beside the agent by the tests: stops a transaction at a point until the test lets it go on.

``/run/fault/plan`` names the point; ``/run/fault/reached`` appears there, and ``/run/fault/go`` lets it go on. The
point is a step ("install"), "begin", "end", "rollback", or "put2" (before the second rename of a file into its place).
"""

from __future__ import annotations

import os
import time
from typing import Any

from deployer.agent.facts import gpu
from deployer.agent.store import files
from deployer.agent.store.record import Record
from deployer.agent.transact import rollback

FOLDER = "/run/fault"


def at(point: str) -> None:
    """Waits here when this is the planned point, once."""
    try:
        with open(os.path.join(FOLDER, "plan"), encoding="ascii") as file:
            planned = file.read().strip()
    except OSError:
        return
    if planned != point or os.path.exists(os.path.join(FOLDER, "reached")):
        return
    with open(os.path.join(FOLDER, "reached"), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    until = time.monotonic() + 60
    while not os.path.exists(os.path.join(FOLDER, "go")) and time.monotonic() < until:
        time.sleep(0.005)
    shift_clock()


def shift_clock() -> None:
    """``/run/fault/clock`` holds the seconds by which this process's wall clock jumps: the machine's own is shared."""
    try:
        with open(os.path.join(FOLDER, "clock"), encoding="ascii") as file:
            seconds = float(file.read())
    except OSError:
        return
    real = time.time
    time.time = lambda: real() + seconds


def install() -> None:
    """Wraps what a transaction does at its points."""
    step, begin, end, back, put = Record.step, Record.begin, Record.end, Record.rolling_back, files.put
    count = [0]

    def stepped(self: Record, name: str, **facts: Any) -> None:
        step(self, name, **facts)
        count[0] = 0
        at(name)

    def begun(self: Record, **facts: Any) -> None:
        begin(self, **facts)
        at("begin")

    def ended(self: Record, outcome: str) -> None:
        at("end")
        end(self, outcome)

    def turned(self: Record, reason: str) -> None:
        back(self, reason)
        at("rollback")

    def placed(prepared: str, path: str) -> None:
        if path.startswith("/etc/"):
            count[0] += 1
            at(f"put{count[0]}")
        put(prepared, path)

    # How long a blocked way back is tried again and a hanging nvidia-smi waited for: what the tests have patience for.
    rollback.PATIENCE = 1.5
    ask = gpu.run
    gpu.run = lambda argv, timeout: ask(argv, min(timeout, 3.0))  # type: ignore[assignment]
    Record.step, Record.begin, Record.end, Record.rolling_back = stepped, begun, ended, turned  # type: ignore[method-assign]
    files.put = placed


install()
