"""Waiting until GPU memory is free: by memory, not by pid, since the driver tears down after a process is gone."""

from __future__ import annotations

import time
from typing import Callable, Dict, FrozenSet, Optional, Sequence, Tuple

from deployer.agent.clean.hidden import SLACK_MIB, unexplained
from deployer.agent.door import Emit
from deployer.agent.facts.gpu import HANG, LIMIT, read_gpus
from deployer.protocol import records
from deployer.protocol.facts import Gpu, GpuReading

PAUSE = 0.1
"""Seconds between two questions."""


@records.dataclass(frozen=True)
class Waited:
    """``left`` are the GPUs that are not free, with the MiB that nobody explains (None: not known)."""

    reading: GpuReading
    left: Tuple[Tuple[Gpu, Optional[int]], ...]
    seconds: float
    fell: bool
    answered: bool = True


def until_free(
    gpus: FrozenSet[str], staying: FrozenSet[int], silent: FrozenSet[str], emit: Emit, *, limit: float, patience: float,
    read: Callable[[float], GpuReading] = read_gpus, clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep, first: Optional[GpuReading] = None,
) -> Waited:
    """Asks until the memory of ``gpus`` (UUIDs) that nobody who stays explains is free.

    ``staying`` are the pids of those who stay; ``silent`` the GPUs where such a one holds an amount that is not known,
    so that nothing can be said. ``limit`` is a time of ``clock``; ``patience`` seconds without any fall end the wait:
    what does not fall is no teardown.
    """
    begun = clock()
    lowest: Optional[int] = None
    changed = begun
    fell = False
    told = begun
    reading = first
    while True:
        if reading is None:
            reading = read(max(1.0, min(LIMIT, limit - clock())))
        if any(error.code == HANG for error in reading.errors) and not reading.gpus:
            return Waited(reading, (), clock() - begun, fell, answered=False)
        left = _left(reading, gpus, staying, silent)
        now = clock()
        if not left:
            return Waited(reading, (), now - begun, fell)
        total = sum(amount or 0 for _, amount in left)
        if lowest is None or total < lowest:
            fell = fell or lowest is not None
            lowest, changed = total, now
        if now >= limit or now - changed >= patience:
            return Waited(reading, left, now - begun, fell)
        if now - told >= 1.0:
            told = now
            words = ", ".join("GPU {} {} MiB".format(gpu.index, amount) for gpu, amount in left)
            emit("progress", {"step": "clean", "text": "waits for the driver to free {}".format(words)})
        sleep(PAUSE)
        reading = None


def _left(
    reading: GpuReading, gpus: FrozenSet[str], staying: FrozenSet[int], silent: FrozenSet[str],
) -> Tuple[Tuple[Gpu, Optional[int]], ...]:
    explained: Dict[str, int] = {}
    gone: Dict[str, int] = {}
    for app in reading.processes:
        into = explained if app.pid in staying else gone
        into[app.gpu_uuid or ""] = into.get(app.gpu_uuid or "", 0) + (app.used_mib or 0)
    left = []
    for gpu in reading.gpus:
        if gpu.uuid not in gpus or gpu.uuid in silent:
            continue
        rest = unexplained(gpu, [explained.get(gpu.uuid)])
        if rest is None:
            if gpu.uuid in gone:                   # no figure of the GPU's own: its processes' rows tell
                left.append((gpu, gone[gpu.uuid]))
        elif rest >= SLACK_MIB:
            left.append((gpu, rest))
    return tuple(left)


def freed(before: GpuReading, after: GpuReading, gpus: Sequence[str]) -> int:
    """MiB less in use on ``gpus`` than before; 0 where that is not known."""
    used = {gpu.uuid: gpu.memory_used_mib for gpu in before.gpus}
    total = 0
    for gpu in after.gpus:
        earlier = used.get(gpu.uuid)
        if gpu.uuid in gpus and earlier is not None and gpu.memory_used_mib is not None:
            total += max(0, earlier - gpu.memory_used_mib)
    return total
