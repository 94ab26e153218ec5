"""How an act on a host ended."""

from __future__ import annotations

import enum
from typing import Any, Mapping

START_REFUSED = "start-refused"
"""The code of a step whose start systemd would not even queue."""


class Outcome(enum.Enum):
    """The end of a push, rollback, clean or verify on one host. Exit codes belong to ``deployer.exits``."""

    DONE = "done"
    NOTHING_TO_DO = "nothing-to-do"
    REFUSED = "refused"                  # nothing was changed
    LOCKED = "locked"                    # another push holds the host's lock; nothing was changed
    ROLLED_BACK = "rolled-back"          # the new release failed, the previous one serves again, verified
    DARK = "dark"                        # the new release failed and nothing serves
    VERIFY_FAILED = "verify-failed"      # gates failed; what runs was left as it is
    UNREACHED = "unreached"              # the host was not reached, or SSH, host key or sudo refused
    INTERRUPTED = "interrupted"
    FAILED = "failed"                    # an act other than a push failed, or the tool itself did


def blocks(result: Mapping[str, Any]) -> bool:
    """Whether a transaction's result leaves a way back open that must come first, before anything new on the host.

    A release that systemd will not start does not keep a better one from coming.
    """
    problem = dict(result.get("rollback_problem") or {})
    return bool(result.get("unfinished")) and problem.get("code") != START_REFUSED
