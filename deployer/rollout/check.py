"""All that can be said of settings without asking any host, each finding with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployer.errors import SettingsError
from deployer.protocol.finding import Finding, Level, in_order
from deployer.protocol.records import dataclass
from deployer.render.credentials import is_variable
from deployer.render.model import Release
from deployer.rollout import collisions, directives, hub
from deployer.settings.model import Host, UnitSettings
from deployer.settings.workspace import Loaded, Workspace
from deployer.sglang import flags, rules

_RESTS_ON = {"args": "missing-argument", "gpu": "private-devices", "verify": "stop-before-drain",
             "env": "hub-copy"}
"""Tables whose faults can bring about a finding about something else."""


@dataclass(frozen=True)
class Checked:
    """``units`` were looked at; ``findings`` stand in the order of their places."""

    units: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether a push may go ahead: warnings do not stop it."""
        return not any(finding.level is Level.ERROR for finding in self.findings)


def check(workspace: Workspace, names: Sequence[str] = (), host: Host | None = None) -> Checked:
    """Findings about units (all of the workspace where none is named), and about hosts.toml with them.

    With ``host``: as they are on that host, with its overrides; without names its own units. Without: as declared,
    and once more for every host that overrides one of them. Raises UsageError for a unit that is not there.
    """
    loaded_hosts = workspace.hosts()
    asked = [workspace.unit_file(name).stem for name in names]
    units = list(dict.fromkeys(asked or (list(host.units) if host else []) or workspace.unit_names()))
    found: list[Finding] = []
    if not asked or host:
        found += loaded_hosts.findings
    for name in units:
        for where in [host] if host else [None, *_overriding(loaded_hosts.hosts, name)]:
            found += judge_unit(workspace, workspace.load_unit(name, where))[0]
    for each in [host] if host else list(loaded_hosts.hosts.values()):
        if each.units and set(each.units).intersection(units):
            found += collisions.on_host(each, _settings(workspace, each))
    return Checked(tuple(units), tuple(in_order(dict.fromkeys(found))))


def judge_unit(workspace: Workspace, loaded: Loaded) -> tuple[list[Finding], Release | None]:
    """Findings about one unit as it was loaded: its text, arguments and directives, and what cannot be rendered.

    Beside them what was rendered; None where it cannot be.
    """
    settings, release = loaded.settings or loaded.readable, None
    if settings is None:
        return list(loaded.findings), None
    if loaded.settings is None:
        found = _beside(settings, loaded.findings)
    else:
        release, unrendered = _rendered(workspace, settings)
        found = [*judged(settings), *unrendered]
    placed = [finding.at(settings.spans.where(finding.key)) if settings.spans and finding.key else finding
              for finding in found]
    return [*loaded.findings, *_once(placed)], release


def judged(settings: UnitSettings, alone: bool = False) -> list[Finding]:
    """Findings about arguments and directives, by their keys. ``alone``: not about arguments together. Pure."""
    args, places = flat(settings.args)
    hidden = [name for name in settings.secrets if not is_variable(name)]
    found = flags.judge(args, settings.sglang, settings.program, secrets=hidden, key=lambda name: places[name])
    if settings.program == "sglang" and settings.sglang and not alone:
        for finding in rules.judge(args, settings.sglang, secrets=hidden):
            key = places.get(finding.key[-1], finding.key) if finding.key[:1] == ("args",) else finding.key
            found.append(Finding(finding.code, finding.level, finding.message, key, finding.where, finding.hint))
    return [*found, *directives.judge(settings), *hub.judge(settings)]


def _beside(settings: UnitSettings, faults: Sequence[Finding]) -> list[Finding]:
    """Findings about what could be read of a file that has ``faults``, without those that a fault can have caused.

    An argument that could not be read is not missed, nor judged together with others.
    """
    broken = {finding.key[:2] for finding in faults if finding.level is Level.ERROR}
    tables = {key[0] for key in broken if key}
    found = judged(settings, alone="args" in tables)
    doubtful = {code for table, code in _RESTS_ON.items() if table in tables}
    if not settings.args:
        doubtful.add("missing-argument")
    return [finding for finding in found if finding.code not in doubtful and finding.key[:2] not in broken]


def flat(args: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Arguments with those of a ``config`` table beside them, and the key of each."""
    config = args.get("config")
    values = {name: value for name, value in args.items() if not (name == "config" and isinstance(value, Mapping))}
    places: dict[str, tuple[str, ...]] = {name: ("args", name) for name in args}
    if isinstance(config, Mapping):
        for name, value in config.items():
            if name not in values:
                values[name] = value
                places[name] = ("args", "config", name)
    return values, places


def _rendered(workspace: Workspace, settings: UnitSettings) -> tuple[Release | None, Sequence[Finding]]:
    from deployer.render.release import render

    try:
        return render(settings, workspace.templates), ()
    except SettingsError as error:
        return None, error.findings


def _overriding(hosts: Mapping[str, Host], unit: str) -> list[Host]:
    return [host for host in hosts.values() if unit in host.overrides]


def _settings(workspace: Workspace, host: Host) -> list[UnitSettings]:
    """The units of a host that can be read; what is wrong with the others is said elsewhere."""
    names = [name for name in host.units if name in workspace.unit_names()]
    return [settings for name in names if (settings := workspace.load_unit(name, host).settings)]


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Without a second finding of the same kind at the same place."""
    seen: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        seen.setdefault((finding.where, finding.key, finding.code, finding.level), finding)
    return list(seen.values())
