"""What a clean of some scope does with each holder. Pure."""

from __future__ import annotations

from typing import Callable, FrozenSet, List, Optional, Sequence, Set, Tuple

from deployer.protocol import records
from deployer.protocol.cleaned import Act, Treatment
from deployer.protocol.holder import Holder, HolderClass

SCOPES = ("own", "orphans", "all")
_Spare = Callable[[str], Treatment]


@records.dataclass(frozen=True)
class Wish:
    """What is asked for.

    ``unit`` None: every unit of this tool. ``gpus``: UUIDs of those concerned. ``narrow``: what holds none of them is
    left alone, even if it is proven to be of the unit. ``stop``: the unit itself is to be stopped if it runs.
    ``approved``: (pid, start) of what was shown and agreed to; None: nothing had to be.
    """

    scope: str
    unit: Optional[str]
    gpus: FrozenSet[str]
    narrow: bool = False
    stop: bool = False
    approved: Optional[FrozenSet[Tuple[int, int]]] = None


def plan(holders: Sequence[Holder], wish: Wish, restarting: FrozenSet[str] = frozenset()) -> Tuple[Treatment, ...]:
    """A treatment for each holder. ``restarting``: units between two tries of their own."""
    families = _families(holders, wish)
    return tuple(_treat(holder, wish, holder.pid in families, restarting) for holder in holders)


def on_gpus(holder: Holder, wish: Wish) -> bool:
    """Whether it holds, or has open, one of the GPUs concerned."""
    return any(uuid in wish.gpus for uuid in holder.memory)


def _treat(holder: Holder, wish: Wish, family: bool, restarting: FrozenSet[str]) -> Treatment:
    here = on_gpus(holder, wish)
    blocks = here and holder.compute

    def spare(reason: str) -> Treatment:
        return Treatment(holder, Act.SPARE, reason, blocks=blocks)

    if holder.holder_class is HolderClass.SYSTEM:
        return Treatment(holder, Act.SPARE, "the machine's own, never ended: " + holder.proof)
    if holder.holder_class is HolderClass.HIDDEN:
        return spare("cannot be ended from here: " + holder.proof)
    if holder.holder_class is HolderClass.OWN:
        return _own(holder, wish, here, spare, restarting)
    if holder.holder_class is HolderClass.ORPHAN:
        if not family:
            return spare("an orphan that holds none of these GPUs")
        if wish.scope == "own":
            return spare("an orphan: --scope orphans ends it")
        return _end(holder, wish, holder.proof, spare)
    if wish.scope != "all":
        return spare(holder.proof)
    if not blocks:
        return spare("holds no memory of these GPUs")
    return _foreign(holder, wish, spare)


def _own(holder: Holder, wish: Wish, here: bool, spare: _Spare, restarting: FrozenSet[str]) -> Treatment:
    mine = wish.unit is None or holder.unit == wish.unit
    unit = holder.unit or ""
    if unit in restarting and mine and wish.unit:
        return Treatment(holder, Act.STOP_UNIT, "{} restarts again and again: it is stopped".format(unit), unit)
    if holder.live:
        if mine and wish.stop and wish.unit:
            return Treatment(holder, Act.STOP_UNIT, holder.proof, unit)
        if wish.scope == "all" and here and holder.compute:
            return _agreed(holder, wish, Treatment(holder, Act.STOP_UNIT, holder.proof, unit), spare)
        return spare("{} runs".format(unit))
    if not mine and wish.scope == "own":
        return spare("left by {}: clean --unit {} ends it".format(unit, unit))
    if not here and (not mine or (wish.narrow and (holder.memory or not wish.unit))):
        return spare("holds none of these GPUs: " + holder.proof)
    return _end(holder, wish, holder.proof, spare)


def _foreign(holder: Holder, wish: Wish, spare: _Spare) -> Treatment:
    """In scope ``all``: whatever would start it again is stopped, not the process."""
    if holder.container and not holder.container.startswith(("lxc", "machine")):
        if holder.container.startswith("kubernetes"):
            return spare("{}: the kubelet would start it again, delete the pod".format(holder.proof))
        act = Treatment(holder, Act.STOP_CONTAINER, holder.proof, holder.container)
    elif holder.unit and holder.live and not holder.session and not holder.container:
        act = Treatment(holder, Act.STOP_UNIT, holder.proof, holder.unit)
    else:
        act = Treatment(holder, Act.END, holder.proof)
    return _agreed(holder, wish, act, spare)


def _end(holder: Holder, wish: Wish, reason: str, spare: _Spare) -> Treatment:
    act = Treatment(holder, Act.END, reason)
    return _agreed(holder, wish, act, spare) if wish.scope == "all" else act


def _agreed(holder: Holder, wish: Wish, act: Treatment, spare: _Spare) -> Treatment:
    """Only what was shown, and its children, which may have been born since."""
    if wish.approved is None or (holder.pid, holder.start) in wish.approved:
        return act
    if any((parent.pid, parent.start) in wish.approved for parent in holder.parents):
        return act
    return spare("came after the preview: " + holder.proof)


def _families(holders: Sequence[Holder], wish: Wish) -> Set[int]:
    """Pids of orphans that are of one tree with an orphan on the GPUs concerned: SGLang's main process and helpers."""
    orphans = {holder.pid: holder for holder in holders if holder.holder_class is HolderClass.ORPHAN}
    tops = {pid: ([parent.pid for parent in holder.parents if parent.pid in orphans] or [pid])[-1]
            for pid, holder in orphans.items()}
    wanted = {tops[pid] for pid, holder in orphans.items() if on_gpus(holder, wish)}
    return {pid for pid in orphans if tops[pid] in wanted}


def stays(holders: Sequence[Holder], unit: str, scope: str, gpus: FrozenSet[str]) -> List[Holder]:
    """Those that hold memory of ``gpus`` and would do so after a push of ``unit`` that cleans within ``scope``.

    Foreign ones, live units of this tool other than ``unit``, orphans outside the scope, hidden ones; with "none" the
    unit's own leftovers too.
    """
    treatments = plan(holders, Wish(scope if scope in SCOPES else "own", unit, gpus, stop=True))
    left = [treatment.holder for treatment in treatments if treatment.act is Act.SPARE or scope == "none"]
    return [holder for holder in left if holder.compute and gpus & set(holder.memory)
            and holder.holder_class is not HolderClass.SYSTEM
            and not (holder.holder_class is HolderClass.OWN and holder.unit == unit and holder.live)]


def blockers(treatments: Sequence[Treatment]) -> List[Holder]:
    """Holders that stay and hold memory of the GPUs concerned."""
    return [treatment.holder for treatment in treatments if treatment.act is Act.SPARE and treatment.blocks]
