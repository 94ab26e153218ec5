"""What a release says of its own retired arguments: by action class, in the first words of a help text, in messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from deployer.protocol import patterns
from deployer.protocol.records import dataclass
from deployer.sglang.source.modules import Module
from deployer.sglang.source.values import Opaque

_FLAG = r"--[a-z0-9][a-z0-9-]*(?:\{[a-z,]+\}[a-z0-9-]*)?"
_FIRST_WORDS = patterns.compile(r"^\W*(?:note:\s*)?deprecated\b|\bwill be deprecated\b", re.I)
_POINTERS = (
    patterns.compile(rf"set [`']({_FLAG})[`'] to '(?P<value>[\w.-]+)' instead", re.I),
    patterns.compile(rf"(?:set|use) [`']?({_FLAG})(?:[= ](?P<value>[\w.-]+))?[`']?(?: \S+)* instead\b", re.I),
    patterns.compile(
        rf"(?:deprecated|no longer supported)\b[\])., :]*(?:please )?(?:use|alias for) ({_FLAG})"
        r"(?:=(?P<value>\w+)| (?P<word>\w+)(?=\.$))?",
        re.I,
    ),
)
_VARIABLES = patterns.compile(r"\buse ([A-Z][A-Z0-9_]+=\S+(?: and [A-Z][A-Z0-9_]+=\S+)*) instead", re.I)
_MESSAGE = patterns.compile(rf"^(?:note: )?'?({_FLAG})'? is deprecated\b", re.I)


@dataclass(frozen=True)
class Said:
    deprecated: bool = False
    refused: bool = False
    instead: str | None = None


def of_registration(action: str, given: dict[str, Any], raises: bool = False) -> Said:
    """Judged by the action's name and its ``new_flag``, and by a help text that begins with the word.

    ``raises``: the action stops the program whatever it is given.
    """
    help_text = " ".join(str(given.get("help") or "").split())
    error = given.get("error_message")
    retired = action.startswith("Deprecated")
    if not retired and not _FIRST_WORDS.search(help_text):
        return Said()
    new = given.get("new_flag")
    instead = _new_flag(new) if isinstance(new, str) else None
    text = error if isinstance(error, str) else help_text
    refused = raises or (error is not None and not isinstance(error, Opaque))
    return Said(True, refused, instead or pointer(text))


def _new_flag(text: str) -> str:
    """``--attn-dp-size <dp-size>`` names its value in angle brackets: not a value to write."""
    return re.sub(r"\s*<.*", "", text).replace("=", " ", 1).strip()


def pointer(text: str) -> str | None:
    """What a text says to write instead: a flag, with its value where it names one, or environment variables."""
    for pattern in _POINTERS:
        found = pattern.search(text)
        if found:
            named = found.groupdict()
            value = named.get("value") or named.get("word")
            return f"{found[1]} {value}" if value else found[1]
    variables = _VARIABLES.search(text)
    return variables[1].rstrip(".") if variables else None


def messages(modules: Iterable[Module]) -> dict[str, str | None]:
    """Flags that a message of these modules calls deprecated -> what to write instead."""
    said: dict[str, str | None] = {}
    for module in modules:
        for node in ast.walk(module.tree):
            text = _text(node)
            found = _MESSAGE.search(text) if text else None
            if found and text:
                said[found[1]] = said.get(found[1]) or pointer(text)
    return said


def _text(node: ast.AST) -> str | None:
    """A string as written; in an f-string, "{}" stands for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return " ".join(node.value.split())
    if isinstance(node, ast.JoinedStr):
        return " ".join("".join(_text(p) or "{}" for p in node.values).split())
    return None
