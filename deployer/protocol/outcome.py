"""How an act on a host ended."""

from __future__ import annotations

import enum


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
