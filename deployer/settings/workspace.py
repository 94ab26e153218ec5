"""The folder that an admin keeps: ``units/``, ``templates/``, ``hosts.toml``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from deployer.errors import SettingsError, UsageError
from deployer.protocol.finding import Finding, Level, Where
from deployer.protocol.records import dataclass, replace
from deployer.settings import document, host
from deployer.settings.host import LoadedHosts
from deployer.settings.host_keys import UNIT_NAME
from deployer.settings.model import Host, UnitSettings
from deployer.settings.overlay import Overlaid
from deployer.settings.sink import PlacedSpans, Sink, any_error, nearest
from deployer.settings.unit import build, build_readable
from deployer.settings.unit_keys import UNIT

HOSTS_FILE = "hosts.toml"
_AGAIN = f"put {HOSTS_FILE} right, then: deployer check"


@dataclass(frozen=True)
class Loaded:
    """``settings`` is None where there is an error among ``findings``.

    ``readable``: then what else could be read, so that it can be judged too; the version is "" where it could not.
    """

    settings: UnitSettings | None
    findings: tuple[Finding, ...] = ()
    readable: UnitSettings | None = None


class Workspace:
    """Reads the folder ``root``; ``hosts.toml`` once. What is wrong in a file is a finding, never an exception."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def find(cls, start: Path | None = None) -> Workspace:
        """The nearest folder upwards from ``start`` (the current one) with ``units/`` or ``hosts.toml``."""
        try:
            begin = (start or Path.cwd()).absolute()
        except FileNotFoundError:
            raise UsageError("the folder in which this runs is gone: it was removed or moved meanwhile",
                             hint="cd to one that is there; -C /DIR names a workspace that lies elsewhere") from None
        if not begin.is_dir():
            raise UsageError(f"{begin} is no folder", hint="deployer init writes a workspace to start from")
        for folder in (begin, *begin.parents):
            if (folder / "units").is_dir() or (folder / HOSTS_FILE).is_file():
                return cls(folder)
        raise UsageError(
            f"no workspace: neither {begin} nor a folder above it holds units/ or {HOSTS_FILE}",
            hint="deployer init writes a workspace to start from; -C DIR names one that lies elsewhere",
        )

    @property
    def templates(self) -> Path | None:
        """The workspace's own templates, where it has any."""
        folder = self.root / "templates"
        return folder if folder.is_dir() else None

    def unit_names(self) -> list[str]:
        """The units by name, sorted. Reads no file: cheap enough for completion."""
        folder = self.root / "units"
        return sorted(file.stem for file in folder.glob("*.toml") if not file.name.startswith("."))

    def destination_names(self) -> list[str]:
        """Hosts, @groups and ``local``, for completion: read without validation, empty where the file is no TOML."""
        data = self._hosts_document.data or {}
        hosts, groups = ([*part] if isinstance(part := data.get(key), dict) else [] for key in ("hosts", "groups"))
        return [*dict.fromkeys([*hosts, host.LOCAL]), *(f"@{name}" for name in groups)]

    def unit_file(self, name: str) -> Path:
        """Where the settings of a unit lie. ``name`` may be written as x, x.service, x.toml or units/x.toml.

        Raises ``UsageError`` with the nearest name for one that is not there.
        """
        folder = self.root / "units"
        bare = name.rsplit("/", 1)[-1]
        for candidate in (bare, re.sub(r"\.(toml|service)$", "", bare)):
            file = folder / f"{candidate}.toml"
            if file.is_file():
                return file
        names = self.unit_names()
        near = nearest(bare, names)
        listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        others = f"units are {listed}" if names else "deployer init writes a first one"
        hint = f"did you mean {near}?" if near else others
        raise UsageError(f"no unit {bare} in {folder}", hint=hint)

    def load_unit(self, name: str, at: Host | None = None) -> Loaded:
        """The settings of one unit, with the overrides of the host ``at`` laid over them.

        Findings in overrides point at hosts.toml. Raises ``UsageError`` for a unit that is not there.
        """
        file = self.unit_file(name)
        read = document.read(file)
        if read.data is None:
            return Loaded(None, read.findings)
        data, spans = read.data, read.places
        placed: PlacedSpans = spans
        overrides = at.overrides.get(file.stem) if at else None
        if at and overrides:
            data = UNIT.merge(data, overrides)
            placed = Overlaid(spans, self._hosts_document.places, ("hosts", at.name, "overrides", file.stem))
        sink = Sink(placed, UNIT)
        if not re.fullmatch(UNIT_NAME, file.stem):
            message = f'"{file.stem}" is no name for a unit: the file\'s name becomes the unit\'s'
            hint = "use letters, digits and - _ . : only"
            sink.take(Finding("bad-unit-name", Level.ERROR, message, (), Where(str(file), 1, 1), hint))
        written = UNIT.read(data, (), sink)
        if any_error(sink.findings):
            readable = replace(build_readable(file.stem, data, Sink(placed, UNIT), self.root, file), spans=placed)
            return Loaded(None, tuple(sink.findings), readable)
        settings = build(file.stem, written, self.root, file)
        return Loaded(replace(settings, spans=placed), tuple(sink.findings))

    def hosts(self) -> LoadedHosts:
        """hosts.toml, read once; empty where there is none."""
        return self._hosts

    def resolve(self, names: Sequence[str]) -> list[Host]:
        """The hosts that ``names`` stand for: hosts, @groups, ``local``, or anything that ``ssh`` itself would take.

        Raises ``UsageError``, and ``SettingsError`` where hosts.toml has errors. That a host lists a unit which is not
        there is none here: it must keep nobody from looking at hosts, and a push of that unit says it by itself.
        Overrides of such a unit are one for the hosts meant, since they would have no effect.
        """
        loaded = self.hosts()
        if any_error(finding for finding in loaded.findings if finding.code != "unknown-unit"):
            raise SettingsError(f"{HOSTS_FILE} has errors", loaded.findings, hint=_AGAIN)
        found = host.resolve(names, loaded)
        lost = [("hosts", entry.name, "overrides") for entry in found]
        if any(finding.code == "unknown-unit" and finding.key[:3] in lost for finding in loaded.findings):
            raise SettingsError(f"{HOSTS_FILE} has errors", loaded.findings, hint=_AGAIN)
        return found

    @cached_property
    def _hosts_document(self) -> document.Document:
        file = self.root / HOSTS_FILE
        return document.read(file) if file.is_file() else document.parse(file, "")

    @cached_property
    def _hosts(self) -> LoadedHosts:
        return host.load_hosts(self._hosts_document, self.root, self.unit_names())
