"""``${…}`` in all its forms. Source: bash(1) 5.2, "Parameter Expansion"."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from deployer.intake.patterns import regex
from deployer.protocol import patterns

if TYPE_CHECKING:
    from deployer.intake.expand import Expander, Piece, Value

_BODY = patterns.compile(r"(?P<mark>[!#](?=[A-Za-z_0-9@*?\-$]))?(?P<name>[A-Za-z_]\w*|\d+|[@*#?$!-])"
                         r"(?:\[(?P<index>[^\]]*)\])?(?P<rest>.*)", re.DOTALL)


def expand(words: Expander, body: str, quoted: bool) -> list[Piece]:
    """The pieces of ``${body}`` or ``$body``."""
    match = _BODY.fullmatch(body)
    if not match or (match["mark"] == "!" and match["rest"][:1] in ("*", "@")):
        return [("quo", words.shell.unknowns.mark("${" + body + "}", (body,)))]
    mark, name, index, rest = match["mark"], match["name"], match["index"], match["rest"]
    if mark == "#" and rest:
        mark, name, rest = None, "#", body[1:]
    if mark == "!" and index is None:
        target = words.shell.get(name)
        if not isinstance(target, str) or not re.fullmatch(r"[A-Za-z_]\w*(\[[^\]]*\])?", target):
            return [("quo", words.shell.unknowns.mark("${" + body + "}", (name,)))]
        return expand(words, target + rest, quoted)
    values, listed = _values(words, name, index, mark == "!")
    if mark == "#":
        if values and any(words.shell.unknowns.found(value) for value in values) and not listed:
            return [("quo", words.shell.unknowns.mark("${" + body + "}", words.shell.unknowns.names(*values)))]
        return [("quo", str(len(values or ()) if listed else len((values or [""])[0])))]
    outcome = _operate(words, name, index, rest, values, listed, quoted)
    if isinstance(outcome, _Operand):
        return outcome.pieces
    if outcome is None:
        left = words.shell.missing(name)
        return [("quo" if quoted or left else "exp", left)]
    return _joined(words, outcome, listed, name == "*" or index == "*", quoted)


class _Operand:
    """An expansion that became the word behind its operator."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces


def _joined(words: Expander, values: list[str], listed: bool, star: bool, quoted: bool) -> list[Piece]:
    kind = "quo" if quoted else "exp"
    if not listed:
        return [(kind, values[0] if values else "")]
    if star and quoted:
        ifs = words.shell.get("IFS")
        return [(kind, (ifs[:1] if isinstance(ifs, str) else " ").join(values))]
    found: list[Piece] = []
    for position, value in enumerate(values):
        if position:
            found.append(("brk", ""))
        found.append((kind, value))
    return found


def _values(words: Expander, name: str, index: str | None, keys: bool) -> tuple[list[str] | None, bool]:
    """The values of a parameter (None: it has none), and whether they are a list."""
    shell = words.shell
    if name in ("@", "*"):
        return list(shell.positional), True
    if name == "#":
        return [str(len(shell.positional))], False
    if name.isdigit() and name != "0":
        place = int(name)
        return ([shell.positional[place - 1]] if place <= len(shell.positional) else None), False
    value = shell.get(name)
    if index in ("@", "*"):
        if value is None:
            return [], True
        if isinstance(value, str):
            return (["0"] if keys else [value]), True
        items = list(value) if isinstance(value, dict) else [str(i) for i in range(len(value))]
        return (items if keys else list(value.values() if isinstance(value, dict) else value)), True
    return _element(words, value, index), False


def _element(words: Expander, value: Value | None, index: str | None) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, dict):
        key = words.text(index or "0")
        return [value[key]] if key in value else None
    if isinstance(value, str):
        return [value] if index in (None, "0") else None
    place = words.arithmetic(index or "0")
    try:
        return [value[int(place)]]
    except ValueError:
        return [place]
    except IndexError:
        return None


