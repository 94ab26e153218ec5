"""Where the pieces of shell text end: quotes, expansions, words. As bash(1) 5.2 reads them, "QUOTING", "EXPANSION".

Only space and tab part words and only a line feed ends a line: a carriage return, a no-break blank and the like are
plain letters to bash, whatever a general parser makes of them.
"""

from __future__ import annotations

from deployer.protocol import patterns

BLANKS = " \t"
METACHARACTERS = " \t\n|&;()<>"
NAME = patterns.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNMENT = patterns.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(\+?=)")


def single(text: str, at: int) -> int:
    """The end of ``'…'`` that begins at ``at``."""
    end = text.find("'", at + 1)
    return len(text) if end < 0 else end + 1


def ansi(text: str, at: int) -> int:
    """The end of ``$'…'``, whose quote stands at ``at``."""
    at += 1
    while at < len(text) and text[at] != "'":
        at += 2 if text[at] == "\\" else 1
    return min(at + 1, len(text))


def double(text: str, at: int) -> int:
    """The end of ``"…"`` that begins at ``at``."""
    at += 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            at += 2
        elif text[at] == "$":
            at = dollar(text, at, quoted=True)
        elif text[at] == "`":
            at = backtick(text, at)
        else:
            at += 1
    return min(at + 1, len(text))


def backtick(text: str, at: int) -> int:
    """The end of a command substitution in backticks."""
    at += 1
    while at < len(text) and text[at] != "`":
        at += 2 if text[at] == "\\" else 1
    return min(at + 1, len(text))


def dollar(text: str, at: int, *, quoted: bool = False) -> int:
    """The end of the expansion whose ``$`` stands at ``at``; behind the dollar alone where it begins none."""
    after = text[at + 1 : at + 2]
    if after == "'" and not quoted:
        return ansi(text, at + 1)
    if after == '"' and not quoted:
        return double(text, at + 1)
    if after == "{":
        return braces(text, at + 1, quoted=quoted)
    if after == "(":
        return parentheses(text, at + 1)
    if after and after in "@*#?-$!0123456789":
        return at + 2
    name = NAME.match(text, at + 1)
    return name.end() if name else at + 1


def braces(text: str, at: int, *, quoted: bool = False) -> int:
    """The end of ``{…}`` of a parameter expansion: the first closing brace ends it, inner opening ones do not count."""
    at += 1
    while at < len(text) and text[at] != "}":
        at = _piece(text, at, quoted)
    return min(at + 1, len(text))


def parentheses(text: str, at: int) -> int:
    """The end of ``(…)`` with whatever commands, arithmetic or array elements are in it."""
    depth, begin = 0, True
    while at < len(text):
        char = text[at]
        if char == "#" and begin:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        if char in "()":
            depth += 1 if char == "(" else -1
            at += 1
            if not depth:
                return at
        else:
            at = _piece(text, at, False)
        begin = char in METACHARACTERS
    return len(text)


def _piece(text: str, at: int, quoted: bool) -> int:
    char = text[at]
    if char == "\\":
        return at + 2
    if char == "'" and not quoted:
        return single(text, at)
    if char == '"':
        return double(text, at)
    if char == "`":
        return backtick(text, at)
    return dollar(text, at, quoted=quoted) if char == "$" else at + 1


def word(text: str, at: int) -> int:
    """The end of the word that begins at ``at``: ``NAME=(…)`` and ``<(…)`` are parts of words."""
    begin = at
    while at < len(text):
        char = text[at]
        if char == "(" and at > begin and text[at - 1] == "=" and _assigns(text, begin, at):
            at = parentheses(text, at)
        elif char in "<>" and text[at + 1 : at + 2] == "(" and at == begin:
            at = parentheses(text, at + 1)
        elif char in METACHARACTERS:
            return at
        else:
            at = min(_piece(text, at, False), len(text))
    return len(text)


def _assigns(text: str, begin: int, at: int) -> bool:
    match = ASSIGNMENT.match(text, begin)
    return bool(match and match.end() == at)
