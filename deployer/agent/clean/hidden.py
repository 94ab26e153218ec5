"""GPU memory in use whose holder is not to be seen from here, and what may explain it."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from deployer.agent.clean.world import World
from deployer.agent.facts.holders import INITIAL_PIDNS
from deployer.protocol.facts import ComputeApp, Gpu, GpuReading
from deployer.protocol.holder import Holder, HolderClass

SLACK_MIB = 512
"""MiB that no process needs to explain: older drivers count their own reserve as used, and contexts are rounded."""


def unexplained(gpu: Gpu, amounts: Sequence[Optional[int]]) -> Optional[int]:
    """MiB in use beyond what known processes hold; None where the GPU gives no figure (MIG, unified memory)."""
    if gpu.memory_used_mib is None:
        return None
    return max(0, gpu.memory_used_mib - sum(amount or 0 for amount in amounts))


def find(reading: GpuReading, world: World, holders: Sequence[Holder], unseen: Sequence[ComputeApp]) -> List[Holder]:
    """Hidden holders: rows without a process here, and memory that nobody explains."""
    found = []
    for app in unseen:
        proof = "nvidia-smi names pid {}, which is no process of this PID namespace that has a GPU open".format(app.pid)
        found.append(_hidden(app.pid, app.name or "", {app.gpu_uuid or "": app.used_mib}, proof, world, holders))
    for gpu in reading.gpus:
        visible = [holder for holder in holders if gpu.uuid in holder.memory]
        if any(holder.compute and holder.memory[gpu.uuid] is None for holder in visible):
            continue                               # it may be theirs: nobody says how much they hold
        amounts = [holder.memory[gpu.uuid] for holder in visible]
        amounts += [app.used_mib for app in unseen if app.gpu_uuid == gpu.uuid]
        if any(app.used_mib is None for app in unseen if app.gpu_uuid == gpu.uuid):
            continue
        missing = unexplained(gpu, amounts)
        if missing is not None and missing >= SLACK_MIB:
            proof = "GPU {} has {} MiB in use that no visible process holds".format(gpu.index, missing)
            found.append(_hidden(0, "", {gpu.uuid: missing}, proof, world, holders))
    return found


def explanations(world: World, holders: Sequence[Holder], xid: Optional[str], falling: Optional[bool] = None) -> Tuple[
        List[str], List[str]]:
    """What was excluded, and what may be the cause. ``xid``: the last Xid error ("" for none, None: not to be read).

    ``falling``: whether the memory in use was still going down when last watched; None: not watched.
    """
    excluded: List[str] = []
    possible: List[str] = []

    def judge(out: Optional[bool], no: str, yes: str) -> None:
        (excluded if out else possible).append(no if out else yes)

    outermost = world.pidns == INITIAL_PIDNS
    judge(outermost, "another PID namespace (this is the outermost one)",
          "a process in another PID namespace: this host is a container, ask its hypervisor")
    mps = any("nvidia-cuda-mps" in process.comm for process in world.processes.values())
    judge(not mps and outermost, "MPS (no server runs)",
          "the MPS server or a client of it" if mps else "MPS outside this system")
    graphics = any(holder.holder_class is HolderClass.SYSTEM and holder.memory for holder in holders)
    judge(not graphics and outermost, "graphics clients (none has a GPU open)",
          "graphics clients" if graphics else "a graphics client outside this system")
    ending = [process.pid for process in world.processes.values() if process.devices and process.state in "DZX"]
    if ending or falling:
        possible.append("a teardown under way" + (" (pid {})".format(ending[0]) if ending else ""))
    elif falling is False:
        excluded.append("a teardown under way (the memory does not fall)")
    if xid is None:
        possible.append("a leak after an Xid error (the kernel log may not be read)")
    else:
        judge(not xid, "a leak after an Xid error (none in the kernel log)", "a leak after {}".format(xid))
    return excluded, possible


def _hidden(pid: int, name: str, memory: "dict[str, Optional[int]]", proof: str, world: World,
            holders: Sequence[Holder]) -> Holder:
    return Holder(
        pid=pid, start=0, pidns=0, user="", argv=(name,) if name else (), cgroup="", memory=memory, compute=True,
        live=True, holder_class=HolderClass.HIDDEN, proof=proof,
    )
