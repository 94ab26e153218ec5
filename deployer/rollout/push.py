"""The story of a push, as seen from the operator's machine. The host finishes alone what it has begun."""

from __future__ import annotations

import base64
from typing import Any

from deployer.protocol.codec import from_plain, to_plain
from deployer.protocol.finding import Finding, Level, in_order
from deployer.protocol.outcome import Outcome
from deployer.protocol.records import dataclass, replace
from deployer.rollout import drift, hooks, identity, own_release, preflight
from deployer.rollout import secrets as secret_room
from deployer.rollout.changes import Changes, changes
from deployer.rollout.clean import free_hidden
from deployer.rollout.contact import Contact, Survey, operator
from deployer.rollout.report import from_result, refused
from deployer.rollout.secrets import Secrets
from deployer.rollout.units import Declared
from deployer.rollout.verify import reached, verify_now
from deployer.rollout.view import Report

FRESH = 5.0
"""Seconds for which what was seen of a host will do; one that waited longer for its turn is looked at again."""


@dataclass(frozen=True)
class Options:
    dry_run: bool = False
    overwrite_drift: bool = False
    scope: str | None = None
    restart: bool = False


def push(contact: Contact, declared: Declared, secrets: Secrets, options: Options) -> Report:
    """Brings one unit on one host to what is declared. Raises HostError, LockedError."""
    settings, view, name = declared.settings, contact.view, contact.host.name
    survey = contact.survey(settings, declared.release, secrets)
    if survey.facts.transaction and not options.dry_run:
        contact.put_right_first(survey.facts.transaction)
        survey = contact.survey(settings, declared.release, secrets)
    todo = changes(declared.release, survey.facts, survey.secrets_differ)
    findings = preflight.judge(settings, declared.release, survey.facts, overwrite_drift=options.overwrite_drift,
                               scope=options.scope, hypervisor=_hypervisor(contact))
    examined: dict[str, Any] = {}
    if todo or options.restart:
        examined = examine(contact, declared)
        findings += _placed(declared, examined)
        findings += own_release.judge(contact, settings, survey.facts)
        findings += identity.changed(survey.facts, examined.get("identity") or {})
    findings = in_order([*declared.findings, *findings])
    tell_findings(contact, settings.unit, findings)
    anew = "nothing to change, started anew (--restart)"
    words = anew if options.restart and not todo else todo.words()
    view.tell(name, "plan", {"unit": settings.unit, "changes": words, "first": todo.first,
                             "files": [{"path": change.path, "kind": change.kind} for change in todo.files]})
    errors = tuple(finding for finding in findings if finding.level is Level.ERROR)
    again = drift.again(name, settings, declared.release, survey.facts, errors)
    if errors:
        return refused(name, settings.unit, errors, again)
    if options.dry_run:
        discards = " --overwrite-drift" if options.overwrite_drift and survey.facts.unit.drift else ""
        return _dry(contact, declared, todo, discards)
    if not todo and not options.restart:
        report = verify_now(contact, declared, settle=0.0)
        if report.outcome is not Outcome.VERIFY_FAILED or str(report.data.get("code", "")).startswith("outside-"):
            # A server that only cannot be reached from here is not helped by a start.
            return report
        if not settings.verify.restart:
            return replace(report, next=f"deployer push {name} -u {settings.name} --restart starts it anew")
        view.tell(name, "plan", {"unit": settings.unit, "changes": f"the unit is not good: {report.text}"})
        findings = _placed(declared, examine(contact, declared))
        tell_findings(contact, settings.unit, findings)
        errors = tuple(finding for finding in findings if finding.level is Level.ERROR)
        if errors:
            return refused(name, settings.unit, errors)
    if contact.turn() > FRESH:
        return push(contact, declared, secrets, options)
    return act(contact, declared, secrets, survey, options, examined.get("identity") or {})


