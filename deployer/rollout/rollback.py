"""Bringing an earlier release back: a push like any other, of files that the host still has."""

from __future__ import annotations

from typing import Any

from deployer.errors import RefusedError
from deployer.protocol.finding import Finding, Level
from deployer.protocol.outcome import Outcome
from deployer.protocol.records import replace
from deployer.rollout.contact import Contact, operator
from deployer.rollout.report import from_result, refused
from deployer.rollout.view import Report

SERVED = ("done", "found", "replaced")


def rollback(contact: Contact, unit: str, to: int | None, *, overwrite_drift: bool = False) -> Report:
    """Goes back to release ``to``, or to the one that served before the current. Raises HostError, LockedError."""
    host = contact.host.name
    contact.turn()
    survey = contact.ask_facts(unit)
    if survey.facts.transaction:
        contact.put_right_first(survey.facts.transaction)
        survey = contact.ask_facts(unit)
    facts = survey.facts.unit
    look = f"deployer history {host} -u {unit.removesuffix('.service')}"
    if facts.drift and not overwrite_drift:
        asked = look.replace("history", "rollback", 1) + (f" --to {to}" if to is not None else "")
        again = f"{asked} --overwrite-drift discards it; {look.replace('history', 'diff', 1)} shows it"
        return refused(host, unit, tuple(
            Finding(entry.code, Level.ERROR, entry.message, hint="add --overwrite-drift to discard it")
            for entry in facts.drift), again=again)
    target = to if to is not None else previous(list(facts.releases), facts.current)
    if target is None:
        raise RefusedError(f"there is no earlier release of {unit} that served", hint=look)
    if target == facts.current and to is None:
        raise RefusedError(f"release {target} is the current one", hint=look)
    if not any(entry.get("number") == target for entry in facts.releases):
        raise RefusedError(f"{unit} has no release {target}", hint=look)
    staged = contact.call("stage-copy", {
        "unit": unit, "number": target, "overwrite_drift": overwrite_drift, **operator()})
    number = int(staged["number"])
    contact.view.tell(host, "plan", {"unit": unit, "changes": f"back to release {target}, as release {number}"})
    report = from_result(host, unit, contact.transact(unit, number))
    if report.outcome is not Outcome.DONE:
        return report
    return replace(report, text=f"release {target} serves again, as release {number}",
                   data={**report.data, "word": "rolled back"})


def previous(releases: list[dict[str, Any]], current: int | None) -> int | None:
    """The newest release before the current one that served and is not a copy of it."""
    now = next((entry for entry in releases if entry["number"] == current), {})
    shown = now.get("copy_of") if now.get("copy_of") is not None else current
    older = [entry["number"] for entry in releases
             if entry["outcome"] in SERVED and entry["number"] != current
             and entry.get("copy_of") is None and (shown is None or entry["number"] < shown)]
    return max(older, default=None)
