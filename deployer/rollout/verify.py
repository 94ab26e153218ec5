"""The gates alone, on the host that runs the unit; nothing is changed."""

from __future__ import annotations

from typing import Any

from deployer.errors import OperationError
from deployer.protocol.codec import to_plain
from deployer.protocol.expectations import Expectations
from deployer.protocol.finding import Finding
from deployer.protocol.outcome import Outcome
from deployer.rollout import outside
from deployer.rollout.contact import Contact
from deployer.rollout.units import Declared
from deployer.rollout.view import Report

NOT_PUSHED = "not-pushed"


def verify_now(contact: Contact, declared: Declared, settle: float | None = None) -> Report:
    """Judges what runs by the release that the host calls current. Raises HostError.

    The report's outcome is NOTHING_TO_DO when all gates passed and VERIFY_FAILED when one did not. ``settle`` in
    seconds goes over what the release says.
    """
    return _verify(contact, declared.settings.unit, declared, settle)


def verify_unit(contact: Contact, unit: str, settle: float | None = None) -> Report:
    """The same for a unit that only the host knows: the workspace need not have it."""
    return _verify(contact, unit, None, settle)


def _verify(contact: Contact, unit: str, declared: Declared | None, settle: float | None) -> Report:
    request: dict[str, Any] = {"unit": unit, "from_store": True, "settle": settle}
    try:
        reply = contact.call("verify", request)
    except OperationError as error:
        if error.code != NOT_PUSHED or declared is None:
            raise
        if contact.ask_facts(unit).facts.unit.state.get("LoadState") == "not-found":
            return Report(contact.host.name, unit, Outcome.VERIFY_FAILED, "it is not on this host",
                          "nothing was changed by this check",
                          f"deployer push {contact.host.name} -u {declared.settings.name}", data={"code": "not-there"})
        # Never pushed: what runs under this name is judged by what is declared, without the secrets.
        reply = contact.call("verify", {
            "unit": unit, "expectations": to_plain(declared.release.expectations), "settle": settle})
    report = _report(contact.host.name, unit, reply)
    return report if declared is None else reached(contact, declared, report)


def reached(contact: Contact, declared: Declared, report: Report) -> Report:
    """``report``, unless it is a good one and the settings ask for health from outside, and that is not to be had.

    What was pushed stays: it serves on its own host, and the old release would be no easier to reach.
    """
    if report.outcome not in (Outcome.DONE, Outcome.NOTHING_TO_DO):
        return report
    finding = from_outside(contact, declared, report.data)
    return report if finding is None else _not_reached(report, finding)


def from_outside(contact: Contact, declared: Declared, reply: dict[str, Any]) -> Finding | None:
    """Health from the operator's machine, where the settings ask for it and the host itself says that all is well."""
    wanted = declared.settings.verify.outside
    if not wanted:
        return None
    expected = declared.release.expectations
    contact.view.tell(contact.host.name, "gate", {
        "gate": "outside", "state": "waiting", "text": "asks from this machine"})
    finding = outside.look(contact.host, wanted, expected, bound(reply, expected))
    state, text = ("failed", finding.message) if finding else ("passed", "answers 200 to this machine")
    contact.view.tell(contact.host.name, "gate", {"gate": "outside", "state": state, "text": text, "figures": {}})
    spans = declared.settings.spans
    return finding.at(spans.where(finding.key)) if finding and spans else finding


def bound(data: dict[str, Any], expected: Expectations) -> str:
    """The address that the server listens on: as the gate *port* saw it, else as declared, else SGLang's default."""
    for verdict in data.get("verdicts") or ():
        address = (verdict.get("figures") or {}).get("address")
        if verdict.get("gate") == "port" and address:
            return str(address)
    return str(expected.args.get("host") or "127.0.0.1")


def _report(host: str, unit: str, reply: dict[str, Any]) -> Report:
    name = unit.removesuffix(".service")
    verdicts = list(reply.get("verdicts") or ())
    failed = [verdict for verdict in verdicts if verdict["state"] == "failed"]
    data = {**reply, "reason": "; ".join(f"{verdict['gate']}: {verdict['text']}" for verdict in failed)}
    if reply["passed"]:
        passed = sum(verdict["state"] == "passed" for verdict in verdicts)
        return Report(host, unit, Outcome.NOTHING_TO_DO, f"all gates passed ({passed} checked)", "it serves", data=data)
    cause = (reply.get("explanation") or {}).get("cause")
    text = data["reason"] or "the verification was ended"
    text = f"{cause}: {text}" if cause and cause not in text else text
    return Report(host, unit, Outcome.VERIFY_FAILED, text, "nothing was changed by this check",
                  f"deployer logs {host} -u {name}", data=data)


def _not_reached(report: Report, finding: Finding) -> Report:
    return Report(
        report.host, report.unit, Outcome.VERIFY_FAILED, finding.message,
        f"{report.text}; it serves on its own host and stays as it is", finding.hint, (finding,),
        {**report.data, "passed": False, "code": finding.code, "reason": finding.message})
