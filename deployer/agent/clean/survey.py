"""One look at the whole: GPUs, processes, and whose each holder is."""

from __future__ import annotations

import os
import time
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

from deployer.agent.clean import hidden, unseen
from deployer.agent.clean.identity import Identity, identify, looks_like_sglang
from deployer.agent.clean.world import World
from deployer.agent.facts.cgroup import root_of
from deployer.agent.facts.gpu import LIMIT, read_gpus
from deployer.agent.facts.holders import Held, held, list_is_complete, uses_cuda
from deployer.agent.facts.process import Process, completed, read, since, snapshot, user_name
from deployer.agent.facts.systemd import states
from deployer.agent.store.releases import BASE
from deployer.protocol import records
from deployer.protocol.codec import Unknown
from deployer.protocol.facts import GpuReading
from deployer.protocol.holder import Holder, HolderClass, Parent
from deployer.protocol.redact import Redactor, mask_argv


@records.dataclass(frozen=True)
class Survey:
    """``holders``: all that hold a GPU, proven leftovers that hold none, and those without a pid: unseen and hidden.

    ``asked``: the seconds that nvidia-smi took.
    """

    reading: GpuReading
    holders: Tuple[Holder, ...]
    world: World
    asked: float = 0.0

    def hidden(self) -> Tuple[Holder, ...]:
        return tuple(holder for holder in self.holders if holder.holder_class is HolderClass.HIDDEN)


def survey(unit: Optional[str] = None, reading: Optional[GpuReading] = None, timeout: float = LIMIT) -> Survey:
    """Looks at this host. ``reading``: one that was just made; else nvidia-smi is asked first.

    A row whose process has just ended would look like one that is hidden, so nvidia-smi is then asked once more.
    """
    given = reading is not None
    begun = time.monotonic()
    now = reading if reading is not None else read_gpus(timeout)
    asked = 0.0 if given else time.monotonic() - begun
    processes = snapshot()
    if held(now, processes)[1] and not given:
        begun = time.monotonic()
        now = read_gpus(timeout)
        asked += time.monotonic() - begun
        processes = snapshot()
    return records.replace(look(now, this_system(processes, unit)), asked=asked)


def this_system(processes: Mapping[int, Process], unit: Optional[str] = None) -> World:
    """This host as a world: the units of all that matters are asked for at once."""
    init = processes.get(1) or read(1)
    world = World(
        processes=processes, units={}, ours=kept_units() | ({unit} if unit else set()),
        root=root_of(init.cgroup) if init else "", pidns=_own_pidns(),
    )
    return records.replace(world, units=states(_units(world)))


def kept_units(store: str = BASE) -> FrozenSet[str]:
    """The units that this tool keeps on this host; none where that may not be read."""
    try:
        return frozenset(name for name in os.listdir(store) if name.endswith(".service"))
    except OSError:
        return frozenset()


def look(reading: GpuReading, world: World) -> Survey:
    """Classifies every holder of ``reading`` and every process proven to be of a unit of this tool."""
    held_by, strange = held(reading, world.processes)
    concerned = _concerned(world, set(held_by))
    full = {pid: completed(world.processes[pid]) for pid in concerned}
    world = records.replace(world, processes={**world.processes, **full})
    identities = {pid: identify(process, world) for pid, process in full.items()}
    compute = _computing(reading, world, held_by, identities)
    holders = [
        make_holder(full[pid], identity, world, held_by.get(pid), pid in compute)
        for pid, identity in sorted(identities.items())
        if pid in held_by or identity.holder_class in (HolderClass.OWN, HolderClass.ORPHAN)
    ]
    holders += unseen.find(world)
    holders += hidden.find(reading, world, holders, strange)
    return Survey(reading, tuple(holders), world)


def make_holder(process: Process, identity: Identity, world: World, what: Optional[Held], compute: bool) -> Holder:
    """The protocol's form of one process; secrets in its command line are masked."""
    place = identity.place
    redact = Redactor().text
    return Holder(
        pid=process.pid, start=process.start, pidns=process.pidns, user=user_name(process.uid),
        argv=mask_argv(process.argv) or ("[{}]".format(process.comm),), cgroup=place.path,
        unit=identity.unit or place.unit,
        container=str(place.container) if place.container else None, session=place.session,
        parents=tuple(Parent(one.pid, one.start, redact(one.command)) for one in world.ancestors(process)),
        memory=dict(what.memory) if what else {}, devices=process.devices, compute=compute, live=identity.live,
        ns_pids=process.ns_pids, state=process.state, since=since(process.start), holder_class=identity.holder_class,
        proof=identity.proof,
    )


def _units(world: World) -> Set[str]:
    """Units whose state decides about somebody."""
    units: Set[str] = set()
    for pid in _concerned(world, {process.pid for process in world.processes.values() if process.devices}):
        process = world.processes[pid]
        for one in (process, *world.ancestors(process)):
            place = world.place(one)
            units.update(name for name in (place.unit, one.marker) if name and not place.session)
    return {unit for unit in units if not unit.startswith("-") and "/" not in unit}


def _concerned(world: World, holding: Set[int]) -> Set[int]:
    """Holders, what bears the marker or lies in a group of a unit of this tool, and all that descends from those.

    The last includes SGLang's own family of an orphaned holder: its parents too.
    """
    chosen = set(holding)
    for process in world.processes.values():
        if process.pid in chosen or process.dead:
            continue
        if process.marker or world.place(process).unit in world.ours or looks_like_sglang(process):
            chosen.add(process.pid)
    children: Dict[int, List[int]] = {}
    for process in world.processes.values():
        children.setdefault(process.ppid, []).append(process.pid)
    left = [pid for pid in chosen if pid != world.init]
    while left:
        for child in children.get(left.pop(), ()):
            if child not in chosen:
                chosen.add(child)
                left.append(child)
    return {pid for pid in chosen if pid in world.processes and pid != os.getpid()}


def _computing(
    reading: GpuReading, world: World, held_by: Mapping[int, Held], identities: Mapping[int, Identity],
) -> Set[int]:
    """Holders of GPU memory: those listed; where the list may be short of some, those with a GPU open as well."""
    listed = {pid for pid, what in held_by.items() if what.listed}
    if list_is_complete(reading, world.pidns):
        return listed
    silent = {
        pid for pid, what in held_by.items()
        if not what.listed and what.memory and identities[pid].holder_class is not HolderClass.SYSTEM
    }
    compute = set(listed)
    for gpu in reading.gpus:
        here = {pid for pid in silent if gpu.uuid in held_by[pid].memory}
        unexplained = hidden.unexplained(gpu, [what.memory.get(gpu.uuid) for what in held_by.values()])
        if unexplained is not None and unexplained < hidden.SLACK_MIB:
            continue
        compute |= {pid for pid in here if uses_cuda(world.processes[pid])} or here
    return compute if reading.gpus else compute | silent | _with_devices(held_by, identities)


def _with_devices(held_by: Mapping[int, Held], identities: Mapping[int, Identity]) -> Set[int]:
    """Where nvidia-smi knows nothing, everything that has a device open, but the machine's own."""
    return {pid for pid in held_by if identities[pid].holder_class is not HolderClass.SYSTEM}


def _own_pidns() -> int:
    me = read(os.getpid())
    return me.pidns if me else 0


def unknown_units(world: World) -> str:
    """Why the units' states are not known; empty where they are."""
    return world.units.reason if isinstance(world.units, Unknown) else ""


def names(holders: Sequence[Holder]) -> str:
    """Several holders in a line of words."""
    return ", ".join("pid {}".format(holder.pid) if holder.pid else "a hidden holder" for holder in holders)
