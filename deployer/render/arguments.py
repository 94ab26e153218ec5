"""``[args]`` as words of a command line: what is declared is what the process gets, or it is a finding."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from deployer.protocol import patterns
from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.render.spelling import Spelling
from deployer.settings.model import UnitSettings
from deployer.systemd import quote

_NUMBER = patterns.compile(r"-\d+$|-\d*\.\d+$")
"""What argparse takes for a negative number; any other value that begins with a dash it takes for a flag."""


@dataclass(frozen=True)
class Argument:
    """One declared argument: its name in the settings, and the words that stand for it."""

    name: str
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        """The words as they stand in ``ExecStart=``. Raises ``QuotingError``."""
        return " ".join(quote.word(word) for word in self.words)


def declared(settings: UnitSettings) -> dict[str, Any]:
    """``[args]`` with the entries of a ``config`` table taken in: the command line comes before SGLang's config file,
    so an entry that is declared in both places counts as it stands in ``[args]``."""
    args = dict(settings.args)
    config = args.get("config")
    if not isinstance(config, Mapping):
        return args
    del args["config"]
    taken = {dest(name) for name in args}
    return {**args, **{str(name): value for name, value in config.items() if dest(str(name)) not in taken}}


def dest(name: str) -> str:
    """The name under which argparse keeps an argument, as far as its spelling tells."""
    return name.lstrip("-").replace("-", "_")


def arguments(settings: UnitSettings, spelling: Spelling) -> tuple[list[Argument], list[Finding]]:
    """The command line's arguments in the declared order; findings have the key of the argument they are about."""
    found: list[Argument] = []
    findings: list[Finding] = []
    seen: dict[str, str] = {}
    for name, value in declared(settings).items():
        key = ("args", name)
        if dest(name) in seen:
            findings.append(Finding("declared-twice", Level.ERROR, f"{name} is declared twice, as {seen[dest(name)]} "
                                    "too", key))
            continue
        seen[dest(name)] = name
        try:
            argument = Argument(name, tuple(_words(name, value, spelling)))
            if argument.line:
                found.append(argument)
        except quote.QuotingError as error:
            findings.append(Finding(error.code, Level.ERROR, f"{name}: {error}", key))
        except ValueError as error:
            findings.append(Finding("bad-argument", Level.ERROR, f"{name}: {error}", key))
    return found, findings


def _words(name: str, value: Any, spelling: Spelling) -> Iterable[str]:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name.lstrip("-")):
        raise ValueError("this is no name of an argument")
    flag = spelling.of(name)
    if isinstance(value, bool):
        yield from _switch(flag, value, spelling)
    elif isinstance(value, list):
        values = [text(item) for item in value]
        if any(_looks_like_flag(item) for item in values):
            raise ValueError("a list cannot hold a value that begins with a dash: it would be read as an argument")
        yield flag
        yield from values
    else:
        written = text(value)
        if _looks_like_flag(written):
            yield f"{flag}={written}"
        else:
            yield flag
            yield written


def _switch(flag: str, value: bool, spelling: Spelling) -> Iterable[str]:
    if spelling.takes_boolean(flag):
        yield flag
        yield text(value)
    elif value:
        yield flag
    else:
        negative = spelling.negative(flag)
        if negative:
            yield negative


def text(value: Any) -> str:
    """One value as a word: text as it is, a number as it was written, a table or a list in it as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_not_json)
    if isinstance(value, (int, float)):
        return str(getattr(value, "written", value))
    raise ValueError(f"{type(value).__name__} is no value of an argument")


def _not_json(value: Any) -> Any:
    raise ValueError(f"{type(value).__name__} cannot stand in a table")


def _looks_like_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)
