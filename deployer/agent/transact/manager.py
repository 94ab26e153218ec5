"""What a transaction asks of systemd: one command with a time limit each; its effect is looked at, not its word."""

from __future__ import annotations

import os
import select
import subprocess
import time
from typing import Callable, List, Sequence

from deployer.agent.door import ENVIRONMENT, Ran, run
from deployer.agent.facts.process import pidfd
from deployer.agent.facts.unit import seconds, show


class ManagerError(Exception):
    """systemctl failed or did not answer, in words."""


def daemon_reload() -> None:
    """Raises ManagerError."""
    _must(run(["systemctl", "daemon-reload"], timeout=90))


def enable(units: Sequence[str]) -> None:
    """Raises ManagerError. Units without an [Install] section are left as they are. A daemon-reload must follow."""
    if units:
        ran = run(["systemctl", "--no-reload", "enable", "--", *units], timeout=60)
        if not ran.ok and "no installation config" not in ran.err:
            _must(ran)


def disable(units: Sequence[str]) -> None:
    """Takes away the links of ``enable``. A unit whose file is gone already is no fault."""
    for unit in units:
        ran = run(["systemctl", "--no-reload", "disable", "--", unit], timeout=60)
        if not ran.ok and "does not exist" not in ran.err and "not loaded" not in ran.err:
            _must(ran)


def is_enabled(unit: str) -> bool:
    return run(["systemctl", "is-enabled", "--", unit], timeout=20).out.strip() in ("enabled", "enabled-runtime")


def reset_failed(unit: str) -> None:
    """So that the tool's own starts never use up the unit's start limit. A unit that is not loaded is no fault."""
    run(["systemctl", "reset-failed", "--", unit], timeout=20)


def start(unit: str) -> None:
    """Queues the start and returns: how it goes is the verifier's to see. Raises ManagerError when it is refused."""
    _must(run(["systemctl", "start", "--no-block", "--", unit], timeout=30))


def stop(unit: str, limit: float, waiting: Callable[[float], None]) -> float:
    """Stops ``unit`` and waits until systemd calls it stopped; the seconds it took.

    ``waiting`` is called about once a second with the seconds so far. After ``limit`` seconds (the unit's own stop
    timeout should have ended it before) its processes are killed; raises ManagerError when even that does not end it.
    """
    begun = time.monotonic()
    if not _stop_within(unit, limit, begun, waiting):
        run(["systemctl", "kill", "--signal=SIGKILL", "--", unit], timeout=20)
        if not _stop_within(unit, limit + 30, begun, waiting):
            raise ManagerError("{} did not stop within {:.0f} s, SIGKILL included".format(unit, limit + 30))
    state = show(unit, ("ActiveState",)).get("ActiveState", "")
    if state not in ("inactive", "failed"):
        raise ManagerError("{} is {} after systemctl stop".format(unit, state or "in an unknown state"))
    return time.monotonic() - begun


def stop_limit(unit: str, drain: float) -> float:
    """Seconds after which a stop has failed: the unit's TimeoutStopSec and more, or the declared drain."""
    declared = seconds(show(unit, ("TimeoutStopUSec",)).get("TimeoutStopUSec", "")) or 0.0
    return max(declared, drain) + 30.0


def _stop_within(unit: str, limit: float, begun: float, waiting: Callable[[float], None]) -> bool:
    process = subprocess.Popen(["systemctl", "stop", "--", unit], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    told = 0.0
    while True:
        if _ended_within(process, 0.25):
            return True
        passed = time.monotonic() - begun
        if passed - told >= 1.0:
            told = passed
            waiting(passed)
        if passed > limit:
            process.kill()
            process.wait()
            return False


def _ended_within(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """``Popen.wait`` looks every 50 ms only, and the unit is dark meanwhile; a pidfd tells at once."""
    descriptor = pidfd(process.pid)
    if descriptor >= 0:
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(seconds * 1000)
        finally:
            os.close(descriptor)
        seconds = 0.0
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        return False


def timers(units: Sequence[str]) -> List[str]:
    return [unit for unit in units if unit.endswith(".timer")]


def _must(ran: Ran) -> None:
    if not ran.ok:
        raise ManagerError("{}: {}".format(" ".join(ran.argv), ran.said))
