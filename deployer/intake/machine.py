"""The state of a shell that is read, not run: variables, functions, folder, files written, servers started."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from deployer.intake.expand import Expander, Value
from deployer.intake.files import Files
from deployer.intake.found import Launch
from deployer.intake.unknown import Unknowns
from deployer.protocol.records import dataclass, field

ACCOUNT = ("HOME", "PATH")
"""Variables that every account has: ``${HOME}`` in a result stands for that account's own value."""
_INHERITED = {*ACCOUNT, "USER", "LOGNAME", "SHELL", "LANG", "TERM", "PWD", "OLDPWD", "SHLVL"}
_OF_THE_MACHINE = {"RANDOM", "SECONDS", "HOSTNAME", "UID", "EUID", "PPID", "BASHPID", "EPOCHSECONDS", "LINENO", "$",
                   "!", "0", "BASH_SOURCE", "OLDPWD", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "HOSTTYPE"}

SUCCESS, FAILURE = 0, 1
MAYBE, ABSENT = -1, -2
"""Statuses that are not known: of a command (taken for success), of a test of a file that is not there."""


class Stop(Exception):
    """The shell ends here: ``exit``, ``exec``."""


class Return(Exception):
    """``return``; ``Leave`` is ``break`` or ``continue``."""


class Leave(Exception):
    def __init__(self, go_on: bool) -> None:
        self.go_on = go_on


class Unknowable(Exception):
    """A command whose output is wanted and cannot be known."""


@dataclass
class Variable:
    value: Value
    exported: bool = False


@dataclass
class World:
    """What all shells of one import share."""

    files: Files
    unknowns: Unknowns = field(default_factory=Unknowns)
    launches: list[Launch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: int = 0
    terminals: dict[str, Machine] = field(default_factory=dict)     # shells that keys are sent to, by their session

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


class Machine:
    """One shell. ``out`` collects what commands print where that is wanted; ``input`` is what they would read."""

    def __init__(self, world: World, cwd: str | None = None, start: str | None = None) -> None:
        self.world = world
        self.unknowns = world.unknowns
        self.start = start                                  # where the script runs, as far as known
        self.cwd = cwd                                      # None: where it began
        self.variables: dict[str, Variable] = {}
        self.inherited: dict[str, str] = {}                 # set by whoever starts the shell, not by it
        self.unset: list[str] = []
        self.functions: dict[str, Any] = {}
        self.positional: list[str] = []
        self.sourced: dict[str, str] = {}
        self.decided: list[str] = []                        # unknown names that conditions rested on
        self.wrapper: list[str] = []
        self.removed: list[str] = []
        self.script = "input.sh"
        self.all_exported = False
        self.exported_later: set[str] = set()               # ``export NAME`` before it has a value
        self.out: list[str] | None = None
        self.input: str | None = None
        self.background: dict[str, Any] | None = None       # of a container around
        self.locals: dict[str, Variable | None] | None = None    # of the function, with what was there before
        self.folders: list[str | None] = []
        self.old: str | None = None
        self.words = Expander(self)
        self.depth = 0
        self.line = 0

    @property
    def folder(self) -> str | None:
        return self.cwd or self.start

    def get(self, name: str) -> Value | None:
        if name in self.variables:
            return self.variables[name].value
        if name in self.unset or name in self.removed:
            return None
        if name in self.inherited:
            return self.inherited[name]
        if name in ACCOUNT:
            return self.unknowns.mark("${" + name + "}", ())
        if name == "PWD":
            return self.folder or self.unknowns.mark("${PWD}", ("PWD",))
        if name == "OLDPWD" and self.old:
            return self.old
        if name == "?":
            return "0"
        if name == "-":
            return "hB"
        if name == "FUNCNAME":
            return ""
        return self.unknowns.variable(name) if name in _OF_THE_MACHINE else None

    def missing(self, name: str) -> str:
        """What a variable without a value leaves: nothing where the script took it away, else a mark."""
        return "" if name in self.unset or name in self.removed else self.unknowns.variable(name)

    def put(self, name: str, value: Value, exported: bool | None = None) -> None:
        name, _, index = name.partition("[")
        before = self.variables.get(name)
        if index and isinstance(value, str):
            value = self._with_element(before.value if before else [], index.rstrip("]"), value)
        was = before.exported if before else name in self.inherited or name in self.exported_later or (
            name in _INHERITED and name not in self.unset)
        self.variables[name] = Variable(value, was or self.all_exported if exported is None else exported)
        if name in self.unset:
            self.unset.remove(name)

    def _with_element(self, value: Value, index: str, item: str) -> Value:
        if isinstance(value, dict):
            return {**value, self.words.text(index): item}
        items = [value] if isinstance(value, str) else list(value)
        place = self.words.arithmetic(index)
        if not re.fullmatch(r"-?\d+", place):
            return [*items, item]
        at = int(place) if int(place) >= 0 else len(items) + int(place)
        items += [""] * (at + 1 - len(items))
        items[at] = item
        return items

    def export(self, name: str, exported: bool = True) -> None:
        if name in self.variables:
            self.variables[name].exported = exported

    def take_away(self, name: str) -> None:
        self.variables.pop(name, None)
        if name not in self.unset:
            self.unset.append(name)

    def environment(self) -> dict[str, str]:
        """The exported variables that the script set, with marks."""
        own = {"PWD", "OLDPWD", "SHLVL", "_"}
        return {name: variable.value for name, variable in self.variables.items()
                if variable.exported and isinstance(variable.value, str) and name not in own}

    def home(self, user: str) -> str:
        if user:
            return self.unknowns.mark("~" + user, ("~" + user,))
        value = self.get("HOME")
        return value if isinstance(value, str) else ""

    def match(self, pattern: str, regex: str) -> Sequence[str] | None:
        if self.unknowns.found(pattern):
            return [pattern]
        return self.world.files.match(pattern, regex, self.folder)

    def substitute(self, text: str) -> str:
        from deployer.intake.run import substitute

        return substitute(self, text)

    def copy(self) -> Machine:
        """A subshell: changes in it stay in it."""
        other = Machine(self.world, self.cwd, self.start)
        other.variables = {name: Variable(v.value, v.exported) for name, v in self.variables.items()}
        other.inherited = dict(self.inherited)
        other.unset, other.removed = list(self.unset), list(self.removed)
        other.functions, other.positional = dict(self.functions), list(self.positional)
        other.sourced, other.decided = dict(self.sourced), self.decided
        other.wrapper, other.background = list(self.wrapper), self.background
        other.script, other.all_exported, other.locals = self.script, self.all_exported, None
        other.exported_later = set(self.exported_later)
        other.out, other.input, other.depth, other.line = self.out, self.input, self.depth, self.line
        return other

    def child(self, env: dict[str, str], removed: Sequence[str] = ()) -> Machine:
        """A shell of its own: it gets exported variables alone."""
        other = Machine(self.world, self.cwd, self.start)
        other.inherited = dict(self.inherited)
        for name, value in env.items():
            other.variables[name] = Variable(value, True)
        other.removed = [*self.removed, *self.unset, *removed]
        other.unset = list(self.unset)
        other.sourced, other.decided = dict(self.sourced), self.decided
        other.wrapper, other.background = list(self.wrapper), self.background
        other.out, other.input, other.depth, other.line = self.out, self.input, self.depth + 1, self.line
        return other
