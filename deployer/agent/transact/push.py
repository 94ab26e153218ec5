"""The story of a push on the host: what happens, in its order, and what is done when it goes wrong.

Everything up to ``stop`` changes nothing. Any failure after it leads back to the release that served before.
Rollback of the operator's and recovery enter by the same door.
"""

from __future__ import annotations

from typing import Any, Dict

from deployer.agent.transact import steps
from deployer.agent.transact.context import Context, Refused, StepFailed
from deployer.agent.transact.report import report
from deployer.agent.transact.rollback import roll_back
from deployer.protocol.outcome import Outcome


def push(context: Context) -> Dict[str, Any]:
    """Brings the unit to ``context.release``; the data of the ``result`` event. Raises nothing that has a name."""
    try:
        steps.preflight(context)
    except Refused as refusal:
        steps.leave(context)
        outcome = Outcome.INTERRUPTED if refusal.data.get("code") == "aborted" else Outcome.REFUSED
        return report(context, outcome, refusal)
    try:
        steps.stop(context)
        steps.clean(context)
        steps.install_files(context)
        steps.start(context)
        steps.verify(context)
    except StepFailed as failure:
        return roll_back(context, failure)
    except Exception as fault:
        return roll_back(context, StepFailed("{}: {}".format(type(fault).__name__, fault), code="agent-fault"))
    return keep(context)


def keep(context: Context) -> Dict[str, Any]:
    """The new server is good and serves; when that cannot be written down, the next contact writes it down."""
    try:
        steps.keep(context)
    except (OSError, ValueError) as error:
        context.unfinished = True
        context.emit("finding", {
            "code": "keep-unfinished", "level": "warning",
            "message": "the release serves, but that could not be written down: {}".format(error),
            "hint": "make room or make /var/lib/deployer writable; the next push or attach finishes it"})
    return report(context, Outcome.DONE)