def act(contact: Contact, declared: Declared, secrets: Secrets, survey: Survey, options: Options,
        found: dict[str, Any]) -> Report:
    """Stages the release and lets the host bring it about."""
    settings, name = declared.settings, contact.host.name
    problem = hooks.before(settings, name, declared.release.digest, contact.view)
    if problem:
        finding = Finding("hook-failed", Level.ERROR, problem, key=("hooks", "before"))
        return refused(name, settings.unit, (finding,))
    gpus = tuple(gpu.uuid for gpu in preflight.meant(settings, survey.facts))
    hidden = free_hidden(contact, settings.unit, gpus, options.scope or settings.gpu.clean) if gpus else None
    if hidden:
        return hidden
    number = contact.call("stage", staged(declared, secrets, survey, options, found))["number"]
    contact.view.tell(name, "staged", {"unit": settings.unit, "release": number})
    result = contact.transact(settings.unit, number)
    report = reached(contact, declared, from_result(name, settings.unit, result))
    hooks.after(settings, name, declared.release.digest, report.outcome, contact.view)
    return report


def _hypervisor(contact: Contact) -> str | None:
    return contact.host.hypervisor.host if contact.host.hypervisor else None


def staged(declared: Declared, secrets: Secrets, survey: Survey, options: Options,
           found: dict[str, Any]) -> dict[str, Any]:
    """The ``stage`` request's data: the release, its secrets filled in. ``found``: what it runs on, for its record."""
    release, unit = declared.release, survey.facts.unit
    return {
        "unit": declared.settings.unit, "digest": release.digest,
        "base": unit.digest if unit.current else "",
        "files": [{
            "path": file.path, "mode": file.mode, "owner": file.owner, "secret": secret_room.is_secret(file),
            "data": base64.b64encode(secret_room.contents(file, secrets)).decode("ascii"),
        } for file in release.files],
        "expectations": to_plain(release.expectations), "secrets": dict(secrets.values),
        "scope": options.scope or declared.settings.gpu.clean, "overwrite_drift": options.overwrite_drift,
        "identity": found, "argv": list(release.argv), **operator(),
    }


def examine(contact: Contact, declared: Declared) -> dict[str, Any]:
    """What only the host can say before a change: accounts, paths, sandbox, its systemd's reading of the unit."""
    from deployer.rollout.contact import model_path
    from deployer.settings.model import Venv
    from deployer.systemd.parse import service_settings

    settings = declared.settings
    units = [{"path": file.path, "text": file.text} for file in declared.release.files if isinstance(file.text, str)]
    main = next(str(unit["text"]) for unit in units if str(unit["path"]).endswith("/" + settings.unit))
    return contact.call("examine", {
        "unit": settings.unit, "files": units, "service": service_settings(main),
        "python": settings.runtime.python if isinstance(settings.runtime, Venv) else "",
        "model_path": model_path(settings), "gpus": settings.gpu.devices is not None,
    })


def tell_findings(contact: Contact, unit: str, findings: list[Finding]) -> None:
    for finding in findings:
        contact.view.tell(contact.host.name, "finding", {"unit": unit, **to_plain(finding)})


def _placed(declared: Declared, examined: dict[str, Any]) -> list[Finding]:
    spans = declared.settings.spans
    found = [from_plain(Finding, entry) for entry in examined.get("findings", ())]
    return [finding.at(spans.where(finding.key)) if spans and finding.key else finding for finding in found]


def _dry(contact: Contact, declared: Declared, todo: Changes, options: str) -> Report:
    """``options``: what the push needs beside the names."""
    name, unit = contact.host.name, declared.settings.unit
    text = f"would change: {todo.words()}" if todo else "nothing to change"
    return Report(name, unit, Outcome.NOTHING_TO_DO, text, "nothing was changed (--dry-run)",
                  f"deployer push {name} -u {declared.settings.name}{options}" if todo else "",
                  data={"changes": todo.words(), "dry_run": True, "word": "dry run"})
