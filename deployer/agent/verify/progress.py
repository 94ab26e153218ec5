"""Slow or stuck: a start is slow while anything still moves, and stuck when nothing does. Pure.

An observation of ``progress`` holds ``cpu`` (seconds of CPU time of the unit's processes), ``io`` (bytes they read)
and ``pids``. What moves besides: new log lines, percentages (both in ``log``), GPU memory (``gpu``).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from deployer.protocol import records
from deployer.protocol.verdict import Observation

CPU_SHARE = 0.05
"""CPU time that counts as movement, as a share of one core: timers of an idle Python take less."""
IO_BYTES = 1 << 20
IO_WINDOW = 10.0
"""Bytes read within so many seconds that count as movement: what an idle server reads of /proc stays below."""
GPU_MIB = 16
CPU_ALONE = 3.0
"""Ranks that wait for each other in NCCL burn whole cores: CPU time alone holds off *stuck* only this many times as
long as anything else would."""

_STATES = {"D": "uninterruptible", "S": "sleeping", "R": "running", "T": "stopped", "Z": "dead, not reaped",
           "t": "traced"}


@records.dataclass(frozen=True)
class Movement:
    """When what last moved, in monotonic seconds."""

    at: float
    cpu_at: float
    by: str = "the start"
    cpu: Optional[Tuple[float, float]] = None       # when, seconds of CPU time
    io: Optional[Tuple[float, int]] = None          # when, bytes read
    pids: Tuple[int, ...] = ()
    lines: int = 0
    percent: Any = None
    used: Tuple[Optional[int], ...] = ()
    opened: bool = False


def begin(at: float) -> Movement:
    return Movement(at, at)


def move(movement: Movement, observation: Observation) -> Movement:
    """``movement`` after one observation more."""
    value, at = observation.value, observation.at
    if observation.source == "log":
        return _log(movement, value, at)
    if observation.source == "gpu":
        return _gpu(movement, value, at)
    if observation.source == "socket":
        opened = bool(value.get("open"))
        return _moved(movement, at, "the port", opened=opened) if opened != movement.opened else movement
    if observation.source == "progress":
        return _process(movement, value, at)
    return movement


def idle(movement: Movement, now: float) -> Tuple[float, float]:
    """Seconds since anything moved, and since anything or CPU time did."""
    return now - movement.at, now - max(movement.at, movement.cpu_at)


def stuck(movement: Movement, now: float, stall: float) -> bool:
    """Whether nothing has moved for ``stall`` seconds, or nothing but CPU time for three times as long."""
    quiet, silent = idle(movement, now)
    return silent >= stall or quiet >= CPU_ALONE * stall


def _moved(movement: Movement, at: float, by: str, **changes: Any) -> Movement:
    return records.replace(movement, at=at, by=by, **changes)


def _log(movement: Movement, value: Mapping[str, Any], at: float) -> Movement:
    lines, percent = int(value.get("moving_lines", value.get("lines", 0))), value.get("percent")
    if lines == movement.lines and percent == movement.percent:
        return movement
    return _moved(movement, at, "the log", lines=lines, percent=percent)


def _gpu(movement: Movement, value: Mapping[str, Any], at: float) -> Movement:
    used = tuple(gpu.get("used") for gpu in value.get("gpus") or ())
    if not used:
        return movement
    if len(used) != len(movement.used):
        return records.replace(movement, used=used)
    for now, before in zip(used, movement.used):
        if now is not None and (before is None or abs(now - before) >= GPU_MIB):
            return _moved(movement, at, "GPU memory", used=used)
    return movement


def _process(movement: Movement, value: Mapping[str, Any], at: float) -> Movement:
    io, cpu, pids = value.get("io"), value.get("cpu"), tuple(sorted(value.get("pids") or ()))
    if set(pids) - set(movement.pids):
        movement = _moved(movement, at, "new processes", pids=pids, io=(at, io or 0))
    elif io is not None and (movement.io is None or io < movement.io[1] or at - movement.io[0] > IO_WINDOW):
        movement = records.replace(movement, io=(at, io))
    elif io is not None and movement.io is not None and io - movement.io[1] >= IO_BYTES:
        movement = _moved(movement, at, "reading", io=(at, io))
    if cpu is None:
        return movement
    if movement.cpu is None or cpu < movement.cpu[1]:
        return records.replace(movement, cpu=(at, cpu))
    begun, before = movement.cpu
    if at - begun < 1.0:
        return movement
    busy = (cpu - before) / (at - begun) >= CPU_SHARE
    return records.replace(movement, cpu=(at, cpu), cpu_at=at if busy else movement.cpu_at)


def waiting_in(processes: Any) -> str:
    """What stuck processes wait in, the same ones together: "3 x sglang::schedul: sleeping in futex_wait"."""
    groups: Dict[str, List[Any]] = {}
    for process in processes or ():
        name = "{}: {}{}".format(
            process.get("comm"), _STATES.get(str(process.get("state")), process.get("state")),
            " in " + str(process["wchan"]) if process.get("wchan") not in (None, "", "0") else "")
        groups.setdefault(name, []).append(process.get("pid"))
    return "; ".join("{}{} (pid {})".format(
        "{} x ".format(len(pids)) if len(pids) > 1 else "", name, ", ".join(str(pid) for pid in pids[:4]))
        for name, pids in groups.items())
