"""Secrets in clear: in a variable, in a command."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deployer.protocol import patterns
from deployer.protocol.redact import MASK, Redactor, is_secret_name

_REFERENCE = patterns.compile(r"\$+\{?[A-Za-z_]\w*(?::?[-?][^}]*)?\}?")
_FLAG = patterns.compile(r"--(?P<name>[A-Za-z0-9_-]+)(?:=|\s+)(?P<value>\"[^\"]*\"|'[^']*'|\$\([^)]*\)|\S+)")
_ASSIGNED = patterns.compile(r"(?<![\w-])(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_NOTHING = ("", "none", "null", "empty", "true", "false")


def is_secret(name: str, value: str) -> bool:
    """Whether ``NAME=value`` holds a secret: by its name, unless the value is a path or names a variable; or by its
    shape."""
    if value.lower() in _NOTHING:
        return False
    if is_secret_name(name):
        return not value.startswith(("/", "$", "%d")) and not _REFERENCE.fullmatch(value)
    return MASK in Redactor().text(value) and MASK not in value and "=" not in value


def in_command(words: Sequence[str]) -> str | None:
    """The name of the first secret in a command: an argument's, a variable's, or one in the text for a shell."""
    for index, word in enumerate(words):
        if re.search(r"\s", word):
            found = _in_text(word)
            if found:
                return found
            continue
        name, equals, value = word.partition("=")
        if word.startswith("--") and is_secret_name(name):
            value = value if equals else words[index + 1] if index + 1 < len(words) else ""
            if value.lower() not in _NOTHING and not _REFERENCE.fullmatch(value) and not value.startswith("--"):
                return name
        elif equals and re.fullmatch(r"[A-Za-z_]\w*", name) and is_secret(name, value):
            return name
        elif Redactor().text(word) != word and not equals:
            return "a secret"
    return None


def _in_text(text: str) -> str | None:
    for match in _FLAG.finditer(text):
        value = match["value"].strip("\"'\\")
        if is_secret_name(match["name"]) and value.lower() not in _NOTHING and not _REFERENCE.fullmatch(value):
            return "--" + match["name"]
    for match in _ASSIGNED.finditer(text):
        value = match["value"].strip("\"'\\")
        if is_secret(match["name"], value):
            return match["name"]
    return None
