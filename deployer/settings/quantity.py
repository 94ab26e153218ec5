"""Durations and sizes as an admin writes them: "20min", "1h 30min", 90; "4GiB", "512MiB"."""

from __future__ import annotations

import math
import re

from deployer.protocol import patterns

_MICROSECONDS = {
    "us": 1, "usec": 1, "ms": 1000, "msec": 1000,
    "s": 10**6, "sec": 10**6, "second": 10**6, "seconds": 10**6,
    "m": 60 * 10**6, "min": 60 * 10**6, "minute": 60 * 10**6, "minutes": 60 * 10**6,
    "h": 3600 * 10**6, "hr": 3600 * 10**6, "hour": 3600 * 10**6, "hours": 3600 * 10**6,
    "d": 86400 * 10**6, "day": 86400 * 10**6, "days": 86400 * 10**6,
    "w": 604800 * 10**6, "week": 604800 * 10**6, "weeks": 604800 * 10**6,
}  # fmt: skip
"""The spellings of systemd.time(7), up to weeks."""

_KIBIBYTES = {"KiB": 1, "MiB": 1024, "GiB": 1024**2, "TiB": 1024**3}
_AMBIGUOUS = {"K": "KiB", "M": "MiB", "G": "GiB", "T": "TiB"}

_NUMBER = r"[0-9]+(\.[0-9]+)?"
_UNITS = "|".join(sorted(_MICROSECONDS, key=len, reverse=True))
DURATION_PATTERN = rf"^ *({_NUMBER}|{_NUMBER} *({_UNITS})( *{_NUMBER} *({_UNITS}))*) *$"
"""For the JSON Schema, in the part of the regular expressions that Python and ECMAScript share."""
SIZE_PATTERN = rf"^ *{_NUMBER} *({'|'.join(_KIBIBYTES)}) *$"

_DURATION = patterns.compile(DURATION_PATTERN)
_SIZE = patterns.compile(SIZE_PATTERN)
_SIZE_PART = patterns.compile(rf"({_NUMBER}) *([A-Za-z]+)")
_PART = patterns.compile(rf"({_NUMBER}) *([a-z]*)")


class QuantityError(ValueError):
    """Text that is no such quantity: says why, and in ``hint`` what to write."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def duration(value: str | int | float) -> float:
    """Seconds. A bare number counts seconds; raises ``QuantityError``."""
    if not isinstance(value, str):
        if not math.isfinite(value) or value < 0:
            raise QuantityError(f"{value} is no duration: it must be finite and not below 0")
        return float(value)
    if not _DURATION.match(value):
        raise QuantityError(f'"{value}" is no duration', _duration_hint(value))
    total, scale = 0, 1  # the sum so far is total / scale microseconds: whole numbers, so that 0.1 + 0.2 stays exact
    for part in _PART.finditer(value):
        digits, _, decimals = part[1].partition(".")
        total = total * 10 ** len(decimals) + int(digits + decimals) * scale * _MICROSECONDS[part[3] or "s"]
        scale *= 10 ** len(decimals)
    return total / (scale * 10**6)


def size(value: str) -> int:
    """Whole MiB, rounded up; the unit must be written; raises ``QuantityError``."""
    if not _SIZE.match(value):
        raise QuantityError(f'"{value}" is no size', _size_hint(value))
    kibibytes, scale = 0, 1
    for part in _SIZE_PART.finditer(value):
        digits, _, decimals = part[1].partition(".")
        kibibytes, scale = int(digits + decimals) * _KIBIBYTES[part[3]], 10 ** len(decimals)
    return -(-kibibytes // (1024 * scale))


def _duration_hint(value: str) -> str:
    if value.strip().lower() in ("infinity", "inf", "never", "none"):
        return 'a wait always has an end here: write a long one, such as "2h"'
    lowered = value.lower()
    if lowered != value and _DURATION.match(lowered):
        return f'the units are written small: "{lowered}"'
    clock = re.fullmatch(r" *(\d+):(\d\d)(?::(\d\d))? *", value)
    if clock:
        units = ("h", "min", "s") if clock[3] else ("min", "s")
        return f'write "{" ".join(map("".join, zip(clock.groups(), units, strict=False)))}"'
    return 'write a number with its unit (s, min, h, d), such as "90s" or "1h 30min"'


def _size_hint(value: str) -> str:
    match = re.fullmatch(rf" *({_NUMBER}) *([KMGTkmgt])(i?[bB])? *", value)
    if match:
        return f'write "{match[1]}{_AMBIGUOUS[match[3].upper()]}": sizes are binary here, as nvidia-smi counts them'
    if re.fullmatch(rf" *{_NUMBER} *", value):
        return f'a size needs its unit: "{value.strip()}MiB" or "{value.strip()}GiB"'
    return 'write a number with KiB, MiB, GiB or TiB, such as "4GiB"'
