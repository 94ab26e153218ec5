"""The %-tokens and ${variables} of ssh_config values (ssh_config(5), TOKENS and ENVIRONMENT VARIABLES)."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

_COMMON = "CdhijkLlnpru"
_ALLOWED = {
    "hostname": "h",
    "proxycommand": "hnpr",
    "proxyjump": "hnpr",
    "match-exec": _COMMON,
    "identityfile": _COMMON,
    "certificatefile": _COMMON,
    "identityagent": _COMMON,
    "userknownhostsfile": _COMMON,
    "user": _COMMON.replace("r", "").replace("C", ""),
}
_VARIABLES = {"identityfile", "certificatefile", "identityagent", "userknownhostsfile"}
_PATHS = {"identityfile", "certificatefile", "identityagent", "userknownhostsfile"}


class TokenError(ValueError):
    """A token that the keyword does not take."""


def expand(
    keyword: str, text: str, *, original: str, host: str, port: int, user: str, local_user: str, home: Path,
    key_alias: str = "", jump: str = "", environment: Mapping[str, str] = os.environ,
) -> str:
    """``text`` with the tokens that ``keyword`` takes expanded, and ``~`` where it is a path; raises TokenError."""
    allowed = _ALLOWED.get(keyword, "")
    local = socket.gethostname()
    values = {
        "d": str(home), "h": host, "i": str(os.getuid()), "j": jump, "k": key_alias or original,
        "L": local.split(".")[0], "l": local, "n": original, "p": str(port), "r": user, "u": local_user,
    }
    if "C" in allowed and "%C" in text:
        joined = values["l"] + host + str(port) + user + jump
        values["C"] = hashlib.sha1(joined.encode()).hexdigest()

    def token(match: re.Match[str]) -> str:
        name = match[1]
        if name == "%":
            return "%"
        if name not in allowed:
            raise TokenError(f"%{name} cannot stand in {keyword}: {text}")
        return values[name]

    def variable(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise TokenError(f"the environment variable {match[1]} in {keyword} is not set")
        return environment[match[1]]

    if keyword in _PATHS and (text == "~" or text.startswith("~/")):
        text = "%d" + text[1:]
    elif keyword in _PATHS and text.startswith("~"):
        text = str(Path(text).expanduser())
    if keyword in _VARIABLES:
        text = re.sub(r"\$\{(\w+)\}", variable, text)
    return re.sub(r"%(.)", token, text)
