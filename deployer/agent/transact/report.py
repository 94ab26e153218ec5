"""What a transaction came to: the data of its last event."""

from __future__ import annotations

from typing import Any, Dict, Optional

from deployer.agent.transact.context import Context, StepFailed
from deployer.protocol.outcome import Outcome


def report(context: Context, outcome: Outcome, failure: Optional[StepFailed] = None, failed_step: str = "",
           problem: Optional[StepFailed] = None) -> Dict[str, Any]:
    """Outcome, the state now in words, both stories (of the new release, of the way back), figures."""
    previous = context.previous
    data: Dict[str, Any] = {
        "outcome": outcome.value, "unit": context.unit, "release": context.release.number,
        "previous": previous.number if previous else None, "state_now": _state(context, outcome, problem),
        "story": context.story, "figures": context.figures,
    }
    if context.unfinished:
        data["unfinished"] = True
    if failure is not None:
        data["failed_step"] = failed_step or context.step_now
        data["reason"] = failure.message
        data.update({key: value for key, value in failure.data.items() if key != "figures"})
    if problem is not None:
        data["rollback_problem"] = dict(problem.data, text=problem.message)
    return data


def _state(context: Context, outcome: Outcome, problem: Optional[StepFailed]) -> str:
    unit, previous = context.unit, context.previous
    if outcome is Outcome.DONE:
        return "release {} of {} serves".format(context.release.number, unit)
    if outcome in (Outcome.REFUSED, Outcome.INTERRUPTED):
        return "nothing was changed on the host"
    if outcome is Outcome.ROLLED_BACK and previous is not None:
        return "release {} of {} serves again, verified".format(previous.number, unit)
    if context.unfinished:
        return "{}: what was there of {} before could not be brought back yet ({})".format(
            "NOTHING SERVES" if context.was_active else "half way back", unit, problem.message if problem else "")
    if previous is None:
        return "{} was not there before and is not there now; nothing serves".format(unit)
    if not context.was_active and problem is None:
        return "the files of release {} are back; {} was not running before and does not run now".format(
            previous.number, unit)
    return "NOTHING SERVES: release {} of {} is not good either ({})".format(
        previous.number, unit, problem.message if problem else "it was not started")
