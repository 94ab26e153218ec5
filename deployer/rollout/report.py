"""Results of hosts as reports for people: what happened, the state now, the next command."""

from __future__ import annotations

from typing import Any

from deployer import errors
from deployer.protocol.finding import Finding
from deployer.protocol.outcome import Outcome
from deployer.rollout.view import Report


def from_result(host: str, unit: str, data: dict[str, Any]) -> Report:
    """A transaction's result as a report."""
    outcome = Outcome(data["outcome"])
    name = unit.removesuffix(".service")
    return Report(host, unit, outcome, _text(outcome, data), str(data.get("state_now", "")),
                  _next(outcome, data, host, name), data=data)


def refused(host: str, unit: str, findings: tuple[Finding, ...], again: str = "") -> Report:
    """Preflight spoke against it: nothing was changed. ``again`` is the next command, where it is not the push."""
    first = findings[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    again = again or f"put it right, then: deployer push {host} -u {unit.removesuffix('.service')}"
    return Report(host, unit, Outcome.REFUSED, f"{first.message}{more}", "nothing was changed on the host",
                  again, findings, {"code": first.code})


def from_error(host: str, unit: str, error: errors.DeployerError) -> Report:
    """An error that kept a host from being reached, or its push from beginning."""
    if isinstance(error, errors.OperationError) and error.code != "agent-fault":
        # The host was reached, and said no.
        look = f"deployer history {host}" if error.code == "no-such-release" else error.hint
        return Report(host, unit, Outcome.REFUSED, error.message, "nothing was changed on the host", look,
                      data={"code": error.code})
    outcome = {
        errors.LockedError: Outcome.LOCKED, errors.RefusedError: Outcome.REFUSED,
    }.get(type(error), Outcome.UNREACHED if isinstance(error, errors.HostError) else Outcome.FAILED)
    return Report(host, unit, outcome, error.message, error.state, error.hint,
                  tuple(getattr(error, "findings", ())), {"code": getattr(error, "code", "") or type(error).__name__})


def _text(outcome: Outcome, data: dict[str, Any]) -> str:
    reason = str(data.get("reason", ""))
    step = str(data.get("failed_step", ""))
    cause = data.get("explanation") or {}
    if outcome is Outcome.DONE:
        return f"release {data.get('release')} serves"
    if outcome is Outcome.LOCKED:
        holder = data.get("holder") or {}
        return f"another push is under way: by {holder.get('who', '?')} from {holder.get('source', '?')}"
    if outcome in (Outcome.ROLLED_BACK, Outcome.DARK):
        why = str(cause["cause"]) if cause.get("cause") else reason
        return f"the push failed in the step {step}: {why}" if step else f"the push failed: {why}"
    return reason or outcome.value


def _next(outcome: Outcome, data: dict[str, Any], host: str, name: str) -> str:
    if outcome is Outcome.DONE or outcome is Outcome.NOTHING_TO_DO:
        return ""
    if outcome is Outcome.LOCKED:
        return f"deployer attach {host} -u {name}"
    if outcome is Outcome.ROLLED_BACK:
        return f"deployer logs {host} -u {name} --release {data.get('release')}"
    if outcome is Outcome.DARK and data.get("unfinished"):
        return f"put that right, then: deployer attach {host} -u {name}"
    if outcome is Outcome.DARK:
        return f"deployer logs {host} -u {name}; then deployer push or deployer rollback {host} -u {name}"
    if data.get("code") == "drift":
        return f"deployer diff {host} -u {name}"
    if data.get("code") == "foreign-holder":
        return f"deployer gpus {host}"
    return f"deployer status {host}"
