"""Whether systemd takes a value: one it does not take is ignored with a log line, and what stood before remains.

Source: systemd.time(7), systemd.service(5), systemd.exec(5), systemd.kill(5), parse-util.c (252, 257).
"""

from __future__ import annotations

import re
import signal

from deployer.protocol import patterns

_SPANS = {
    "": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6,
    "µs": 1e-6, "μs": 1e-6, "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0,
    "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0, "w": 604800.0, "week": 604800.0,
    "weeks": 604800.0, "M": 2629800.0, "month": 2629800.0, "months": 2629800.0, "y": 31557600.0, "year": 31557600.0,
    "years": 31557600.0,
}
_SPAN = patterns.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-zµμ]*)")
_BOOLEAN = {"1", "yes", "y", "true", "t", "on", "0", "no", "n", "false", "f", "off"}
_TRUE = {"1", "yes", "y", "true", "t", "on"}
_CHOICES = {
    "SERVICETYPE": {"simple", "forking", "oneshot", "dbus", "notify", "notify-reload", "idle", "exec"},
    "SERVICERESTART": {"no", "on-success", "on-failure", "on-abnormal", "on-watchdog", "on-abort", "always"},
    "KILLMODE": {"control-group", "process", "mixed", "none"},
    "ACCESS": {"none", "main", "exec", "all"},
}
_BEYOND_BOOLEAN = {
    "PrivateTmp": {"disconnected"}, "PrivateUsers": {"self", "identity", "full", "managed"},
    "ProtectControlGroups": {"private", "strict"},
}
"""Words that later releases (up to 257 and beyond) take where earlier ones had a plain boolean."""
_UNIT_NAME = patterns.compile(
    r"[A-Za-z0-9:_.\\@%-]+\.(?:service|socket|target|device|mount|automount|swap|timer|path|slice|scope)|%n"
)
_SIZE = patterns.compile(r"(?:\d+(?:\.\d+)?[BKMGTPE]?|infinity)", re.IGNORECASE)


def seconds(text: str) -> float | None:
    """A time span ("1min 30s", "90", "infinity") in seconds; None where systemd does not read it as one."""
    text = text.strip()
    if text == "infinity":
        return float("inf")
    total, at = 0.0, 0
    while at < len(text):
        match = _SPAN.match(text, at)
        if not match or match[2] not in _SPANS:
            return None
        total += float(match[1]) * _SPANS[match[2]]
        at = match.end()
    return total if text else None


def is_true(text: str) -> bool:
    """Whether a boolean value switches on."""
    return text.lower() in _TRUE


def is_unit_name(text: str) -> bool:
    """Whether a dependency on this name can be made (specifiers are taken on trust)."""
    return len(text) < 256 and bool(_UNIT_NAME.fullmatch(text))


def accepted(value: str, kind: str, key: str = "") -> bool:
    """Whether systemd takes ``value`` for a directive of this kind (``directives.Kind.value``).

    Only kinds are judged of which all values are known; others are taken to be right.
    """
    if not value or "%" in value:
        return True
    if kind == "BOOLEAN":
        return value.lower() in _BOOLEAN or value in _BEYOND_BOOLEAN.get(key, ())
    if kind == "SECONDS" or key in ("TimeoutStopSec", "TimeoutAbortSec", "JobTimeoutSec", "JobRunningTimeoutSec"):
        return seconds(value) is not None
    if kind in _CHOICES:
        return value in _CHOICES[kind]
    if kind == "UNSIGNED":
        return bool(re.fullmatch(r"\+?\d+|0[xob][0-9A-Fa-f]+", value))
    if kind == "SIGNAL":
        return _is_signal(value)
    if kind in ("NICE", "OOMSCOREADJUST"):
        return bool(re.fullmatch(r"[+-]?\d+", value))
    if kind == "MODE" and key.endswith(("Mode", "UMask")) and "Job" not in key:
        return bool(re.fullmatch(r"[0-7]{1,5}", value))
    if kind == "LIMIT" and key.startswith("Limit"):
        return all(_is_limit(part) for part in value.split(":", 1))
    if kind == "FILE":
        return value.removeprefix("-").startswith("/")
    return True


def _is_signal(value: str) -> bool:
    if value.isdigit():
        return 0 < int(value) <= 64
    name = value.removeprefix("SIG")
    return name in {item.name.removeprefix("SIG") for item in signal.Signals} or bool(
        re.fullmatch(r"RTM(?:IN|AX)(?:[+-]\d+)?", name))


def _is_limit(value: str) -> bool:
    return bool(_SIZE.fullmatch(value)) or seconds(value) is not None
