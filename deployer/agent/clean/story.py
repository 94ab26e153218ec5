"""Cleaning, in its order: look, plan, stop what would restart, end, wait for the memory, look again."""

from __future__ import annotations

import time
from typing import Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from deployer.agent.clean import containers, wait
from deployer.agent.clean.group import end_group, group_of
from deployer.agent.clean.held import held_memory
from deployer.agent.clean.identity import identify
from deployer.agent.clean.ladder import GRACE, Ladder, stop_unit
from deployer.agent.clean.plan import SCOPES, Wish, blockers, plan, stays
from deployer.agent.clean.survey import Survey, survey, unknown_units
from deployer.agent.clean.unseen import stopped
from deployer.agent.door import Emit, Refusal
from deployer.agent.facts.gpu import chosen, unknown_selectors
from deployer.agent.facts.process import lives, read
from deployer.protocol import records
from deployer.protocol.cleaned import Act, Cleaned, Ended, HeldMemory, Treatment
from deployer.protocol.codec import Unknown, to_plain
from deployer.protocol.facts import GpuReading
from deployer.protocol.holder import Holder, HolderClass

Look = Callable[[Optional[GpuReading]], Survey]
_ROUNDS = 3
_GENTLE = 2
_LOOKS = 5
"""Looks with newcomers after which they get SIGKILL at once, and after which their group is ended as a whole."""

RESPAWN = 0.5
"""Seconds that a living parent of what was ended is given to start it again: a shell's loop takes a few ms."""


@records.dataclass(frozen=True)
class Limits:
    """Seconds: for the whole, for SGLang to end by itself, for a unit to drain, and for memory that does not fall."""

    deadline: float = 120.0
    grace: float = GRACE
    drain: float = 120.0
    patience: float = 20.0


def clean(
    unit: Optional[str], scope: str, gpus: Sequence[str], emit: Emit, *, dry_run: bool = False, deadline: float = 120.0,
    grace: float = GRACE, drain: float = 120.0, patience: float = 20.0, stop: bool = False, narrow: bool = False,
    approved: Optional[FrozenSet[Tuple[int, int]]] = None, look: Optional[Look] = None,
) -> Cleaned:
    """Ends stale holders of ``gpus`` (indices or UUIDs; none: all) and waits until their memory is free.

    ``scope``: "none", "own" (of ``unit``; None: of any unit of this tool), "orphans" or "all". A unit that runs is
    spared, and with it all that is its own; with ``stop`` it is stopped first. ``narrow``, ``approved``: see ``Wish``.
    Times in seconds; after ``deadline`` it ends and tells what is still held. Events: ``preview``, ``signal``,
    ``ended``, ``progress``, ``free``. Raises Refusal for a scope or a GPU that does not exist.
    """
    if scope == "none":
        return Cleaned()
    if scope not in SCOPES:
        raise Refusal("unknown-scope", "no scope {!r}: own, orphans or all".format(scope))
    job = _Clean(look or (lambda reading: survey(unit, reading)), emit, Limits(deadline, grace, drain, patience))
    wish = job.wish(Wish(scope, unit, frozenset(), narrow, stop, approved), gpus)
    return job.preview(wish) if dry_run else job.run(wish)


def foreign_on(gpus: Sequence[str], unit: str, scope: str = "own") -> List[Holder]:
    """Holders of memory of ``gpus`` (none: all) that a push of ``unit`` with ``scope`` would leave: see ``stays``."""
    now = survey(unit)
    return stays(now.holders, unit, scope, frozenset(gpu.uuid for gpu in chosen(now.reading.gpus, gpus)))


