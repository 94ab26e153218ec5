"""Who holds the GPUs, from both sources: nvidia-smi's compute processes and open /dev/nvidia* in /proc.

Facts only; whose a holder is, ``deployer.agent.clean.identity`` decides.
"""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Optional, Tuple

from deployer.agent.facts.gpu import HANG, device_minors
from deployer.agent.facts.process import Process
from deployer.protocol import patterns, records
from deployer.protocol.facts import ComputeApp, GpuReading

INITIAL_PIDNS = 0xEFFFFFFC
"""The inode of the machine's first PID namespace (PROC_PID_INIT_INO): nothing is hidden from there."""

UVM = "/dev/nvidia-uvm"
_GPU_DEVICE = patterns.compile(r"/dev/nvidia(\d+)")


@records.dataclass(frozen=True)
class Held:
    """``memory`` maps GPU UUID to MiB; None: open or listed, amount not known. ``listed``: nvidia-smi names it."""

    memory: Dict[str, Optional[int]]
    listed: bool


def held(reading: GpuReading, processes: Mapping[int, Process]) -> Tuple[Dict[int, Held], Tuple[ComputeApp, ...]]:
    """What each process holds, by pid, and the rows of nvidia-smi whose process is not to be seen here.

    A row's pid may be one of another PID namespace and by chance also one of this: a process without an open
    /dev/nvidia* is not it.
    """
    found: Dict[int, Dict[str, Optional[int]]] = {}
    listed = set()
    unseen: List[ComputeApp] = []
    minors = device_minors(reading.gpus)
    for process in processes.values():
        devices = [_GPU_DEVICE.fullmatch(device) for device in process.devices]
        uuids = [minors[int(match.group(1))] for match in devices if match and int(match.group(1)) in minors]
        if uuids or process.devices:
            found[process.pid] = dict.fromkeys(uuids)
    for app in reading.processes:
        known = processes.get(app.pid)
        if known is None or not (known.devices or not known.readable):
            unseen.append(app)
            continue
        listed.add(app.pid)
        if app.gpu_uuid:
            memory = found.setdefault(app.pid, {})
            before = memory.get(app.gpu_uuid)
            memory[app.gpu_uuid] = (before or 0) + app.used_mib if app.used_mib is not None else before
    return {pid: Held(memory, pid in listed) for pid, memory in found.items()}, tuple(unseen)


def uses_cuda(process: Process) -> bool:
    """Whether a process that is not listed may hold memory: CUDA opens the UVM device, monitoring does not."""
    if any(device.startswith("/dev/dxg") for device in process.devices):
        return True
    if not any(_GPU_DEVICE.fullmatch(device) for device in process.devices):
        return False
    return UVM in process.devices or not os.path.exists(UVM)


def list_is_complete(reading: GpuReading, pidns: int) -> bool:
    """Whether what is not listed provably holds nothing: asked outside any container, and answered in full."""
    return pidns == INITIAL_PIDNS and not any(error.code in (HANG, "partial") for error in reading.errors)
