"""The way back: what the failed start left is cleaned, the old files come back, the old server is verified."""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

from deployer.agent.transact import install, manager, steps
from deployer.agent.transact.audit import audit
from deployer.agent.transact.context import Context, StepFailed
from deployer.agent.transact.report import report
from deployer.protocol.outcome import Outcome

T = TypeVar("T")
GRACE = 15.0
"""Seconds that a release which was not good has to end by itself: nobody is served by it, and the old one waits."""

PATIENCE = 10.0
"""Seconds for which a part of the way back is tried again."""


def roll_back(context: Context, failure: StepFailed) -> Dict[str, Any]:
    """Goes back after ``failure``; the data of the ``result`` event. Each part is tried, whatever the others did."""
    failed_step = context.step_now
    context.emit("rollback", {"reason": failure.message, "step": failed_step})
    _quietly(lambda: context.record.rolling_back(failure.message))
    problem = _undo(context)
    if problem is None and context.previous is not None and context.was_active:
        problem, serves = _restart(context)
    else:
        serves = False
    context.unfinished = problem is not None and _may_yet(problem)
    outcome = Outcome.ROLLED_BACK if serves else Outcome.DARK
    _close(context, outcome, failure)
    return report(context, outcome, failure, failed_step=failed_step, problem=problem)


def _undo(context: Context) -> Optional[StepFailed]:
    """Stops the failed start, cleans what it left, puts the old files back."""
    problem: Optional[StepFailed] = None
    for name, act in (("stop", _stop), ("clean", _clean), ("install", _reinstall)):
        try:
            with context.step_back(name):
                _insist(functools.partial(act, context))
        except StepFailed as failure:
            # A stop or a clean that failed does not keep the old files from coming back.
            problem = failure if name == "install" else problem
        except Exception as fault:
            problem = StepFailed("{}: {}".format(type(fault).__name__, fault)) if name == "install" else problem
    return problem


def _stop(context: Context) -> None:
    steps.stop_units(context, context.release, GRACE)


def _clean(context: Context) -> None:
    steps.clean_holders(context, context.expectations, "own" if context.release.scope != "none" else "none")


def _reinstall(context: Context) -> None:
    steps.put_in_place(context, context.previous, (context.release, context.previous), install.OLD)


def _restart(context: Context) -> Tuple[Optional[StepFailed], bool]:
    """Starts the old release and verifies it by the gates that it was good by."""
    assert context.previous is not None
    try:
        with context.step_back("start"):
            mark = _insist(lambda: steps.start_unit(context.unit))
        with context.step_back("verify"):
            result = steps.run_gates(context, context.previous, mark, abortable=False)
            if not result.passed:
                raise StepFailed(steps.words(result), code="verify-failed", **steps.evidence(result))
        for timer in manager.timers(install.units_of(context.previous)):
            manager.start(timer)
    except StepFailed as failure:
        return failure, False
    except Exception as fault:
        return StepFailed("{}: {}".format(type(fault).__name__, fault)), False
    return None, True


def _close(context: Context, outcome: Outcome, failure: StepFailed) -> None:
    store, release = context.store, context.release
    if not context.unfinished:
        _quietly(lambda: install.clear(release, context.previous))
    _quietly(lambda: store.update(release, outcome=outcome.value, ended=time.time(),
                                  figures=dict(failure.data.get("figures") or {}, reason=_brief(failure))))
    previous = context.previous
    _quietly(lambda: store.set_current(context.unit, previous.number if previous else None))
    _quietly(lambda: store.strip(context.unit, release.number))
    _quietly(lambda: store.prune(context.unit))
    audit(context.unit, "release {} of {} failed ({}): {}".format(
        release.number, context.unit, failure.message, "the previous release serves again"
        if outcome is Outcome.ROLLED_BACK else "nothing serves"))


def _insist(act: Callable[[], T]) -> T:
    """The way back is tried again for a while: a manager that does not answer now may answer soon."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return act()
        except StepFailed:
            if time.monotonic() >= until:
                raise
        time.sleep(0.5)


def _may_yet(problem: StepFailed) -> bool:
    """Whether the way back can still be gone later: the disk or systemd did not let us, but nothing is lost."""
    reason = problem.__cause__
    return isinstance(reason, (OSError, manager.ManagerError)) and not isinstance(reason, FileNotFoundError)


def _brief(failure: StepFailed) -> str:
    """The cause where it is known, else the words."""
    explanation = failure.data.get("explanation") or {}
    return str(explanation.get("cause") or failure.message)


def _quietly(act: Callable[[], Any]) -> None:
    try:
        act()
    except Exception:
        pass
