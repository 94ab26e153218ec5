"""``%`` in unit files. Source: systemd.unit(5), "Specifiers", and specifier.c."""

from __future__ import annotations

import re
from collections.abc import Mapping

HOST = "ABbGgHlmMoqvwWyY"
"""Specifiers whose value only the host knows (image, boot, build, host name, machine, kernel, OS, fragment)."""

SYSTEM = {
    "C": "/var/cache", "E": "/etc", "L": "/var/log", "S": "/var/lib", "t": "/run", "T": "/tmp", "V": "/var/tmp",
    "h": "/root", "u": "root", "U": "0", "g": "root", "G": "0", "s": "/bin/sh",
}
"""Values in a unit of the system manager: ``%h`` and ``%u`` are root's whatever ``User=`` says."""

KNOWN = frozenset("aAbBCdDEfgGhHiIjJlLmMnNopPqsStTuUvVwWyY%")


class UnknownSpecifier(ValueError):
    """``%`` before a letter or digit that names nothing: the assignment is dropped or the unit refused."""


def of_unit(name: str) -> dict[str, str]:
    """The specifiers that follow from the unit's name: ``%n %N %p %P %i %I %j %J %f``."""
    bare, _, suffix = name.rpartition(".")
    bare = bare or suffix
    prefix, at, instance = bare.partition("@")
    values = {"n": name, "N": bare, "p": prefix, "P": _unescape(prefix), "i": instance, "I": _unescape(instance),
              "j": prefix.rpartition("-")[2]}
    values["J"] = _unescape(values["j"])
    path = _unescape(instance if at and instance else prefix)
    values["f"] = path if path.startswith("/") else "/" + path
    return values


def expand(text: str, values: Mapping[str, str]) -> str:
    """``text`` with its specifiers filled in.

    What only the host knows stays as written (``%H``). ``%`` at the end or before anything but a letter or digit
    is itself. Raises ``UnknownSpecifier``.
    """
    if "%" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        char = match[1]
        if char == "%":
            return "%"
        if char in values:
            return values[char]
        if char in KNOWN:
            return match[0]
        if char.isascii() and char.isalnum():
            raise UnknownSpecifier(match[0])
        return match[0]

    return re.sub(r"%(.)", value, text, flags=re.DOTALL)


def _unescape(text: str) -> str:
    """``systemd-escape --unescape``: ``-`` is ``/``, ``\\xNN`` a byte."""
    raw = re.sub(r"\\x([0-9A-Fa-f]{2})", lambda match: chr(0xDC00 + int(match[1], 16)) if int(match[1], 16) > 127
                 else chr(int(match[1], 16)), text.replace("-", "/"))
    return raw.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
