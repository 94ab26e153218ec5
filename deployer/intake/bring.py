"""The one door of an import: a file of any kind to its servers, their settings and what is to be said of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deployer.errors import UsageError
from deployer.intake import compose, quadlet, shell, unit
from deployer.intake.files import Files
from deployer.intake.found import Launch
from deployer.intake.settings import settings, unit_name
from deployer.intake.traps import LEVELS
from deployer.intake.unit import Source, UnitFound
from deployer.protocol.finding import Finding, Where
from deployer.protocol.records import dataclass, field
from deployer.systemd import specifiers
from deployer.systemd.lines import Problem


@dataclass(frozen=True)
class Imported:
    """One server: as it would be executed (``launch`` None: nothing would be), and its settings' name and text."""

    name: str
    launch: Launch | None
    settings: str
    env: Mapping[str, str] = field(default_factory=dict)
    directives: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """``kind``: unit, quadlet, shell or compose. ``traps``: codes; ``findings``: the same with their places."""

    kind: str
    units: tuple[Imported, ...]
    traps: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class How:
    """``root``: the folder that stands for ``/`` of the host. ``name``: the unit's, where the file has another.

    ``cwd``: where a script would be run. ``user``: a unit of a user's manager; None: judge by its text. ``home``: of
    that user.
    """

    root: Path | None = None
    name: str | None = None
    cwd: str | None = None
    user: bool | None = None
    home: str | None = None


def bring_file(path: Path, how: How) -> Result:
    """Reads a file, with drop-ins in ``FILE.d``. Raises UsageError for one that cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    beside = path.parent / "files"
    root = how.root or (beside if beside.is_dir() else Path("/"))
    files = Files(root, path.parent)
    kind = kind_of(path.name, data)
    if kind in ("unit", "quadlet"):
        dropins = {str(item): item.read_bytes() for item in sorted(Path(f"{path}.d").glob("*.conf"))}
        return bring_unit(data, path.name, dropins, files, how, str(path))
    return bring_text(data, path.name, kind, files, how, str(path))


def kind_of(name: str, data: bytes) -> str:
    """unit, quadlet, shell or compose: by the file's name, else by what is in it."""
    if name.endswith(".container") or re.search(rb"^\[Container\]\s*$", data, re.MULTILINE):
        return "quadlet"
    if name.endswith((".service", ".service.j2")) or re.search(rb"^\s*\[(?:Unit|Service)\]\s*$", data, re.MULTILINE):
        return "unit"
    if name.endswith((".yml", ".yaml")) or re.search(rb"^services:\s*(?:#.*)?$", data, re.MULTILINE):
        return "compose"
    return "shell"


def bring_unit(
    data: bytes, file_name: str, dropins: Mapping[str, bytes], files: Files, how: How, file: str = ""
) -> Result:
    """A unit or ``.container`` file by its text; ``file`` is its path for findings."""
    kind = kind_of(file_name, data)
    name = how.name or re.sub(r"\.container$", ".service", file_name)
    name = name if re.search(r"\.\w+$", name) else f"{name}.service"
    home = how.home
    place = str(Path(file).absolute()) if file else ""
    match = re.match(r"(.*)/\.config/(?:systemd/user|containers/systemd)/", place)
    user = how.user if how.user is not None else (True if match else None)
    source = Source(name, data, file or file_name, dropins, user, home or (match[1] if match else None))
    found = (quadlet if kind == "quadlet" else unit).read(source, files)
    units = tuple(_unit(found, launch, index, name, file_name, files) for index, launch in enumerate(
        found.launches or found.would[:1] or [Launch([])]))
    return Result(kind, units, tuple(found.traps), tuple(_finding(p, file or file_name) for p in found.problems),
                  tuple(found.notes), found.ignored)


def _unit(found: UnitFound, launch: Launch, index: int, name: str, origin: str, files: Files) -> Imported:
    own = unit_name(name) + (f"-{index + 1}" if index else "")
    remarks = [f"{problem.code} (line {problem.line}): {problem.text}" for problem in found.problems] + found.notes
    if found.user:
        remarks.insert(0, "It was a unit of a user's own manager; deployer installs units of the system's manager.")
    read_files = {path for path, there in files.asked.items() if there}
    values = specifiers.of_unit(name)
    values = {key: value for key, value in values.items() if value} if own != name.removesuffix(".service") else {}
    text = settings(launch, own, origin=origin, directives=found.directives, remarks=remarks, read_files=read_files,
                    specifiers=values)
    return Imported(own, launch if found.launches else None, text, found.env, found.directives, found.extra)


def bring_text(data: bytes, name: str, kind: str, files: Files, how: How, file: str = "") -> Result:
    """A script, a command line, or a compose file by its text."""
    text = data.decode("utf-8", "surrogateescape")
    if kind == "compose":
        try:
            launches, notes = compose.read(text, files, how.cwd)
        except compose.NoCompose as error:
            raise UsageError(f"{file or name} is no compose file: {error}") from None
    else:
        launches, notes = shell.read(text, files, name=name, cwd=how.cwd)
    units = tuple(_launch(launch, index, len(launches), how.name or name, name, notes)
                  for index, launch in enumerate(launches))
    return Result(kind, units, notes=tuple(notes))


def _launch(launch: Launch, index: int, count: int, name: str, origin: str, notes: list[str]) -> Imported:
    own = unit_name(launch.name or name) + (f"-{index + 1}" if count > 1 and not launch.name else "")
    return Imported(own, launch, settings(launch, own, origin=origin, remarks=notes), launch.env)


def _finding(problem: Problem, file: str) -> Finding:
    place = problem.file or file
    return Finding(problem.code, LEVELS[problem.code], problem.text, (), Where(place, problem.line))