def _operate(
    words: Expander, name: str, index: str | None, rest: str, values: list[str] | None, listed: bool, quoted: bool
) -> list[str] | _Operand | None:
    if not rest:
        return values
    colon = rest[0] == ":" and rest[1:2] in ("-", "=", "+", "?")
    operator, operand = (rest[1], rest[2:]) if colon else (rest[0], rest[1:])
    if operator in "-=+?" and (colon or rest[0] in "-=+?"):
        given = values is not None and (not listed or bool(values))
        given = given and not (colon and all(not value for value in values or ()))
        if operator == "+":
            return _Operand(words.operand(operand, quoted)) if given else _Operand([])
        if given:
            return values
        if operator == "?":
            return None
        if operator == "=":
            text = "".join(" " if kind == "brk" else part for kind, part in words.operand(operand, quoted))
            words.shell.put(name, text)
            return [text]
        return _Operand(words.operand(operand, quoted))
    if values is None:
        return None
    if rest[0] == ":":
        return _slice(words, values, rest[1:], listed, name in ("@", "*"))
    return [_change(words, value, rest) for value in values]


def _slice(words: Expander, values: list[str], rest: str, listed: bool, positional: bool) -> list[str]:
    begin, colon, length = rest.partition(":")
    try:
        first = int(words.arithmetic(begin))
        size = int(words.arithmetic(length)) if colon else None
    except ValueError:
        return [words.shell.unknowns.mark("${…:" + rest + "}", (rest,))]
    if listed:
        first = first - 1 if positional and first > 0 else first
        first = max(len(values) + first, 0) if first < 0 else first
        return values[first : None if size is None else first + size]
    value = values[0]
    first = max(len(value) + first, 0) if first < 0 else first
    return [value[first:] if size is None else value[first : first + size if size >= 0 else size]]


def _change(words: Expander, value: str, rest: str) -> str:
    operator = rest[0]
    if operator in "#%":
        long = rest[1:2] == operator
        pattern = regex(_pattern(words, rest[2 if long else 1:]))
        return _cut(value, pattern, operator, long)
    if operator == "/":
        kind = rest[1:2] if rest[1:2] in ("/", "#", "%") else ""
        what, _, new = _halves(rest[1 + len(kind):])
        pattern = regex(_pattern(words, what))
        pattern = f"^(?:{pattern})" if kind == "#" else f"(?:{pattern})$" if kind == "%" else pattern
        text = "".join(part for _, part in words.pieces(new))
        return re.sub(pattern, lambda _: text, value, count=0 if kind == "/" else 1) if what else value
    if operator in "^,":
        change = str.upper if operator == "^" else str.lower
        return change(value) if rest[1:2] == operator else change(value[:1]) + value[1:]
    if operator == "@":
        changed = {"Q": shlex.quote(value), "U": value.upper(), "L": value.lower(), "u": value[:1].upper() + value[1:]}
        return changed.get(rest[1:2], value)
    return words.shell.unknowns.mark("${…" + rest + "}", (rest,))


def _pattern(words: Expander, raw: str) -> list[Piece]:
    return [("lit" if kind == "exp" else kind, text) for kind, text in words.pieces(raw)]


def _halves(text: str) -> tuple[str, str, str]:
    """The pattern and the text in its place, at the first slash that is not escaped."""
    match = re.match(r"((?:\\.|[^\\/])*)(/?)(.*)", text, re.DOTALL)
    assert match is not None
    return match[1], match[2], match[3]


def _cut(value: str, pattern: str, operator: str, long: bool) -> str:
    sizes = range(len(value) + 1)
    if operator == "#":
        for size in reversed(sizes) if long else sizes:
            if re.fullmatch(pattern, value[:size]):
                return value[size:]
    else:
        for size in sizes if long else reversed(sizes):
            if re.fullmatch(pattern, value[size:]):
                return value[:size]
    return value
