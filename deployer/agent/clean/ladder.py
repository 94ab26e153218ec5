"""Ending processes: the right ones, gently first.

A process is its pid and start time. Where the kernel has pidfds (5.3) the signal goes to the very process whose start
time was compared after the pidfd had been opened; else both are compared immediately before the signal.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from deployer.agent.door import Emit, run
from deployer.agent.facts.process import lives, start_of
from deployer.agent.facts.systemd import UnitState, states
from deployer.protocol import records
from deployer.protocol.cleaned import Ended
from deployer.protocol.codec import Unknown
from deployer.protocol.holder import Holder

GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL: SGLang's own shutdown takes up to eight."""

_TICK = 0.25
_POLL = 0.02


class Grip:
    """A hold on one process, that no other of the same pid can slip into."""

    def __init__(self, pid: int, start: int, handle: Optional[int]) -> None:
        self.pid = pid
        self.start = start
        self.handle = handle

    def send(self, number: int) -> bool:
        """Whether the signal went out; False: the process is gone. Raises PermissionError."""
        try:
            if self.handle is not None:
                signal.pidfd_send_signal(self.handle, number)
            elif self.gone():
                return False
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def gone(self) -> bool:
        """Whether it has ended; a zombie has."""
        return not lives(self.pid, self.start)

    def state(self) -> str:
        """Its state letter, "" once it is gone."""
        now = start_of(self.pid)
        return now[1] if now and now[0] == self.start else ""

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def grip(pid: int, start: int) -> Optional[Grip]:
    """A hold on the process of this pid and start time; None where it is gone or another has its pid."""
    handle: Optional[int] = None
    if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        except OSError:
            handle = None                          # an older kernel, or a sandbox without the call
    held = Grip(pid, start, handle)
    if held.gone():
        held.close()
        return None
    return held


@records.dataclass
class _Rung:
    holder: Holder
    grip: Grip
    begun: float
    termed: float
    killed: Optional[float] = None

    @property
    def how(self) -> str:
        return "SIGTERM" if self.killed is None else "SIGKILL"


