"""Outcome to exit code, and which of several is the gravest."""

from __future__ import annotations

from collections.abc import Iterable

from deployer.protocol.outcome import Outcome

OK = 0
FINDINGS = 1
USAGE = 2
UNREACHED = 3
ROLLED_BACK = 4
DARK = 5
LOCKED = 6
REFUSED = 7
VERIFY_FAILED = 8
INTERRUPTED = 130

_CODES = {
    Outcome.DONE: OK,
    Outcome.NOTHING_TO_DO: OK,
    Outcome.REFUSED: REFUSED,
    Outcome.LOCKED: LOCKED,
    Outcome.ROLLED_BACK: ROLLED_BACK,
    Outcome.DARK: DARK,
    Outcome.VERIFY_FAILED: VERIFY_FAILED,
    Outcome.UNREACHED: UNREACHED,
    Outcome.INTERRUPTED: INTERRUPTED,
    Outcome.FAILED: FINDINGS,
}

_GRAVITY = (OK, FINDINGS, USAGE, LOCKED, REFUSED, UNREACHED, INTERRUPTED, VERIFY_FAILED, ROLLED_BACK, DARK)
"""Mildest first. A dark host outweighs all; one that was rolled back outweighs one that was never touched."""


def exit_code(outcome: Outcome) -> int:
    """The exit code of DESIGN section 6 for one host's outcome."""
    return _CODES[outcome]


def gravest(codes: Iterable[int]) -> int:
    """The exit code that several hosts' codes come to; 0 for none."""
    return max(codes, key=lambda code: _GRAVITY.index(code) if code in _GRAVITY else len(_GRAVITY), default=OK)
