"""The agent's operations ``gpus`` and ``clean``."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

from deployer.agent.clean import containers
from deployer.agent.clean.hypervisor import container_world, inner_of, pids_inside
from deployer.agent.clean.plan import SCOPES, Wish, plan
from deployer.agent.clean.story import clean as clean_story
from deployer.agent.clean.survey import Survey, look, survey, this_system, unknown_units
from deployer.agent.door import Emit, Refusal, run
from deployer.agent.facts.gpu import read_gpus
from deployer.agent.facts.health_gpu import recent_xids, xid_findings
from deployer.agent.facts.process import snapshot
from deployer.agent.facts.systemd import states
from deployer.agent.store.lock import Held, HostLock
from deployer.agent.store.releases import BASE
from deployer.protocol.cleaned import Act
from deployer.protocol.codec import DecodeError, Unknown, to_plain
from deployer.protocol.facts import GpuReading


def gpus(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """``{}`` -> ``{reading, holders: [{holder, scope, act, reason}], findings, containers, note}``.

    ``scope`` is the narrowest one in which ``clean`` would end the holder; None: it never would.
    """
    now = survey()
    xids = recent_xids()
    return {
        "reading": to_plain(now.reading),
        "holders": _treatments(now),
        "findings": to_plain(xid_findings(xids)) if not isinstance(xids, Unknown) else [],
        "containers": containers.names(one.container for one in now.holders if one.container),
        "root": os.geteuid() == 0,
        "note": unknown_units(now.world),
    }


def clean(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """``{unit, scope, gpus, narrow, stop, dry_run, approved, deadline, …, container, inner}`` -> ``{cleaned, …}``.

    The words of the request are those of ``story.clean``.
    With ``container`` only what is provably inside that container of this machine is
    looked at; ``inner`` is what its own agent told (see ``inner``). Raises Refusal: ``locked``, ``unknown-gpu``, …
    """
    unit = str(data["unit"]) if data.get("unit") else None
    scope = str(data.get("scope") or "own")
    container = str(data.get("container") or "")
    last: List[Survey] = []

    def looking(reading: Optional[GpuReading]) -> Survey:
        last[:] = [_inside(container, data, reading) if container else survey(unit, reading)]
        return last[0]

    def act() -> Dict[str, Any]:
        cleaned = clean_story(
            unit, scope, tuple(str(gpu) for gpu in data.get("gpus") or ()), emit, dry_run=bool(data.get("dry_run")),
            deadline=float(data.get("deadline") or 120.0), grace=float(data.get("grace") or 10.0),
            drain=float(data.get("drain") or 120.0), patience=float(data.get("patience") or 5.0),
            narrow=bool(data.get("narrow")), stop=bool(data.get("stop")), approved=_approved(data), look=looking,
        )
        now = last[0] if last else None
        return {
            "cleaned": to_plain(cleaned), "reading": to_plain(now.reading) if now else None,
            "inner": inner(now) if data.get("tell_inner") and now else None,
        }

    if data.get("dry_run"):
        return act()
    return _locked(act, data, unit)


def inner(now: Survey) -> Dict[str, Any]:
    """What the agent on the hypervisor needs to judge what this one cannot see: units by state, pids that it can."""
    ran = run(["systemctl", "list-units", "--all", "--plain", "--no-legend", "--type=service,scope"], timeout=20)
    names = [line.split()[0] for line in ran.out.splitlines() if line.split()]
    known = states(names)
    return {
        "units": to_plain(known) if not isinstance(known, Unknown) else {},
        "known": not isinstance(known, Unknown), "ours": sorted(now.world.ours),
        "seen": sorted(holder.pid for holder in now.holders if holder.start),
    }


def _inside(container: str, data: Dict[str, Any], reading: Optional[GpuReading]) -> Survey:
    """The container as seen from here, without what its own agent sees and judges itself."""
    try:
        told = inner_of(data.get("inner") or {})
    except (DecodeError, ValueError, TypeError) as error:
        raise Refusal("bad-request", "inner: {}".format(error)) from None
    now = reading if reading is not None else read_gpus()
    processes = snapshot()
    world = container_world(processes, container, told, this_system(processes).root)
    found = look(now, world)
    rest = tuple(one for one in found.holders if one.start and not set(pids_inside([one])) & told.seen)
    return Survey(now, rest, world)


def _treatments(now: Survey) -> List[Dict[str, Any]]:
    uuids = frozenset(gpu.uuid for gpu in now.reading.gpus) | {uuid for one in now.holders for uuid in one.memory}
    by_scope = [(scope, plan(now.holders, Wish(scope, None, uuids))) for scope in SCOPES]
    found = []
    for index, holder in enumerate(now.holders):
        first = by_scope[0][1][index]
        scope, treatment = next(
            ((scope, treatments[index]) for scope, treatments in by_scope if treatments[index].act is not Act.SPARE),
            (None, first),
        )
        found.append({"holder": to_plain(holder), "scope": scope, "act": treatment.act.value, "reason": first.reason})
    return found


def _approved(data: Dict[str, Any]) -> Optional[FrozenSet[Tuple[int, int]]]:
    pairs = data.get("approved")
    return None if pairs is None else frozenset((int(pid), int(start)) for pid, start in pairs)


def _locked(act: Callable[[], Dict[str, Any]], data: Dict[str, Any], unit: Optional[str]) -> Dict[str, Any]:
    """Under the host's lock: a push cleans too. Raises Refusal ``locked``."""
    if os.geteuid() != 0:
        raise Refusal("not-root", "ending other accounts' processes needs root on the host")
    os.makedirs(BASE, mode=0o700, exist_ok=True)
    try:
        note = {"who": str(data.get("who") or ""), "source": str(data.get("source") or "")}
        with HostLock(BASE, unit=unit or "", number=0, act="clean", **note):
            return act()
    except Held as held:
        raise Refusal("locked", "another push or clean holds the lock of this host", holder=held.note) from None
