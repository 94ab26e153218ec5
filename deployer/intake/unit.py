"""A unit file with its drop-ins and environment files: what systemd would run, with which variables."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.intake import traps
from deployer.intake.directives import directives, ignored
from deployer.intake.files import Files
from deployer.intake.found import Launch, server
from deployer.intake.launch import start
from deployer.intake.machine import Machine, World
from deployer.intake.manager import Manager, manager
from deployer.protocol.records import dataclass, field, replace
from deployer.systemd import environment
from deployer.systemd.command import Command, commands
from deployer.systemd.lines import Problem
from deployer.systemd.parse import Unit, UnitText, merge, parse

EXECS = ("ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost")


@dataclass
class UnitFound:
    """``launches`` is empty where systemd refuses the unit; ``would``: what its commands would start nevertheless.

    ``traps`` are findings' codes in the order of the places of ``problems``. ``extra``: further figures of containers.
    """

    name: str
    launches: list[Launch]
    env: dict[str, str]
    directives: dict[str, dict[str, Any]]
    ignored: dict[str, dict[str, Any]]
    problems: list[Problem]
    notes: list[str]
    user: bool = False
    refused: bool = False
    would: list[Launch] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def traps(self) -> list[str]:
        return list(dict.fromkeys(problem.code for problem in self.problems))


@dataclass(frozen=True)
class Source:
    """A unit's texts: ``dropins`` by the names of their files. ``user``: of a user's manager; None: judge by the text.

    ``home`` is that user's home folder, where it is known.
    """

    name: str
    text: bytes
    file: str = ""
    dropins: Mapping[str, bytes] = field(default_factory=dict)
    user: bool | None = None
    home: str | None = None


def read(source: Source, files: Files) -> UnitFound:
    """Reads a service unit. Nothing is run; environment files are read through ``files``."""
    unit, problems = parsed(source)
    world = World(files)
    kind = manager(unit, source.user, source.home, source.name, world.unknowns)
    given, more = variables(unit, kind, files, world)
    found: dict[str, list[Command]] = {}
    problems += more
    for key in EXECS:
        found[key], wrong = commands(unit.effective("Service", key), kind.specifiers)
        problems += wrong
    problems += refusals(unit, found)
    refused = unit.refused or any(problem.fatal for problem in problems)
    launches: list[Launch] = []
    unset: list[str] = []
    for command in found["ExecStart"]:
        launches += _follow(command, unit, kind, given, world, unset)
    would, launches = (launches, []) if refused else ([], launches)
    seen = traps.Seen(unit, source, kind, given, found, launches, unset, problems, refused)
    shown = world.unknowns.shown
    return UnitFound(
        source.name, launches, {key: shown(value) for key, value in sorted(given.env.items())},
        directives(unit, found), ignored(unit), traps.judge(seen), world.notes, kind.user, refused, would,
    )


def parsed(source: Source, sections: Sequence[str] = ("Unit", "Service", "Install")) -> tuple[Unit, list[Problem]]:
    """The unit with its drop-ins, and what reading it alone shows."""
    main = parse(source.text, source.file or source.name, sections)
    parts: list[UnitText] = [parse(text, name, sections) for name, text in source.dropins.items()]
    return merge(main, parts), []


@dataclass
class Given:
    """``env``: what the unit's text and its files set, with marks. ``base``: what the manager adds by itself.

    ``missing``: environment files that must be there and are not here: what they set is not known.
    """

    env: dict[str, str]
    base: dict[str, str]
    from_files: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def variables(unit: Unit, kind: Manager, files: Files, world: World) -> tuple[Given, list[Problem]]:
    """``Environment=`` and, over it, ``EnvironmentFile=``, whose patterns stand for files in sorted order."""
    env, problems = environment.assignments(unit.effective("Service", "Environment"), kind.specifiers)
    given = Given({}, kind.base(unit))
    for item in unit.effective("Service", "EnvironmentFile"):
        optional, path = item.value.startswith("-"), kind.expand(item.value.removeprefix("-"))
        texts = matching(path, files)
        for place, text in texts.items():
            entries, wrong = environment.entries(text)
            problems += [replace(problem, file=place) for problem in wrong if problem.fatal]
            given.from_files |= {entry.name: entry.value for entry in entries if entry.valid}
            given.texts[place] = text
        if not texts and not optional:
            given.missing.append(world.unknowns.shown(path))
            world.note(f"line {item.line}: {given.missing[-1]} is not here: what it sets is not known")
    env |= given.from_files
    given.env = environment.without(env, unit.words("Service", "UnsetEnvironment"))
    return given, problems


def matching(pattern: str, files: Files) -> dict[str, str]:
    """The environment files that a path or pattern stands for."""
    if not re.search(r"[*?\[]", pattern):
        text = files.read(pattern)
        return {} if text is None else {pattern: text}
    folder, _, last = pattern.rpartition("/")
    names = files.match(pattern, fnmatch.translate(last), None) or []
    found = {name: files.read(name) for name in names if not files.is_folder(name)}
    return {name: text for name, text in found.items() if text is not None and folder}


def refusals(unit: Unit, found: Mapping[str, list[Command]]) -> list[Problem]:
    """What makes systemd refuse a unit whose lines are each good. Source: ``service_verify`` in service.c (252)."""
    kind = unit.value("Service", "Type") or "simple"
    begins = unit.effective("Service", "ExecStart")
    line, file = (begins[-1].line, begins[-1].file) if begins else (1, "")
    problems = []
    if len(found["ExecStart"]) > 1 and kind != "oneshot":
        problems.append(Problem("two-execstart", line, f"{len(found['ExecStart'])} commands in ExecStart=, and Type="
                                f"{kind} allows one: systemd refuses the unit", file, True))
    if not found["ExecStart"] and not begins and not found["ExecStop"]:
        problems.append(Problem("unit-refused", line, "no command: systemd refuses a service without ExecStart=", file,
                                True))
    restart = unit.value("Service", "Restart")
    if kind == "oneshot" and restart in ("always", "on-success"):
        problems.append(Problem("unit-refused", line, f"Restart={restart} is refused with Type=oneshot", file, True))
    if kind == "dbus" and not unit.value("Service", "BusName"):
        problems.append(Problem("unit-refused", line, "Type=dbus without BusName= is refused", file, True))
    return problems


def _follow(
    command: Command, unit: Unit, kind: Manager, given: Given, world: World, unset: list[str]
) -> list[Launch]:
    """The servers behind one command; the command itself where it starts none that is known."""
    known = {**given.base, **given.env}
    names: list[str] = []
    argv = command.argv(known, names)
    if given.missing and names:
        known |= {name: world.unknowns.variable(name) for name in names}
        argv = command.argv(known)
    else:
        unset += names
    machine = Machine(world)
    machine.inherited = dict(given.base)
    machine.line = command.line
    folder = unit.value("Service", "WorkingDirectory")
    place = kind.folder(folder.removeprefix("-"), given.base) if folder else None
    machine.start = place or kind.default_folder
    machine.cwd = place if folder and not folder.startswith("-") and place != given.base.get("HOME") else None
    before = len(world.launches)
    whole = [command.path, *argv[1:]] if "@" in command.prefixes else argv
    start(machine, whole, dict(given.env))
    launches = world.launches[before:]
    shown = world.unknowns.shown
    if not launches and server(argv):
        launches = [Launch([shown(word) for word in argv], {}, cwd=shown(machine.cwd) if machine.cwd else None)]
    if not launches:
        names = world.unknowns.names(*argv)
        launches = [Launch([shown(word) for word in argv], {k: shown(v) for k, v in sorted(given.env.items())},
                           unresolved=names, cwd=shown(machine.cwd) if machine.cwd else None, line=command.line,
                           marks=world.unknowns.marks(*argv), opaque=tuple(shown(word) for word in argv))]
    for launch in launches:
        launch.line = command.line
        if "@" in command.prefixes and launch.argv[:1] == [command.path] and not launch.wrapper:
            launch.argv[0], launch.exe = shown(argv[0]), command.path
        if launch.container is not None:
            launch.container.pop("env_of_the_client", None)
            launch.container["env"] = launch.env
            launch.env = {key: shown(value) for key, value in sorted(given.env.items())}
        if launch.cwd is not None:
            launch.cwd = posixpath.normpath(launch.cwd)
    return launches
