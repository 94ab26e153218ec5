"""The words, redirections and heads of one simple command, read from the original text of a script."""

from __future__ import annotations

import re

from deployer.intake import scan
from deployer.intake.outline import REDIRECTION, HereDocument, Outline
from deployer.protocol import patterns
from deployer.protocol.records import dataclass


@dataclass(frozen=True)
class Redirection:
    """``operator`` as written (">>", "<<<"); ``descriptor`` "" where none is; ``target`` is a word as written."""

    operator: str
    descriptor: str
    target: str
    document: HereDocument | None = None


@dataclass(frozen=True)
class Simple:
    """One command as written: its words with their quotes, its redirections, and where it stands."""

    words: tuple[str, ...]
    redirections: tuple[Redirection, ...]
    begin: int
    end: int


def simple(source: Outline, at: int, end: int | None = None) -> Simple:
    """The simple command at ``at``, up to the operator or line end behind it, or up to ``end``."""
    text, begin = source.text, at
    limit = len(text) if end is None else end
    words: list[str] = []
    redirections: list[Redirection] = []
    while at < limit:
        if text.startswith("\\\n", at):
            at += 2
            continue
        char = text[at]
        if char in scan.BLANKS:
            at += 1
            continue
        if char == "#":
            stop = text.find("\n", at)
            at = limit if stop < 0 else stop
            continue
        match = REDIRECTION.match(text, at)
        if match and text[match.end() : match.end() + 1] != "(":
            at = _redirection(source, match, redirections)
            continue
        if not words and text.startswith("((", at):
            stop = scan.parentheses(text, at)
            words.append(text[at:stop])
            at = stop
            continue
        if char in "\n;|&()":
            break
        stop = _word_end(text, at)
        words.append(text[at:stop])
        at = stop
    return Simple(tuple(words), tuple(redirections), begin, at)


def _word_end(text: str, at: int) -> int:
    if re.match(r"\[\[[ \t\n]", text[at : at + 3]):
        close = patterns.compile(r"(?<=[ \t\n])\]\](?=[ \t\n;&|)]|$)").search(text, at)
        return close.end() if close else len(text)
    return max(scan.word(text, at), at + 1)


def _redirection(source: Outline, match: re.Match[str], found: list[Redirection]) -> int:
    text, at = source.text, match.end()
    while at < len(text) and text[at] in scan.BLANKS:
        at += 1
    stop = scan.word(text, at)
    descriptor = match[0][: len(match[0]) - len(match[1])]
    found.append(Redirection(match[1], descriptor, text[at:stop], source.documents.get(match.start())))
    return stop


def split(text: str) -> list[str]:
    """The words of a text without operators, quotes kept: array elements, ``for`` lists, patterns."""
    return [word for word, _ in _each(text)]


def _each(text: str) -> list[tuple[str, int]]:
    found, at = [], 0
    while at < len(text):
        if text.startswith("\\\n", at):
            at += 2
        elif text[at] in " \t\n":
            at += 1
        elif text[at] == "#":
            stop = text.find("\n", at)
            at = len(text) if stop < 0 else stop
        else:
            stop = max(scan.word(text, at), at + 1)
            found.append((text[at:stop], at))
            at = stop
    return found
