"""The lowest release that the settings allow: it decides what a unit must cope with."""

from __future__ import annotations

import functools

from deployer.protocol import patterns
from deployer.sglang import version
from deployer.sglang.catalogue import catalogue

_LOWER = patterns.compile(r"(?:>=|~=|===?|>)\s*v?(\d+(?:\.\d+)*(?:\.?(?:post|rc)\d+)?)")


@functools.lru_cache(maxsize=256)
def lowest(declared: str, program: str = "sglang") -> str:
    """The lowest release that ``declared`` (a release or a specifier) takes in; "" where that cannot be said.

    A release that no catalogue has is itself. Of a specifier that matches nothing known, the lower bound that stands
    in it is all that can be said.
    """
    if not declared.strip():
        return ""
    known = catalogue(program)
    if declared in known.releases or version.is_release(declared):
        return declared.strip().removeprefix("v")
    try:
        matching = known.matching(declared)
    except version.Unreadable:
        return ""
    bounds = _LOWER.findall(declared)
    return matching[0] if matching else max(bounds, key=version.parsed, default="")
