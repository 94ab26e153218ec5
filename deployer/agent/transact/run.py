"""The one door into a transaction: ``(unit, number)`` and what is on the disk.

It runs in a transient unit of its own. When it is killed, systemd starts it once more, and it reads from the record
what it was doing: then it undoes that first (or finishes it, when the new release had been found good).
"""

from __future__ import annotations

import time
from typing import Any, Dict, Optional

from deployer.agent.facts.unit import show
from deployer.agent.store import record as records
from deployer.agent.store.events import EventFile
from deployer.agent.store.lock import Held, HostLock
from deployer.agent.store.record import Interrupted, Record
from deployer.agent.store.releases import Manifest, Store
from deployer.agent.transact import manager, steps
from deployer.agent.transact.context import Context, StepFailed
from deployer.agent.transact.found import ACTIVE, find
from deployer.agent.transact.push import keep, push
from deployer.agent.transact.report import report
from deployer.agent.transact.rollback import roll_back
from deployer.protocol.message import RESULT
from deployer.protocol.outcome import Outcome, blocks
from deployer.protocol.redact import Redactor


def transact(unit: str, number: int, store: Optional[Store] = None) -> int:
    """Runs or recovers the transaction; its exit status says only whether it came to an end it could tell."""
    store = store or Store()
    events = _events(store, unit, number)
    try:
        manifest = store.manifest(unit, number)
        with HostLock(store.base, who=manifest.who, source=manifest.source, unit=unit, number=number) as lock:
            data = _under_lock(store, manifest, lock, events)
    except Held as held:
        data = {"outcome": Outcome.LOCKED.value, "unit": unit, "release": number, "holder": held.note,
                "state_now": "nothing was changed on the host", "reason": str(held)}
        _give_up(store, unit, number, Outcome.LOCKED)
    except (OSError, ValueError) as error:
        data = _fault(store, unit, number, str(error))
    events.emit(RESULT, data)
    events.close()
    return 0


def _give_up(store: Store, unit: str, number: int, outcome: Outcome) -> None:
    """A release that never got its turn: only the story of it stays. Not when it is the one that holds the lock."""
    left = records.read(store.record_path(unit))
    if left and left.number == number:
        return
    try:
        store.update(store.manifest(unit, number), outcome=outcome.value, ended=time.time())
        store.strip(unit, number)
    except (OSError, ValueError):
        pass


def _fault(store: Store, unit: str, number: int, reason: str) -> Dict[str, Any]:
    """What the store itself could not do. Whether anything was changed, the record knows."""
    left = records.read(store.record_path(unit))
    if left and left.number == number and left.touched and not left.ended:
        return {"outcome": Outcome.FAILED.value, "unit": unit, "release": number, "reason": reason, "code": "cut-off",
                "state_now": "cut off in the step {}; the next push or attach puts it right".format(left.step)}
    return {"outcome": Outcome.REFUSED.value, "unit": unit, "release": number, "reason": reason,
            "state_now": "nothing was changed on the host", "code": "store-damaged"}


def _under_lock(store: Store, manifest: Manifest, lock: HostLock, events: EventFile) -> Dict[str, Any]:
    owed = False
    for unit in store.units():
        interrupted = records.read(store.record_path(unit))
        if interrupted and not interrupted.ended:
            if (unit, interrupted.number) == (manifest.unit, manifest.number):
                return recover(store, interrupted, lock, events)
            events.emit("recovery", {"unit": unit, "release": interrupted.number, "step": interrupted.step})
            said = _recover_another(store, interrupted, lock)
            if blocks(said):
                _give_up(store, manifest.unit, manifest.number, Outcome.REFUSED)
                return {"outcome": Outcome.REFUSED.value, "unit": manifest.unit, "release": manifest.number,
                        "reason": "an interrupted push cannot be put right: {}".format(said.get("state_now")),
                        "state_now": "this push changed nothing", "code": "not-put-right"}
            owed = owed or (bool(said.get("unfinished")) and unit == manifest.unit)
    return _fresh(store, manifest, lock, events, owed)


def _fresh(store: Store, manifest: Manifest, lock: HostLock, events: EventFile, owed: bool) -> Dict[str, Any]:
    """``owed``: the unit should be running, though it is not."""
    state = show(manifest.unit)
    enabled = manager.is_enabled(manifest.unit)
    current = store.current(manifest.unit)
    # A unit that was found is looked at again each time: it is not the tool's, and may have changed since.
    previous = current if current and current.kind != "found" else find(store, manifest.unit, enabled)
    record = Record(store.record_path(manifest.unit))
    context = Context(store, manifest.unit, manifest, previous, record, lock, events.emit,
                      was_active=owed or state.get("ActiveState") in ACTIVE, was_enabled=enabled)
    record.begin(unit=manifest.unit, number=manifest.number, previous=previous.number if previous else None,
                 was_active=context.was_active, was_enabled=enabled, who=manifest.who, source=manifest.source)
    data = push(context)
    _end(context, data)
    return data


def recover(store: Store, interrupted: Interrupted, lock: HostLock, events: EventFile) -> Dict[str, Any]:
    """Finishes the undo of an interrupted transaction, or its keeping when every gate had passed."""
    manifest = store.manifest(interrupted.unit, interrupted.number)
    previous = None if interrupted.previous is None else store.manifest(interrupted.unit, interrupted.previous)
    record = Record(store.record_path(interrupted.unit))
    record.resume()
    context = Context(store, interrupted.unit, manifest, previous, record, lock, events.emit,
                      was_active=interrupted.was_active, was_enabled=interrupted.was_enabled,
                      step_now=interrupted.step)
    cut_off = StepFailed("the push was cut off in the step {}".format(interrupted.step or "preflight"), code="cut-off")
    if not interrupted.touched:
        steps.leave(context)
        data = report(context, Outcome.INTERRUPTED, cut_off)
    elif interrupted.kept:
        context.figures = dict(manifest.figures)
        data = keep(context)
    else:
        data = roll_back(context, cut_off)
    _end(context, data)
    return data


def _recover_another(store: Store, interrupted: Interrupted, lock: HostLock) -> Dict[str, Any]:
    """Another interrupted transaction, told in its own events, so that its operator can still read it."""
    events = _events(store, interrupted.unit, interrupted.number)
    try:
        data = recover(store, interrupted, lock, events)
    except (OSError, ValueError) as error:
        data = {"outcome": Outcome.FAILED.value, "unit": interrupted.unit,
                "reason": "cannot be recovered: {}".format(error)}
        Record(store.record_path(interrupted.unit)).begin(unit=interrupted.unit, number=interrupted.number)
    events.emit(RESULT, data)
    events.close()
    return data


def _end(context: Context, data: Dict[str, Any]) -> None:
    outcome = str(data["outcome"])
    if context.unfinished:
        return
    if outcome in (Outcome.REFUSED.value, Outcome.INTERRUPTED.value):
        context.store.update(context.release, outcome=outcome, ended=time.time())
        context.store.strip(context.unit, context.release.number)
    try:
        context.record.end(outcome)
    except OSError:
        pass


def _events(store: Store, unit: str, number: int) -> EventFile:
    events = EventFile(store.events_path(unit, number), Redactor(store.secrets(unit, number).values()))
    try:
        events.resume()
    except FileNotFoundError:
        events.create()
    return events
