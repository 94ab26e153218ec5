"""The source line of a finding with its place marked, and with no secret in it."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from deployer.protocol import patterns
from deployer.protocol.finding import Finding
from deployer.protocol.redact import MASK, Redactor, is_secret_name

_TEXT = r"""\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"""
_LITERAL = patterns.compile(_TEXT)
_TOKEN = patterns.compile(_TEXT + r"|\[[^\[\]]*\]|\{[^{}]*\}|[^\s=,\[\]{}]+|.")
# Where a secret is, in any way that TOML has to write it: no secret itself.
_WHERE = patterns.compile(
    r"\s*(?:[\w\"'. -]+=\s*\{\s*)?(?:[\w\"'-]+\s*\.\s*)*(?:file|env)\s*=\s*(?:" + _TEXT + r")\s*\}?\s*"
)
_BARE = patterns.compile(r"(=\s*)[^\s\"'\[{,}][^\s,}]*")
_OF_A_VALUE = ("bad-value", "wrong-type")
_ASSIGNED = patterns.compile(r"\s*(?P<name>[\w\"'. -]+?)\s*[=:]")


def marked(finding: Finding) -> list[str]:
    """Two lines: the source with its number, and the mark below; without a mark where only the line is known.

    Secrets are masked: by the redactor, every text of a line about secrets that does not just say in which file or
    variable one is, the marked place itself where it is one, and the whole value of a secret's name where the line is
    no TOML. Empty where the file cannot be read.
    """
    where = finding.where
    if where is None or not where.line:
        return []
    try:
        text = Path(where.file).read_text(encoding="utf-8-sig").split("\n")[where.line - 1].rstrip("\r")
    except (OSError, IndexError, UnicodeDecodeError):
        return []
    number, secret = f"{where.line:>5} | ", finding.code == "secret-in-settings"
    assigned = _ASSIGNED.match(text)
    if finding.code == "toml-syntax" and assigned and is_secret_name(assigned["name"].strip("\"' ").rsplit(".", 1)[-1]):
        return [f"{number}{assigned[0]} {MASK}"]

    hidden = secret or "secrets" in finding.key
    place = _WHERE.match(text) if hidden and not secret and finding.code not in _OF_A_VALUE else None
    if place and text[place.end():][:1] in ("", "#"):
        at = (where.column or 1) - 1
        name = _TOKEN.match(text, at)
        mark = f"      | {' ' * cells(text[:at])}{'^' * cells(name[0] if name else ' ')}"
        return [number + place[0].rstrip(), *([mark] if where.column else [])]

    def shown(part: str) -> str:
        if not hidden:
            return Redactor().text(part).replace("\t", " ")
        # What a brace opens is no value: the redactor would take it for one, and eat it.
        pieces = _BARE.sub(rf"\g<1>{MASK}", _LITERAL.sub(f'"{MASK}"', part)).split("{")
        return "{".join(Redactor().text(piece) for piece in pieces).replace("\t", " ")

    if not where.column:
        return [number + shown(text)]
    at = where.column - 1
    match = _TOKEN.match(text, at)
    before, after = shown(text[:at]), shown(text[match.end() if match else at :])
    token = MASK if secret else shown(match[0]) if match else ""
    line = before + token + after if secret else shown(text)
    return [number + line, f"      | {' ' * cells(before)}{'^' * max(1, cells(token))}"]


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)