class Ladder:
    """SIGTERM, after ``grace`` seconds SIGKILL, for processes that are added as they are found."""

    def __init__(self, emit: Emit, grace: float = GRACE) -> None:
        self._emit = emit
        self._grace = grace
        self._rungs: Dict[Tuple[int, int], _Rung] = {}
        self.ended: List[Ended] = []
        self._refused: Dict[Tuple[int, int], Tuple[Holder, str]] = {}
        self._known: Set[Tuple[int, int]] = set()

    @property
    def pending(self) -> List[Holder]:
        """What was signalled and has not ended."""
        return [rung.holder for rung in self._rungs.values()]

    def add(self, holder: Holder, still: Callable[[Holder], bool], gently: bool = True) -> bool:
        """Takes hold of the process and sends SIGTERM, if ``still`` says, just before, that it is to end.

        Without ``gently`` it is SIGKILL. True for one that it has not had before.
        """
        key = holder.pid, holder.start
        if key in self._known:
            return False
        self._known.add(key)
        held = grip(holder.pid, holder.start)
        if held is None:
            self.ended.append(Ended(holder, "by itself"))
            return True
        if not still(holder):
            held.close()
            return True
        now = time.monotonic()
        if self._send(held, signal.SIGTERM if gently else signal.SIGKILL, holder):
            self._rungs[key] = _Rung(holder, held, now, now, None if gently else now)
        return True

    def climb(self, limit: float) -> None:
        """Waits until all have ended, or one more has and time has passed, at most to ``limit``; kills what is due."""
        first = len(self.ended)
        until = min(limit, time.monotonic() + _TICK)
        while self._rungs:
            self._reap()
            now = time.monotonic()
            if not self._rungs or now >= until or (len(self.ended) > first and now >= until - _TICK + 0.05):
                return
            for rung in list(self._rungs.values()):
                due = rung.killed is None and now - rung.termed >= self._grace
                if due and self._send(rung.grip, signal.SIGKILL, rung.holder):
                    rung.killed = now
            self._sleep(until - now)

    def stuck(self) -> List[Tuple[Holder, str]]:
        """What has not ended, and why it cannot be ended, in words."""
        return [(rung.holder, self._why(rung)) for rung in self._rungs.values()] + list(self._refused.values())

    def close(self) -> None:
        for rung in self._rungs.values():
            rung.grip.close()

    def _why(self, rung: _Rung) -> str:
        state = rung.grip.state()
        if state == "D":
            return "pid {} waits in the kernel ({}) and takes no signal until the driver lets go".format(
                rung.holder.pid, _waits_in(rung.holder.pid) or "D state")
        return "pid {} has not ended {:.0f} s after {} (state {})".format(
            rung.holder.pid, time.monotonic() - rung.termed, rung.how, state or "?")

    def _send(self, held: Grip, number: int, holder: Holder) -> bool:
        """False: this account may not. A process that has ended meanwhile is found so by ``_reap``."""
        name = signal.Signals(number).name
        try:
            sent = held.send(number)
        except PermissionError:
            why = "pid {} of {}: no right to send it {}".format(holder.pid, holder.user, name)
            self._refused[(holder.pid, holder.start)] = (holder, why)
            held.close()
            return False
        if sent:
            self._emit("signal", {"pid": holder.pid, "start": holder.start, "signal": name})
        return True

    def _reap(self) -> None:
        for key, rung in list(self._rungs.items()):
            if rung.grip.gone():
                rung.grip.close()
                del self._rungs[key]
                seconds = round(time.monotonic() - rung.begun, 3)
                self.ended.append(Ended(rung.holder, rung.how, seconds))
                told = {"pid": rung.holder.pid, "start": rung.holder.start, "how": rung.how, "seconds": seconds}
                self._emit("ended", told)

    def _sleep(self, seconds: float) -> None:
        """Until one of them ends (a pidfd turns readable), or for so long."""
        handles = [rung.grip.handle for rung in self._rungs.values() if rung.grip.handle is not None]
        if len(handles) < len(self._rungs):
            time.sleep(min(_POLL, max(seconds, 0.0)))
            return
        watch = select.poll()
        for handle in handles:
            watch.register(handle, select.POLLIN)
        due = [rung.termed + self._grace - time.monotonic() for rung in self._rungs.values() if rung.killed is None]
        watch.poll(max(0.0, min([seconds, *due])) * 1000 + 1)


def stop_unit(unit: str, drain: float, emit: Emit, limit: float) -> str:
    """Stops a unit, waits up to ``drain`` seconds, then has its processes killed; empty, or what went wrong.

    ``limit`` is a time of ``time.monotonic`` after which nothing more is waited for.
    """
    asked = run(["systemctl", "stop", "--no-block", "--", unit], timeout=20)
    if not asked.ok:
        return "systemctl stop {}: {}".format(unit, asked.said)
    kill_at = time.monotonic() + drain
    killed = False
    told = 0.0
    while True:
        state = _state(unit)
        if state is not None and not state.live:
            return ""
        now = time.monotonic()
        if now >= kill_at and not killed:
            run(["systemctl", "kill", "--signal=SIGKILL", "--", unit], timeout=20)
            killed = True
        if now >= limit or (killed and now >= kill_at + 30.0):
            return "{} has not stopped: it is {}".format(unit, state.active if state else "not to be asked")
        if now - told >= 1.0:
            emit("progress", {"step": "clean", "text": "waits for {} to stop".format(unit)})
            told = now
        time.sleep(0.1)


def _state(unit: str) -> Optional[UnitState]:
    known = states([unit])
    return None if isinstance(known, Unknown) else known.get(unit)


def _waits_in(pid: int) -> str:
    """The kernel function that the process sleeps in, where root may know."""
    try:
        with open("/proc/{}/wchan".format(pid), encoding="ascii", errors="replace") as file:
            name = file.read().strip()
    except OSError:
        return ""
    return "" if name in ("", "0") else "D state in " + name


def words(ended: Sequence[Ended]) -> str:
    """The ended ones in a line."""
    return ", ".join("pid {} ({})".format(one.holder.pid, one.how) for one in ended)
