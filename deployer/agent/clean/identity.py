"""Whose a process is, with the proof. Pure.

Proof is the control group, the marker variable of a rendered unit, or descent from a process proven by one of them;
never a name. What lives in a unit, a container or a login session belongs to it, whatever it looks like.
"""

from __future__ import annotations

import os
import re
from typing import Optional

from deployer.agent.clean.world import World
from deployer.agent.facts.cgroup import Place
from deployer.agent.facts.process import INVOCATION, MARKER, TICKS, Process
from deployer.protocol import patterns, records
from deployer.protocol.holder import HolderClass

_SYSTEM_PROGRAMS = patterns.compile(
    r"Xorg(?:\.bin)?|Xwayland|X|gnome-shell|kwin_(?:x11|wayland)|gdm-\S+|nvidia-persistenced|nvidia-powerd|nvidia-smi|nvtop|btop"
    r"|nv-hostengine|nv-fabricmanager|nvsm\S*|dcgm-exporter|dcgmi|nvidia_gpu_exporter|node_exporter|prometheus\S*|telegraf"
    r"|netdata|zabbix_agentd?2?|collectd|datadog-agent|nvidia-ctk|nvidia-container-cli|nvidia-device-plugin|nvidia-modprobe"
)
_SYSTEM_UNITS = patterns.compile(
    r"nvidia-(?:persistenced|fabricmanager|powerd|dcgm|imex)\.service|(?:dcgm|nvidia-dcgm|dcgm-exporter)\.service"
    r"|(?:display-manager|gdm3?|lightdm|sddm|xdm)\.service|\S*[-_]exporter\.service"
)
_WRAPPERS = ("sh", "bash", "dash", "zsh", "ash", "nohup", "timeout", "tini", "dumb-init", "numactl", "taskset")
"""What stands around a command and does nothing itself; with a terminal it is somebody at work."""
_SGLANG_PROGRAMS = ("sglang", "sglang-router", "sglang_router")
_SGLANG_SCRIPT = patterns.compile(r"(?:\S*/)?(?:sglang|sglang-router)|\S*/sglang/\S+\.py")
_UNIT_NAME = patterns.compile(r"[A-Za-z0-9:_.@\\-]+\.service")


@records.dataclass(frozen=True)
class Identity:
    """``live``: part of something that runs now. ``unit`` for OWN is the unit that it is proven to be of."""

    holder_class: HolderClass
    proof: str
    live: bool
    place: Place
    unit: Optional[str] = None


def identify(process: Process, world: World) -> Identity:
    """The class of one process and what proves it."""
    place = world.place(process)
    direct = _own_by_cgroup(process, place, world)
    if direct:
        return direct
    system = _system(process, place)
    if system:
        return Identity(HolderClass.SYSTEM, system, True, place, place.unit)
    belongs = _belongs(process, place, world)
    if belongs:
        return Identity(HolderClass.FOREIGN, belongs, True, place, place.unit)
    proven = _own_by_marker(process, place, world) or _own_by_descent(process, place, world)
    return proven or _unowned(process, place, world)


def looks_like_sglang(process: Process) -> bool:
    """Whether title or command line are SGLang's. Never a proof of whose it is."""
    argv = process.argv
    if not argv:
        return process.comm.startswith(("sglang::", "sgl_diffusion::"))
    if argv[0].startswith(("sglang::", "sgl_diffusion::")):
        return True
    for index, word in enumerate(argv):
        if word == "-m" and index + 1 < len(argv):
            return bool(re.fullmatch(r"(?:sglang|sglang_router)(?:\.\S+)?", argv[index + 1]))
    program = os.path.basename(argv[0])
    if program.startswith("python") and len(argv) > 1:
        return bool(_SGLANG_SCRIPT.fullmatch(argv[1]))
    return program in _SGLANG_PROGRAMS


def _own_by_cgroup(process: Process, place: Place, world: World) -> Optional[Identity]:
    if not place.unit or place.session or (place.unit not in world.ours and place.unit != process.marker):
        return None
    state = world.state(place.unit)
    what = "runs in the control group of" if state.live else "was left in the control group of"
    return Identity(HolderClass.OWN, "{} {}".format(what, place.unit), state.live, place, place.unit)


