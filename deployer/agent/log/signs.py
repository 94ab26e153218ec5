"""How a cause is recognised: the types of the table in ``causes``."""

from __future__ import annotations

import re
from typing import Callable, Optional, Pattern, Tuple

from deployer.agent.log.known import Known
from deployer.protocol import patterns
from deployer.protocol.records import dataclass

SAID, RAISED, HINT = "said", "raised", "hint"


@dataclass(frozen=True)
class Seen:
    """A line that bears a sign. ``armed``: a process had already said that it dies, so this belongs to its end."""

    code: str
    strength: int
    index: int
    text: str
    kind: str
    armed: bool
    match: "Optional[re.Match[str]]"
    sign: str = ""


When = Callable[[Known, "re.Match[str]"], bool]


@dataclass(frozen=True)
class Sign:
    """One kind of line.

    ``needle`` is a plain substring looked for first (speed); ``pattern`` then has to match. ``kind``: SAID proves the
    end by itself; RAISED counts as the last line of an exception, or from the line's start, until the start goes on as
    if nothing had been; HINT proves nothing but explains another cause's end (``Cause.explains``). Of several signs
    of one cause the line of the highest ``strength`` is the evidence, the first of equals. ``when`` judges the moment.
    """

    needle: str
    pattern: "Pattern[str]"
    kind: str = RAISED
    strength: int = 1
    when: Optional[When] = None


Remedy = Callable[[Known, Seen], str]


@dataclass(frozen=True)
class Cause:
    """One entry of the table. ``rank``: of several causes seen in one start the lowest is the root.

    ``explains`` are the causes in whose place this one stands when it has only a HINT.
    """

    code: str
    rank: int
    meaning: str
    remedy: Remedy
    signs: Tuple[Sign, ...] = ()
    explains: Tuple[str, ...] = ()


def sign(
    needle: str, pattern: str = "", kind: str = RAISED, strength: int = 1, when: Optional[When] = None
) -> Sign:
    """A ``Sign`` with its pattern compiled, case-insensitive; without a pattern the needle alone has to be there."""
    return Sign(needle, patterns.compile(pattern or re.escape(needle), re.IGNORECASE), kind, strength, when)
