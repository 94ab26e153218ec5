"""What nvidia-smi knows of the GPUs, asked under a time limit.

Both queries run side by side: a driver that hangs costs one limit, not two. Memory is in MiB, as nvidia-smi gives it.
"""

from __future__ import annotations

import os
import re
import time
from typing import Dict, List, Sequence, Tuple

from deployer.agent.door import begin, run
from deployer.agent.facts.gpu_rows import HANG, PARTIAL, parse
from deployer.protocol.facts import Gpu, GpuReading

__all__ = ["APPS_QUERY", "GPU_QUERY", "HANG", "LIMIT", "PARTIAL", "chosen", "device_minors", "parse", "read_gpus"]

GPU_QUERY = (
    "nvidia-smi",
    "--query-gpu=index,uuid,pci.bus_id,name,memory.total,memory.used,memory.free,utilization.gpu,mig.mode.current,"
    "driver_version",
    "--format=csv,noheader,nounits",
)
APPS_QUERY = (
    "nvidia-smi",
    "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
    "--format=csv,noheader,nounits",
)
LIMIT = 15.0
"""Seconds for one query. Eight GPUs without persistence mode take several; more than this is a driver that hangs."""

_last: List[Tuple[float, GpuReading]] = []
_PROC_GPUS = "/proc/driver/nvidia/gpus"


def read_gpus(timeout: float = LIMIT, max_age: float = 0.0) -> GpuReading:
    """Asks for GPUs and compute processes; never raises, what went wrong is in ``errors``.

    One whole reading of this process's own that was begun in the last ``max_age`` seconds is taken as it is: each query
    costs the host tens of milliseconds of CPU, some drivers seconds.
    """
    asked = time.monotonic()
    if _last and asked - _last[-1][0] <= max_age:
        return _last[-1][1]
    apps = begin(run, APPS_QUERY, timeout)
    reading = parse(run(GPU_QUERY, timeout), apps())
    _last[:] = [] if reading.errors else [(asked, reading)]
    return reading


def chosen(gpus: Sequence[Gpu], selectors: Sequence[str]) -> Tuple[Gpu, ...]:
    """The GPUs that ``selectors`` name, by index or UUID; every GPU where none or "all" is named."""
    if not selectors or "all" in selectors:
        return tuple(gpus)
    wanted = {str(selector).lower() for selector in selectors}
    return tuple(gpu for gpu in gpus if str(gpu.index) in wanted or (gpu.uuid and gpu.uuid.lower() in wanted))


def unknown_selectors(gpus: Sequence[Gpu], selectors: Sequence[str]) -> Tuple[str, ...]:
    """Those of ``selectors`` that name no GPU."""
    known = {str(gpu.index) for gpu in gpus} | {gpu.uuid.lower() for gpu in gpus if gpu.uuid} | {"all"}
    return tuple(selector for selector in selectors if str(selector).lower() not in known)


def device_minors(gpus: Sequence[Gpu], folder: str = _PROC_GPUS) -> Dict[int, str]:
    """The N of /dev/nvidiaN to the GPU's UUID.

    The kernel module says it (/proc/driver/nvidia/gpus/BUS_ID/information, "Device Minor"); where that is not to be
    read, the index stands for it, as it does on a machine whose GPUs are all visible.
    """
    by_bus = {_bus(gpu.bus_id): gpu.uuid for gpu in gpus if gpu.bus_id and gpu.uuid}
    minors: Dict[int, str] = {}
    for name in _listed(folder):
        try:
            with open(os.path.join(folder, name, "information"), encoding="utf-8", errors="replace") as file:
                match = re.search(r"^Device Minor:\s*(\d+)", file.read(), re.MULTILINE)
        except OSError:
            continue
        if match and _bus(name) in by_bus:
            minors[int(match.group(1))] = by_bus[_bus(name)]
    return minors or {gpu.index: gpu.uuid for gpu in gpus if gpu.uuid}


def _bus(bus_id: str) -> str:
    """A bus id without its domain's leading zeros: the kernel writes four digits, nvidia-smi eight."""
    domain, _, rest = bus_id.lower().partition(":")
    return (domain.lstrip("0") or "0") + ":" + rest


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