def _system(process: Process, place: Place) -> str:
    """Why it is one of the machine's own: display, driver or monitoring. Being taken for one only ever spares it."""
    if place.unit and _SYSTEM_UNITS.fullmatch(place.unit):
        return "part of {}".format(place.unit)
    program = os.path.basename(process.exe) if process.exe else process.comm
    return "{} serves display, driver or monitoring".format(program) if _SYSTEM_PROGRAMS.fullmatch(program) else ""


def _belongs(process: Process, place: Place, world: World) -> str:
    """Why it is part of a live unit, container or session; empty where it is of none."""
    if place.session:
        return "belongs to login session {} (also while it is closing)".format(place.session)
    if place.container:
        return "runs in {}".format(place.container)
    if place.unit and world.state(place.unit).live:
        return "belongs to {}, which is {}".format(place.unit, world.state(place.unit).active)
    if world.pidns and process.pidns and process.pidns != world.pidns:
        return "runs in a PID namespace of its own, a container of unknown kind"
    return ""


def _own_by_marker(process: Process, place: Place, world: World) -> Optional[Identity]:
    unit = process.marker
    if not unit or not _UNIT_NAME.fullmatch(unit):
        return None
    proof = "its environment has {}={}".format(MARKER, unit)
    state = world.state(unit)
    if not state.live:
        return Identity(HolderClass.OWN, proof, False, place, unit)
    earlier = _earlier(process, world, unit)
    if earlier:
        return Identity(HolderClass.OWN, "{}, {}".format(proof, earlier), False, place, unit)
    return Identity(HolderClass.OWN, "{}, and that unit is {}".format(proof, state.active), True, place, unit)


def _earlier(process: Process, world: World, unit: str) -> str:
    """Why a marked process cannot be of the unit's present run; empty where it may be."""
    state = world.state(unit)
    if any(world.place(parent).unit == unit for parent in world.ancestors(process)):
        return ""
    if process.invocation and state.invocation and process.invocation != state.invocation:
        return "and its {} is that of an earlier start".format(INVOCATION)
    if state.begun and process.start / TICKS < state.begun - 1.0:
        return "and it is older than the unit's present start"
    return ""


def _own_by_descent(process: Process, place: Place, world: World) -> Optional[Identity]:
    for parent in world.ancestors(process):
        where = world.place(parent)
        proven = _own_by_cgroup(parent, where, world)
        if not proven:
            if _belongs(parent, where, world):
                return None
            proven = _own_by_marker(parent, where, world)
        if proven:
            proof = "descends from pid {}, which {}".format(parent.pid, proven.proof)
            return Identity(HolderClass.OWN, proof, proven.live, place, proven.unit)
    return None


def _unowned(process: Process, place: Place, world: World) -> Identity:
    """Orphan: SGLang's processes with all that descends from them, and above the first of them shells alone."""
    def foreign(why: str, live: bool = True) -> Identity:
        return Identity(HolderClass.FOREIGN, why, live, place)

    top = process
    family = looks_like_sglang(process)
    starter: Optional[Process] = None
    for parent in world.ancestors(process):
        belongs = _belongs(parent, world.place(parent), world)
        if belongs:
            return foreign("its parent, pid {}, {}".format(parent.pid, belongs))
        if looks_like_sglang(parent):
            family, starter = True, None
        elif parent.comm not in _WRAPPERS or parent.tty:
            starter = starter or parent
        top = parent
    if starter:
        return foreign("pid {} ({}) started it and runs".format(starter.pid, starter.comm))
    if not world.adopted(top):
        return foreign("was started from outside this system (exec, attach) by what may still run")
    if not family:
        return foreign("nothing proves whose it is", live=False)
    if not process.readable:
        return foreign("looks like SGLang, but may not be looked into without root", live=False)
    left = ", left by {}".format(place.unit) if place.unit else ""
    proof = "SGLang that belongs to no live unit, container or session" + left
    return Identity(HolderClass.ORPHAN, proof, False, place)
