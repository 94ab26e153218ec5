"""What a client may ask about releases and transactions."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional

from deployer.agent.door import Emit, Refusal
from deployer.agent.store import events as event_files
from deployer.agent.store import files, lock
from deployer.agent.store import record as records
from deployer.agent.store.lines import read_lines
from deployer.agent.store.releases import Manifest, Store, decoded_files
from deployer.agent.transact import detach
from deployer.agent.transact.context import abort_path
from deployer.protocol.codec import from_plain, to_plain
from deployer.protocol.expectations import Expectations
from deployer.protocol.facts import TransactionFacts
from deployer.protocol.message import RESULT

POLL, POLL_LATER = 0.02, 0.08
"""Seconds between two looks at the event file: part of what an operator feels as lag."""


def stage(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """Stores a release: ``{unit, digest, base, files, expectations, secrets, who, source, …}`` -> ``{number}``."""
    store = Store()
    stored, contents = decoded_files(data["files"])
    manifest = Manifest(
        unit=data["unit"], number=-1, digest=data["digest"], files=stored, kind=data.get("kind", "push"),
        base=data.get("base", ""), who=data.get("who", ""), source=data.get("source", ""),
        scope=data.get("scope", "own"), overwrite_drift=bool(data.get("overwrite_drift")),
        identity=dict(data.get("identity") or {}), argv=tuple(data.get("argv", ())),
    )
    try:
        manifest = store.stage(manifest, contents, from_plain(Expectations, data["expectations"]),
                               dict(data.get("secrets") or {}))
    except OSError as error:
        raise Refusal("cannot-stage", "the release cannot be stored under {}: {}".format(store.base, error)) from error
    return {"number": manifest.number}


def stage_copy(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """Stages an earlier release anew, secrets included, so that going back is a push: ``{unit, number}``."""
    store = Store()
    unit, number = data["unit"], int(data["number"])
    try:
        old = store.manifest(unit, number)
        contents = [store.data(old, index) for index in range(len(old.files))]
    except (OSError, ValueError) as error:
        text = "release {} of {} cannot be brought back: {}".format(number, unit, error)
        raise Refusal("no-such-release", text) from error
    current = store.current(unit)
    base = current.digest if current else ""
    manifest = Manifest(
        unit=unit, number=-1, digest=old.digest, files=old.files, kind="rollback", base=base,
        who=data.get("who", ""), source=data.get("source", ""), scope=old.scope, copy_of=number,
        overwrite_drift=bool(data.get("overwrite_drift")), identity=old.identity, argv=old.argv, enabled=old.enabled,
    )
    staged = store.stage(manifest, contents, store.expectations(unit, number), store.secrets(unit, number))
    return {"number": staged.number, "digest": staged.digest}


def transact(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """Starts (or, after an interruption, enters again) the transaction of ``{unit, number}``."""
    unit, number = data["unit"], int(data["number"])
    store = Store()
    note = lock.holder(store.base)
    if note is not None and (note.get("unit"), note.get("number")) != (unit, number):
        store.discard(unit, number)
        raise Refusal("locked", "another push holds the lock of this host", holder=note)
    if note is not None:
        return {"transient": "", "after": 0}
    # Entered again after it had ended once: what it said then is not what it comes to now.
    said = read_lines(store.events_path(unit, number))
    after = max((int(line.get("seq", 0)) for line in said if line.get("event") == RESULT), default=0)
    return {"transient": detach.detach(unit, number), "after": after}


def follow(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """Passes on the events of ``{unit, number, after}`` until the result, or until the transaction is gone."""
    store = Store()
    unit, number = data["unit"], int(data["number"])
    quiet_since = time.monotonic()
    for batch in event_files.follow(store.events_path(unit, number), int(data.get("after", 0))):
        for event in batch:
            emit("relay", {"event": to_plain(event)})
        if event_files.ended(batch):
            return {"ended": True}
        if batch:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > 3.0:
            # Nothing for a while: a transaction without a process will never say more.
            if not detach.running(unit, number):
                return {"ended": False}
            quiet_since = time.monotonic()
            emit("alive", {})
        time.sleep(POLL if time.monotonic() - quiet_since < 1.0 else POLL_LATER)
    return {"ended": False}


def abort(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """Asks the transaction of ``{unit, number}`` to roll back."""
    store = Store()
    path = abort_path(store, data["unit"], int(data["number"]))
    try:
        files.write(path, b"", 0o600)
    except OSError as error:
        raise Refusal("cannot-abort", "{}".format(error)) from error
    return {}


def history(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """The releases of ``{unit}``, oldest first, without anything secret."""
    store = Store()
    current = store.current(data["unit"])
    return {"current": current.number if current else None,
            "releases": [public(manifest) for manifest in store.manifests(data["unit"])]}


def last_result(store: Store, unit: str) -> Optional[Dict[str, Any]]:
    """How the newest transaction of a unit ended, if it did."""
    for number in reversed(store.numbers(unit)):
        for line in reversed(read_lines(store.events_path(unit, number))):
            if line.get("event") == RESULT:
                return dict(line.get("data") or {}, at=line.get("at"))
    return None


def transaction_facts(store: Store) -> Optional[TransactionFacts]:
    """The transaction that runs, or the one that was interrupted and must be undone first."""
    note = lock.holder(store.base)
    if note is not None and "unit" in note:
        return TransactionFacts(
            id="{}/{}".format(note["unit"], note.get("number")), unit=note["unit"], number=int(note.get("number", 0)),
            step=str(note.get("step", "")), since=float(note.get("since", 0.0)), who=str(note.get("who", "")),
            source=str(note.get("source", "")), running=True,
        )
    for unit in store.units():
        left = records.read(store.record_path(unit))
        if left and not left.ended:
            return TransactionFacts(id="{}/{}".format(unit, left.number), unit=unit, number=left.number, step=left.step,
                                    since=left.since, who=left.who, source=left.source, running=False)
    return None


def public(manifest: Manifest) -> Dict[str, Any]:
    from deployer.agent.facts import unit as unit_facts

    return dict(unit_facts.public(manifest))




def transaction(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """Which transaction runs, or was interrupted: ``{transaction}``, null for none."""
    return {"transaction": to_plain(transaction_facts(Store()))}