class _Clean:
    """One clean. ``now`` is the latest survey."""

    def __init__(self, look: Look, emit: Emit, limits: Limits) -> None:
        self._look = look
        self._emit = emit
        self._limits = limits
        self._begun = time.monotonic()
        self._limit = self._begun + limits.deadline
        self.now = look(None)
        self._asked = self.now.asked
        self._first = self.now.reading
        self._ended: List[Ended] = []
        self._errors: List[str] = [error.words for error in self._first.errors]
        self._waited = 0.0

    def wish(self, wish: Wish, gpus: Sequence[str]) -> Wish:
        """With the GPUs' UUIDs; raises Refusal for one that is not there, unless nvidia-smi knows none at all."""
        reading = self._first
        unknown = unknown_selectors(reading.gpus, gpus) if reading.gpus else ()
        if unknown:
            raise Refusal("unknown-gpu", "no GPU {} on this host".format(", ".join(unknown)),
                          gpus=[gpu.index for gpu in reading.gpus])
        return records.replace(wish, gpus=frozenset(gpu.uuid for gpu in chosen(reading.gpus, gpus) if gpu.uuid))

    def preview(self, wish: Wish) -> Cleaned:
        """What would be done."""
        treatments = self._plan(wish)
        return self._result(treatments, treatments, (), wish)

    def run(self, wish: Wish) -> Cleaned:
        planned = treatments = self._plan(wish)
        self._emit("preview", {"treatments": to_plain(treatments)})
        stuck: List[Tuple[Holder, str]] = []
        left: wait.Waited = wait.Waited(self._first, (), 0.0, False)
        for _ in range(_ROUNDS):
            idle = all(treatment.act is Act.SPARE for treatment in treatments)
            if idle and not self._unexplained(wish):
                break
            stuck = self._end(treatments, wish)
            left = self._wait(wish)
            treatments = self._second_look(left.reading, wish)
            known = {(holder.pid, holder.start) for holder, _ in stuck}
            fresh = [t for t in treatments if t.act is not Act.SPARE and (t.holder.pid, t.holder.start) not in known]
            if not fresh or time.monotonic() >= self._limit:
                break
        known = {(holder.pid, holder.start) for holder, _ in stuck}
        again = [treatment.holder for treatment in treatments
                 if treatment.act is Act.END and (treatment.holder.pid, treatment.holder.start) not in known]
        held = held_memory(self.now, left, stuck, again, wish, time.monotonic() >= self._limit)
        return self._result(planned, treatments, held, wish)

    def _second_look(self, reading: GpuReading, wish: Wish) -> Tuple[Treatment, ...]:
        """Whoever came meanwhile, or is started again: a parent that outlives what was ended has a moment to do so."""
        until = min(self._limit, time.monotonic() + RESPAWN) if self._outlived() else 0.0
        while True:
            self.now = self._look(reading)
            treatments = self._plan(wish)
            if time.monotonic() >= until or any(treatment.act is not Act.SPARE for treatment in treatments):
                return treatments
            time.sleep(0.1)

    def _outlived(self) -> bool:
        return any(lives(one.holder.parents[0].pid, one.holder.parents[0].start) for one in self._ended
                   if one.holder.parents)

    def _plan(self, wish: Wish) -> Tuple[Treatment, ...]:
        world = self.now.world
        units = {} if isinstance(world.units, Unknown) else world.units
        return plan(self.now.holders, wish, frozenset(name for name, state in units.items() if state.restarting))

    def _unexplained(self, wish: Wish) -> bool:
        """Memory that nobody visible holds: a teardown may be under way, of a unit that was stopped just before."""
        return any(uuid in wish.gpus for holder in self.now.hidden() for uuid in holder.memory)

    def _end(self, treatments: Sequence[Treatment], wish: Wish) -> List[Tuple[Holder, str]]:
        """Stops units and containers, then ends processes until there are none left that should; the stuck ones."""
        self._stop_whole(treatments)
        ladder = Ladder(self._emit, self._limits.grace)
        looks = 0
        try:
            while True:
                wanted = [one for one in treatments if one.act is Act.END and one.holder.pid]
                groups = [one.holder for one in treatments if one.act is Act.END and not one.holder.pid]
                for group in groups:
                    self._end_group(group.cgroup, group)
                # Those that come after the second look were brought forth by what was told to end: no more of that.
                came = [ladder.add(one.holder, self._still, gently=looks < _GENTLE) for one in wanted]
                came.append(bool(groups))
                looks += any(came)
                if time.monotonic() >= self._limit or not (ladder.pending or any(came)):
                    break
                ladder.climb(self._limit)
                if looks > _LOOKS:
                    self._end_groups(wanted)
                if looks > 4 * _LOOKS:
                    break
                self.now = self._look(self.now.reading)
                treatments = self._plan(wish)
        finally:
            self._ended += ladder.ended
            stuck = ladder.stuck()
            ladder.close()
        return stuck

    def _end_groups(self, treatments: Sequence[Treatment]) -> None:
        """Of what goes on forking: the whole group, where it is that of a unit that does not run."""
        groups: Dict[str, Holder] = {}
        for one in treatments:
            process = self.now.world.processes.get(one.holder.pid)
            unit = one.holder.unit
            if process and unit and self.now.world.place(process).unit == unit and not self.now.world.contained:
                groups[group_of(process.cgroup, unit)] = one.holder
        for path, holder in groups.items():
            self._end_group(path, holder)

    def _end_group(self, path: str, holder: Holder) -> None:
        how = end_group(path) if stopped(holder.unit or "") else ""
        if how:
            self._ended.append(Ended(holder, how))
            self._emit("ended", {"pid": holder.pid, "start": holder.start, "how": how, "seconds": 0.0,
                                 "unit": holder.unit})

    def _stop_whole(self, treatments: Sequence[Treatment]) -> None:
        for act, stop in ((Act.STOP_UNIT, self._stop_unit), (Act.STOP_CONTAINER, self._stop_container)):
            targets: Dict[str, List[Holder]] = {}
            for treatment in treatments:
                if treatment.act is act:
                    targets.setdefault(treatment.target, []).append(treatment.holder)
            for target, holders in targets.items():
                begun = time.monotonic()
                how, problem = stop(target)
                if problem:
                    self._errors.append(problem)
                    continue
                seconds = round(time.monotonic() - begun, 3)
                for holder in holders:
                    self._ended.append(Ended(holder, how, seconds))
                    self._emit("ended", {"pid": holder.pid, "start": holder.start, "how": how, "seconds": seconds})
            if targets:
                self.now = self._look(self.now.reading)

    def _stop_unit(self, unit: str) -> Tuple[str, str]:
        return "systemctl stop {}".format(unit), stop_unit(unit, self._limits.drain, self._emit, self._limit)

    def _stop_container(self, container: str) -> Tuple[str, str]:
        how = "{} stop".format(container.partition(" ")[0])
        return how, containers.stop(container, self._limit - time.monotonic())

    def _still(self, holder: Holder) -> bool:
        """Just before the signal: the same process, with the same identity as when it was planned."""
        process = read(holder.pid)
        world = self.now.world
        seen = world.processes.get(holder.pid)
        if process is None or seen is None or process.start != holder.start:
            return False
        # Its parent may be among those just ended: the descent that was seen is what counts.
        process = records.replace(process, ppid=seen.ppid)
        identity = identify(process, world)
        return identity.holder_class is holder.holder_class and identity.live == holder.live

    def _wait(self, wish: Wish) -> wait.Waited:
        ended = {one.holder.pid for one in self._ended}
        concerned = wish.gpus | {uuid for one in self._ended for uuid in one.holder.memory}
        staying = [holder for holder in self.now.holders
                   if holder.compute and holder.pid not in ended and holder.holder_class is not HolderClass.HIDDEN]
        silent = {uuid for holder in staying for uuid, mib in holder.memory.items() if mib is None}
        waited = wait.until_free(
            frozenset(concerned), frozenset(holder.pid for holder in staying), frozenset(silent), self._emit,
            limit=self._limit, patience=self._limits.patience,
        )
        self._waited += waited.seconds
        if not waited.answered:
            self._errors.append("nvidia-smi does not answer: whether the memory is free could not be watched")
        elif not waited.left:
            self._emit("free", {"seconds": round(waited.seconds, 3)})
        return waited

    def _result(
        self, planned: Sequence[Treatment], last: Sequence[Treatment], held: Sequence[HeldMemory], wish: Wish,
    ) -> Cleaned:
        unknown = unknown_units(self.now.world)
        spared = tuple(treatment for treatment in last if treatment.act is Act.SPARE)
        return Cleaned(
            ended=tuple(self._ended), spared=spared, held=tuple(held), planned=tuple(planned),
            errors=tuple(self._errors + ([unknown] if unknown else [])), foreign=tuple(blockers(spared)),
            seconds=round(time.monotonic() - self._begun, 3), asked=round(self._asked, 3),
            waited=round(self._waited, 3),
            freed_mib=wait.freed(self._first, self.now.reading, tuple(wish.gpus)),
        )
