"""Patterns and braces of the shell. Source: bash(1), "Pattern Matching", "Brace Expansion"."""

from __future__ import annotations

import re

from deployer.intake import scan


def regex(pieces: list[tuple[str, str]]) -> str:
    """A pattern of the shell as a regular expression; pieces of the kind "quo" stand for themselves."""
    found: list[list[str]] = []
    for kind, text in pieces:
        if found and found[-1][0] == kind:
            found[-1][1] += text
        else:
            found.append([kind, text])
    return "".join(re.escape(text) if kind == "quo" else _glob(text) for kind, text in found)


def _glob(text: str) -> str:
    out, at = [], 0
    while at < len(text):
        char = text[at]
        close = text.find("]", at + 2) if char == "[" else -1
        if char == "*":
            out.append("(?s:.*)")
        elif char == "?":
            out.append("(?s:.)")
        elif close > 0:
            inner = text[at + 1 : close].replace("\\", "\\\\")
            out.append("[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]")
            at = close
        else:
            out.append(re.escape(char))
        at += 1
    return "".join(out)


def expand_braces(raw: str) -> list[str]:
    """The words that ``a{b,c}d`` and ``{1..3}`` stand for; quotes are left as they are written."""
    at = 0
    while at < len(raw):
        char = raw[at]
        if char == "{":
            close, commas = _inner(raw, at)
            if close:
                items = [raw[a + 1 : b] for a, b in zip([at, *commas], [*commas, close], strict=True)]
                made = [each for item in items for each in expand_braces(item)] if commas else _sequence(items[0])
                if made is not None:
                    tails = expand_braces(raw[close + 1 :])
                    return [raw[:at] + item + tail for item in made for tail in tails]
            at += 1
        else:
            at = _skip(raw, at)
    return [raw]


def _skip(raw: str, at: int) -> int:
    char = raw[at]
    if char == "\\":
        return at + 2
    if char == "'":
        return scan.single(raw, at)
    if char == '"':
        return scan.double(raw, at)
    if char == "`":
        return scan.backtick(raw, at)
    return scan.dollar(raw, at) if char == "$" else at + 1


def _inner(raw: str, at: int) -> tuple[int, list[int]]:
    """The closing brace of the one at ``at`` (0: none), and the commas between that are its own."""
    depth = 0
    commas: list[int] = []
    while at < len(raw):
        char = raw[at]
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                return at, commas
        elif char == "," and depth == 1:
            commas.append(at)
        at = at + 1 if char in "{}," else _skip(raw, at)
    return 0, []


def _sequence(text: str) -> list[str] | None:
    match = re.fullmatch(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?", text)
    if match:
        first, last, step = int(match[1]), int(match[2]), abs(int(match[3] or 1)) or 1
        width = max(len(item) for item in match.groups()[:2]) if re.match(r"-?0\d", match[1]) or re.match(
            r"-?0\d", match[2]) else 0
        if abs(last - first) // step > 10_000:
            return None
        numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
        return [f"{number:0{width}d}" for number in numbers]
    letters = re.fullmatch(r"([A-Za-z])\.\.([A-Za-z])", text)
    if letters:
        first, last = ord(letters[1]), ord(letters[2])
        return [chr(code) for code in (range(first, last + 1) if first <= last else range(first, last - 1, -1))]
    return None
