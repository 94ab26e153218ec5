"""Variables: ``Environment=``, environment files, and ``$`` in commands. Source: env-file.c, env-util.c (252-257)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from deployer.protocol import patterns
from deployer.protocol.records import dataclass
from deployer.systemd.lines import Problem
from deployer.systemd.parse import Assignment, is_text
from deployer.systemd.quote import is_variable
from deployer.systemd.specifiers import UnknownSpecifier, expand
from deployer.systemd.words import WHITESPACE, BadQuoting, first_word, split


def assignments(
    items: Sequence[Assignment], specifiers: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem]]:
    """The variables of effective ``Environment=`` lines, the later of a name winning, and what systemd drops.

    Codes: percent-unknown, bad-environment (no ``NAME=``, a bad name, not text), bad-quoting (the rest of the line).
    """
    found: dict[str, str] = {}
    problems: list[Problem] = []

    def drop(code: str, item: Assignment, text: str) -> None:
        problems.append(Problem(code, item.line, text, item.file))

    for item in items:
        at = 0
        while True:
            try:
                word, at = first_word(item.value, at, unescape=True)
            except BadQuoting as error:
                drop("bad-quoting", item, f"{error}: the rest of the line is ignored")
                break
            if word is None:
                break
            try:
                word = expand(word, specifiers)
            except UnknownSpecifier as error:
                drop("percent-unknown", item, f"{error} is no specifier: {word.split('=')[0]} is not set")
                continue
            name, equals, value = word.partition("=")
            if not equals or not is_variable(name) or not is_text(value):
                drop("bad-environment", item, f"{word[:60]!r} is no assignment: ignored")
                continue
            found[name] = value
    return found, problems


def without(env: Mapping[str, str], unset: Sequence[str]) -> dict[str, str]:
    """``env`` less what the words of ``UnsetEnvironment=`` name: ``NAME``, or ``NAME=value`` for that value alone."""
    return {name: value for name, value in env.items() if name not in unset and f"{name}={value}" not in unset}


@dataclass(frozen=True)
class FileEntry:
    """``NAME=value`` of an environment file, at its line. ``valid``: systemd takes the name."""

    name: str
    value: str
    line: int
    valid: bool


def entries(text: str | bytes, *, systemd: int = 252) -> tuple[list[FileEntry], list[Problem]]:
    """The assignments of an environment file in order. One byte that is not text fails the whole unit (``fatal``).

    Up to 253 a remark that ends in a backslash goes on in the next line; from 254 it does not.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    found, problems = [], []
    for name, value, line in _read(text, systemd):
        if not is_text(name) or not is_text(value):
            problems.append(Problem("not-utf-8", line, "bytes that are not UTF-8: the unit fails", fatal=True))
            continue
        if not is_variable(name):
            problems.append(Problem("bad-environment", line, f"{name[:60]!r} is no name of a variable: ignored"))
        found.append(FileEntry(name, value, line, is_variable(name)))
    return found, problems


_NAME = patterns.compile(r".[^=\n\r]*", re.DOTALL)
"""A name's first character is taken as it comes, even a ``=``."""


def _read(text: str, systemd: int) -> Iterator[tuple[str, str, int]]:
    """``parse_env_file_internal`` as a walk over the lines, in the states of the original."""
    at, line, size = 0, 1, len(text)
    while at < size:
        char = text[at]
        if char in WHITESPACE:
            line += char == "\n"
            at += 1
            continue
        if char in "#;":
            at, line = _comment(text, at, line, systemd)
            continue
        match = _NAME.match(text, at)
        assert match is not None
        name, at = match[0], match.end()
        if at >= size or text[at] != "=":
            continue
        begun = line
        value, at, line = _value(text, at + 1, line)
        yield name.rstrip(WHITESPACE), value, begun


def _comment(text: str, at: int, line: int, systemd: int) -> tuple[int, int]:
    while at < len(text):
        char = text[at]
        if char in "\n\r":
            return at, line
        if char == "\\":
            if at + 1 < len(text) and text[at + 1] in "\n\r" and systemd >= 254:
                return at + 1, line
            line += text[at + 1:at + 2] == "\n"
            at += 2
            continue
        at += 1
    return at, line


def _value(text: str, at: int, line: int) -> tuple[str, int, int]:
    out: list[str] = []
    blanks = None                       # where blanks at the end of a bare value begin
    state = "before"
    while at < len(text):
        char = text[at]
        if state in ("before", "bare"):
            if char in "\n\r":
                break
            if char == "\\":
                if text[at + 1:at + 2] not in ("\n", "\r", ""):
                    out.append(text[at + 1])
                line += text[at + 1:at + 2] == "\n"
                at, state, blanks = at + 2, "bare", None
                continue
            if state == "before" and char in "'\"":
                state = char
            elif state == "bare" or char not in WHITESPACE:
                if char not in WHITESPACE:
                    blanks = None
                elif blanks is None:
                    blanks = len(out)
                state = "bare"
                out.append(char)
        elif char == state:
            state = "before"
        elif state == '"' and char == "\\":
            after = text[at + 1:at + 2]
            line += after == "\n"
            if after and after in '"\\`$':
                out.append(after)
            elif after and after != "\n":
                out.append("\\" + after)
            at += 2
            continue
        else:
            line += char == "\n"
            out.append(char)
        at += 1
    if state == "bare" and blanks is not None:
        del out[blanks:]
    return "".join(out), at, line


def fill_in(
    words: Sequence[str], env: Mapping[str, str], unset: list[str] | None = None
) -> list[str]:
    """``replace_env_argv``: ``$NAME`` as a whole word becomes the words of its value, ``${NAME}`` the value as it is.

    A variable that is not set leaves nothing, or an empty text for ``${NAME}``; its name is added to ``unset``.
    """
    found: list[str] = []
    for word in words:
        if word.startswith("$") and word[1:2] not in ("{", "$"):
            if word[1:] in env:
                found.extend(split(env[word[1:]], relax=True))
            elif unset is not None:
                unset.append(word[1:])
            continue
        found.append(_replace(word, env, unset) if "$" in word else word)
    return found


def _replace(text: str, env: Mapping[str, str], unset: list[str] | None) -> str:
    """``replace_env``: ``${NAME}`` and ``$$``; any other ``$`` is itself."""
    out: list[str] = []
    begin = at = 0
    state = "word"
    while at < len(text):
        char = text[at]
        if state == "word":
            state = "dollar" if char == "$" else "word"
        elif state == "dollar":
            state = "word"
            if char == "{":
                out.append(text[begin:at - 1])
                begin, state = at - 1, "name"
            elif char == "$":
                out.append(text[begin:at])
                begin = at + 1
        elif char == "}":
            name = text[begin + 2:at]
            if name not in env and unset is not None:
                unset.append(name)
            out.append(env.get(name, ""))
            begin, state = at + 1, "word"
        elif char == ":":
            state = "word"
        at += 1
    out.append(text[begin:])
    return "".join(out)
