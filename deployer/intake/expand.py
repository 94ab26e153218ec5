"""Words of the shell to the words that a program gets. Source: bash(1) 5.2, "EXPANSION", in its order.

A value that cannot be known is one private character (``Unknowns``): it goes through every expansion as text that is
neither split nor matched, and is written out as ``${NAME}`` in the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from deployer.intake import parameters, scan
from deployer.intake.arithmetic import Unreadable, evaluate
from deployer.intake.patterns import expand_braces
from deployer.intake.unknown import Unknowns
from deployer.protocol import patterns

Piece = tuple[str, str]
"""("lit" | "quo" | "exp" | "brk", text): written as it is, quoted, from an unquoted expansion, the end of a field."""
Value = str | list[str] | dict[str, str]


class Shell(Protocol):
    """What expansion needs of the shell that it happens in."""

    unknowns: Unknowns
    positional: list[str]

    def get(self, name: str) -> Value | None: ...
    def put(self, name: str, value: str) -> None: ...
    def substitute(self, text: str) -> str: ...
    def match(self, pattern: str, regex: str) -> Sequence[str] | None: ...
    def home(self, user: str) -> str: ...
    def missing(self, name: str) -> str: ...


class Expander:
    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    def fields(self, words: Sequence[str]) -> list[str]:
        """The words that the written ``words`` become: braces, expansions, splitting, file names."""
        return [field for word in words for raw in expand_braces(word) for field in self._fields(raw)]

    def text(self, raw: str, *, assignment: bool = False) -> str:
        """One text without splitting: the value of an assignment, a target, a ``case`` word."""
        pieces = self.pieces(raw, assignment=assignment)
        return "".join(" " if kind == "brk" else text for kind, text in pieces)

    def document(self, text: str) -> str:
        """A here-document whose delimiter is not quoted."""
        return "".join(" " if kind == "brk" else part for kind, part in self._double(text, heredoc=True))

    def _fields(self, raw: str) -> list[str]:
        found: list[list[Piece]] = []
        current: list[Piece] | None = None
        ifs = self.shell.get("IFS")
        blanks = ifs if isinstance(ifs, str) else " \t\n"
        splitter = patterns.compile("[" + re.escape(blanks) + "]+") if blanks else None
        for kind, text in self.pieces(raw):
            if kind == "brk":
                found.append(current or [])
                current = None
                current = []
            elif kind == "exp" and splitter:
                parts = splitter.split(text)
                for index, part in enumerate(parts):
                    if index:
                        if current:
                            found.append(current)
                        current = None
                    if part:
                        current = [*(current or []), ("lit", part)]
            else:
                current = [*(current or []), ("lit" if kind == "exp" else kind, text)]
        if current is not None and (current or found):
            found.append(current)
        return [name for field in found for name in self._names(field)]

    def _names(self, field: list[Piece]) -> Sequence[str]:
        text = "".join(part for _, part in field)
        if re.search(r"[*?]|\[.+\]", "".join(part if kind == "lit" else "_" for kind, part in field)):
            from deployer.intake.patterns import regex

            names = self.shell.match(text, regex([(kind, part) for kind, part in field]))
            if names is None:
                return [self.shell.unknowns.mark(text, (text,))]
            return names or [text]
        return [text]

    def pieces(self, raw: str, *, assignment: bool = False) -> list[Piece]:
        """The pieces of one written word."""
        found: list[Piece] = []
        assigns = assignment or bool(scan.ASSIGNMENT.match(raw))
        at = 0
        while at < len(raw):
            char = raw[at]
            if raw.startswith("\\\n", at):
                at += 2
            elif char == "\\":
                found.append(("quo", raw[at + 1 : at + 2] or "\\"))
                at += 2
            elif char == "'":
                end = scan.single(raw, at)
                found.append(("quo", raw[at + 1 : end].removesuffix("'")))
                at = end
            elif char == '"' or raw.startswith('$"', at):
                at += char == "$"
                end = scan.double(raw, at)
                found += self._quoted(raw[at + 1 : end - 1])
                at = end
            elif raw.startswith("$'", at):
                end = scan.ansi(raw, at + 1)
                found.append(("quo", ansi_text(raw[at + 2 : end].removesuffix("'"))))
                at = end
            elif char == "$" or char == "`":
                end = scan.dollar(raw, at) if char == "$" else scan.backtick(raw, at)
                found += self._expansion(raw[at:end], False)
                at = end
            elif char == "~" and (at == 0 or (assigns and raw[at - 1] in ":=")):
                name = re.match(r"~([A-Za-z0-9_.+-]*)(?=[/:]|$)", raw[at:])
                found.append(("quo", self.shell.home(name[1])) if name else ("lit", "~"))
                at += name.end() if name else 1
            elif char in "<>" and raw[at + 1 : at + 2] == "(":
                end = scan.parentheses(raw, at + 1)
                found.append(("quo", self.shell.unknowns.mark(raw[at:end], (raw[at:end],))))
                at = end
            else:
                found.append(("lit", char))
                at += 1
        return found

    def _quoted(self, inner: str) -> list[Piece]:
        pieces = self._double(inner)
        listed = re.fullmatch(r"\$@|\$\{@\}|\$\{\w+\[@\][^{}]*\}|\$\{@[^{}]*\}", inner)
        return pieces if pieces or listed else [("quo", "")]

    def _double(self, text: str, *, heredoc: bool = False) -> list[Piece]:
        found: list[Piece] = []
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n") and not (
                    heredoc and text[at + 1] == '"'):
                found.append(("quo", "" if text[at + 1] == "\n" else text[at + 1]))
                at += 2
            elif char in "$`":
                end = scan.dollar(text, at, quoted=True) if char == "$" else scan.backtick(text, at)
                found += self._expansion(text[at:end], True)
                at = end
            else:
                found.append(("quo", char))
                at += 1
        return found

    def operand(self, raw: str, quoted: bool) -> list[Piece]:
        """The word behind ``:-`` and its like: in double quotes only inner double quotes are removed."""
        if not quoted:
            return [("exp" if kind == "lit" else kind, text) for kind, text in self.pieces(raw)]
        found: list[Piece] = []
        at = begin = 0
        while at < len(raw):
            if raw[at] == '"':
                found += self._double(raw[begin:at])
                end = scan.double(raw, at)
                found += self._double(raw[at + 1 : end - 1])
                at = begin = end
            else:
                at += 2 if raw[at] == "\\" else 1
        return found + self._double(raw[begin:])

    def _expansion(self, raw: str, quoted: bool) -> list[Piece]:
        kind = "quo" if quoted else "exp"
        if raw.startswith("$((") and raw.endswith("))"):
            return [(kind, self.arithmetic(raw[3:-2]))]
        if raw.startswith("$("):
            return [(kind, self.shell.substitute(raw[2:].removesuffix(")")))]
        if raw.startswith("`"):
            inner = re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", raw[1:].removesuffix("`"))
            return [(kind, self.shell.substitute(inner))]
        if raw == "$":
            return [("quo" if quoted else "lit", "$")]
        body = raw[2:].removesuffix("}") if raw.startswith("${") else raw[1:]
        return parameters.expand(self, body, quoted)

    def arithmetic(self, raw: str) -> str:
        """The value of an arithmetic expression; what rests on something unknown is unknown itself."""
        text = "".join(part for _, part in self._double(raw.replace('"', "")))
        names: list[str] = []

        def get(name: str) -> str:
            value = self.shell.get(name)
            if value is None:
                value = self.shell.missing(name)
            if isinstance(value, list):
                value = value[0] if value else ""
            read = value if isinstance(value, str) else ""
            if self.shell.unknowns.found(read):
                names.extend(self.shell.unknowns.names(read))
                raise Unreadable(name)
            return read

        try:
            if self.shell.unknowns.found(text):
                names.extend(self.shell.unknowns.names(text))
                raise Unreadable(text)
            return str(evaluate(text, get, self.shell.put))
        except (Unreadable, RecursionError):
            return self.shell.unknowns.mark(f"$(({self.shell.unknowns.shown(raw)}))", tuple(names) or (raw.strip(),))


_HEX = "[0-9A-Fa-f]"
_ANSI = patterns.compile(
    rf"\\(?:x({_HEX}{{1,2}})|u({_HEX}{{1,4}})|U({_HEX}{{1,8}})|([0-7]{{1,3}})|c(.)|(.))", re.DOTALL
)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v",
          "\\": "\\", "'": "'", '"': '"', "?": "?"}


def ansi_text(text: str) -> str:
    """The text of ``$'…'``."""
    def one(match: re.Match[str]) -> str:
        byte, short, long, octal, control, char = match.groups()
        if byte or octal:
            code = int(byte, 16) if byte else int(octal, 8) & 0xFF
            return chr(code) if code < 0x80 else chr(0xDC00 + code)
        if short or long:
            return chr(min(int(short or long, 16), 0x10FFFF))
        return chr(ord(control) & 0x1F) if control else _NAMED.get(char, "\\" + char)

    found = _ANSI.sub(one, text)
    return found if found.isascii() else found.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")

