"""What serves on this host, and how it does: all units of the tool at one glance."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional

from deployer.agent.clean.survey import Survey, survey
from deployer.agent.door import Emit
from deployer.agent.facts.unit import public, show, unit_facts
from deployer.agent.store.releases import Store
from deployer.agent.transact.operations import last_result, transaction_facts
from deployer.protocol.codec import to_plain


def status(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """``{units}`` (empty: all that have a release here) -> ``{units: [...], transaction, systemd}``.

    ``systemd``: whether it runs this machine, sd_booted(3).
    """
    store = Store()
    asked: List[str] = [str(unit) for unit in data.get("units", ())]
    names = sorted({*store.units(), *asked})
    names = [name for name in names if name.endswith(".service")]
    with ThreadPoolExecutor(max_workers=8) as pool:
        looking = pool.submit(survey)
        rows = list(pool.map(lambda name: _row(store, name), names))
        looked = looking.result()
    for row in rows:
        row["gpu_memory_mib"] = _memory(looked, str(row["unit"]))
    booted = os.path.isdir("/run/systemd/system")
    return {"units": rows, "transaction": to_plain(transaction_facts(store)), "systemd": booted}


def _row(store: Store, unit: str) -> Dict[str, Any]:
    facts = unit_facts(store, unit)
    current = store.current(unit)
    state = facts.state or show(unit)
    expectations = store.expectations(unit, current.number) if current else None
    return {
        "unit": unit, "active": state.get("ActiveState", "unknown"), "sub": state.get("SubState", ""),
        "result": state.get("Result", ""), "restarts": state.get("NRestarts", ""),
        "since": state.get("ActiveEnterTimestamp") or state.get("StateChangeTimestamp", ""),
        "release": public(current) if current else None, "drift": to_plain(facts.drift),
        "health": _health(store, unit, current.number) if current and state.get("ActiveState") == "active" else None,
        "port": expectations.port if expectations else None, "last": last_result(store, unit),
    }


def _health(store: Store, unit: str, number: int) -> Dict[str, Any]:
    """One question to the running server: ``{healthy, text, tokens}``."""
    from deployer.agent.transact.glance import glance

    return dict(glance(store.expectations(unit, number), store.secrets(unit, number)))


def _memory(looked: Survey, unit: str) -> Optional[int]:
    """MiB that processes of the unit hold on all GPUs; None where it is not known."""
    held = [memory for holder in looked.holders if holder.unit == unit for memory in holder.memory.values()]
    if any(memory is None for memory in held) or (looked.reading.errors and not held):
        return None
    return sum(memory or 0 for memory in held)
