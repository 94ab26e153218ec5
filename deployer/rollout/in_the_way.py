"""Who holds the unit's GPUs and would still hold them after a push had cleaned: findings that stop it. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from deployer.agent.clean.plan import stays
from deployer.protocol.finding import Finding, Level
from deployer.protocol.holder import Holder, HolderClass

KEY = ("gpu", "clean")


def judge(holders: Sequence[Holder], gpus: Mapping[str, int], unit: str, scope: str,
          hypervisor: str | None = None, now: float | None = None) -> Iterator[Finding]:
    """``gpus``: UUID to index of those that the unit uses. ``hypervisor``: where hidden holders will be looked for."""
    for holder in stays(holders, unit, scope, frozenset(gpus)):
        if holder.holder_class is HolderClass.HIDDEN:
            yield _hidden(holder, gpus, hypervisor)
        else:
            yield Finding("foreign-holder", Level.ERROR, f"{_who(holder, now)} holds {_memory(holder, gpus)}: "
                          f"{' '.join(holder.argv)[:80]} ({holder.proof})", key=KEY, hint=_choice(holder, scope))


def _hidden(holder: Holder, gpus: Mapping[str, int], hypervisor: str | None) -> Finding:
    what = f"{_memory(holder, gpus)} in use, and no process that can be seen from the host holds it"
    if hypervisor:
        asked = f"{hypervisor} is asked before anything is stopped"
        return Finding("hidden-holder", Level.NOTE, f"{what}: {asked}", key=KEY)
    return Finding("hidden-holder", Level.ERROR, what, key=KEY, hint="declare the host's hypervisor in hosts.toml, or "
                   "see what deployer clean says of it")


def _who(holder: Holder, now: float | None) -> str:
    whose = holder.container or holder.unit or holder.session or f"user {holder.user}"
    since = ""
    if holder.since:
        minutes = max(0, int(((now or time.time()) - holder.since) / 60))
        since = f", since {minutes // 60} h {minutes % 60} min" if minutes >= 60 else f", since {minutes} min"
    return f"pid {holder.pid} of {whose}{since}"


def _memory(holder: Holder, gpus: Mapping[str, int]) -> str:
    held = {uuid: mib for uuid, mib in holder.memory.items() if uuid in gpus}
    known = [mib for mib in held.values() if mib is not None]
    places = ", ".join(str(gpus[uuid]) for uuid in held) or "?"
    return f"{sum(known):,} MiB on GPU {places}" if known else f"memory on GPU {places}"


def _choice(holder: Holder, scope: str) -> str:
    """What the operator may do about it."""
    if holder.holder_class is HolderClass.ORPHAN and scope in ("own", "none"):
        return "nobody's any more: push with --clean orphans, or deployer clean --scope orphans"
    if holder.holder_class is HolderClass.OWN and not holder.live:
        return f"left over: deployer clean --unit {(holder.unit or '').removesuffix('.service')}"
    if holder.unit and not holder.session and not holder.container:
        return f"stop it (systemctl stop {holder.unit}), or declare other devices"
    end = "deployer clean --scope all shows it and asks before ending it"
    return f"ask its owner, declare other devices, or {end}" if holder.session else f"declare other devices, or {end}"
