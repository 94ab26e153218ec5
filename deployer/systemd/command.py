"""The commands of ``ExecStart=`` and its like. Source: ``config_parse_exec`` in load-fragment.c (252, 257)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deployer.protocol.records import dataclass
from deployer.systemd.environment import fill_in
from deployer.systemd.lines import Problem
from deployer.systemd.parse import Assignment
from deployer.systemd.specifiers import UnknownSpecifier, expand
from deployer.systemd.words import WHITESPACE, BadQuoting, first_word


@dataclass(frozen=True)
class Command:
    """One command. ``words`` are argv before variables are filled in; behind ``@`` ``words[0]`` is not ``path``.

    ``prefixes`` as written, of ``-@:+!``; ``literal``: behind ``:``, where ``$`` means nothing. ``text`` is the whole
    command as written.
    """

    path: str
    words: tuple[str, ...]
    prefixes: str = ""
    text: str = ""
    line: int = 0
    file: str = ""

    @property
    def literal(self) -> bool:
        return ":" in self.prefixes

    @property
    def may_fail(self) -> bool:
        return "-" in self.prefixes

    def argv(self, env: Mapping[str, str], unset: list[str] | None = None) -> list[str]:
        """What the process gets, with ``env`` for variables; names that are not set are added to ``unset``."""
        return list(self.words) if self.literal else fill_in(self.words, env, unset)


def commands(
    items: Sequence[Assignment], specifiers: Mapping[str, str]
) -> tuple[list[Command], list[Problem]]:
    """The commands of effective assignments. A ``fatal`` problem: systemd refuses the unit.

    Codes: bad-quoting, percent-unknown, relative-execstart, bad-program, empty-command, unknown-escape (stays as it
    stands), semicolon-commands (a lone ``;`` begins a second command).
    """
    found: list[Command] = []
    problems: list[Problem] = []
    for item in items:
        try:
            _read(item, specifiers, found, problems)
        except _Refused as refused:
            problems.append(Problem(refused.code, item.line, str(refused), item.file, not refused.may_fail))
    return found, problems


class _Refused(Exception):
    def __init__(self, code: str, text: str, may_fail: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.may_fail = may_fail


def _read(item: Assignment, specifiers: Mapping[str, str], found: list[Command], problems: list[Problem]) -> None:
    text, at = item.value, 0
    while at < len(text):
        begin = at
        first, at = _word(item, at, problems, True)     # open quotes in the first word drop the command alone
        if first is None:
            return
        if first == ";":                            # an empty command
            continue
        prefixes, path = _prefixes(first)
        may_fail = "-" in prefixes
        path = _expand(path, specifiers, may_fail)
        _check(path, may_fail)
        words = [] if "@" in prefixes else [path]
        more, end = False, len(text)
        while at < len(text):
            if text[at] == ";" and (at + 1 == len(text) or text[at + 1] in WHITESPACE):
                end, at, more = at, at + 1, True
                while at < len(text) and text[at] in WHITESPACE:
                    at += 1
                break
            if text.startswith("\\;", at) and (at + 2 == len(text) or text[at + 2] in WHITESPACE):
                at += 2
                while at < len(text) and text[at] in WHITESPACE:
                    at += 1
                words.append(";")
                continue
            word, at = _word(item, at, problems, may_fail)
            if word is None:
                break
            words.append(_expand(word, specifiers, may_fail))
        if not words or not words[0]:
            raise _Refused("empty-command", "no program, or an empty argv[0]", may_fail)
        whole = text[begin:end].rstrip(WHITESPACE)
        found.append(Command(path, tuple(words), prefixes, whole, item.line, item.file))
        if not more:
            return
        problems.append(Problem("semicolon-commands", item.line, "a lone ';' begins another command", item.file))


def _word(item: Assignment, at: int, problems: list[Problem], may_fail: bool) -> tuple[str | None, int]:
    """``extract_first_word_and_warn``: an unknown escape is kept, with a warning; open quotes are refused."""
    try:
        return first_word(item.value, at, unescape=True)
    except BadQuoting:
        try:
            word = first_word(item.value, at, unescape=True, keep_unknown=True)
        except BadQuoting as error:
            raise _Refused("bad-quoting", str(error), may_fail) from None
        problems.append(Problem("unknown-escape", item.line, "an unknown escape stays as it stands", item.file))
        return word


def _prefixes(word: str) -> tuple[str, str]:
    """The prefixes and the path behind them, which may themselves stand inside the quotes."""
    seen = ""
    for char in word:
        once = char in "-@:" and char not in seen
        rights = char in "+!" and "+" not in seen and seen.count("!") < (2 if char == "!" else 1)
        if not once and not rights:
            break
        seen += char
    return seen, word[len(seen):]


def _expand(text: str, specifiers: Mapping[str, str], may_fail: bool) -> str:
    try:
        return expand(text, specifiers)
    except UnknownSpecifier as error:
        raise _Refused("percent-unknown", f"{error} is no specifier", may_fail) from None


def _check(path: str, may_fail: bool) -> None:
    if not path:
        raise _Refused("empty-command", "no program behind the prefixes", may_fail)
    if any(char < " " or char in "\"'\\\x7f" for char in path):
        raise _Refused("bad-program", f"the program's name holds special characters: {path!r}", may_fail)
    told = path[:1] != "%" and not "\U000f0000" <= path[:1] <= "\U000ffffd"     # else only the host knows the folder
    if told and not path.startswith("/") and "/" in path:
        raise _Refused("relative-execstart", f"{path} is a relative path", may_fail)
    if path.endswith("/"):
        raise _Refused("bad-program", f"{path} is a folder", may_fail)
