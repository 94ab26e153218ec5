"""Loading a unit for a host, checked and rendered: what every command that touches a host begins with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deployer.errors import SettingsError, UsageError
from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.render.model import Release
from deployer.settings.model import ArgValue, Host, UnitSettings
from deployer.settings.workspace import Workspace


@dataclass(frozen=True)
class Declared:
    """One unit for one host, ready to be pushed. ``findings`` are warnings and notes: errors have been raised."""

    host: Host
    settings: UnitSettings
    release: Release
    findings: tuple[Finding, ...] = ()


def argument(settings: UnitSettings, name: str) -> ArgValue | None:
    """A declared argument by its long name with dashes, or by SGLang's other spelling of it."""
    wanted = {name, *_SPELLINGS.get(name, ())}
    for key, value in settings.args.items():
        if key.replace("_", "-") in wanted:
            return value
    return None


_SPELLINGS = {
    "tp-size": ("tensor-parallel-size",), "pp-size": ("pipeline-parallel-size",), "dp-size": ("data-parallel-size",),
    "ep-size": ("expert-parallel-size", "ep"), "model-path": ("model",),
}


def unit_names(workspace: Workspace, host: Host, asked: Sequence[str]) -> list[str]:
    """Which units a command means on a host: those asked for, else those of hosts.toml, else the only one there is."""
    names = [name.removesuffix(".service") for name in asked] or list(host.units)
    if names:
        return names
    every = workspace.unit_names()
    if len(every) == 1:
        return every
    raise UsageError(f"which unit of {host.name}?", hint="name it with -u UNIT, or list `units` for the host in "
                     f"hosts.toml; there are: {', '.join(every) or 'none'}")


def declare(workspace: Workspace, host: Host, name: str) -> Declared:
    """Loads, checks and renders. Raises SettingsError with every finding when one of them is an error."""
    from deployer.render.release import render
    from deployer.rollout.check import check_unit

    loaded = workspace.load_unit(name, host)
    findings = list(check_unit(workspace, loaded, host))
    if loaded.settings is None or any(finding.level is Level.ERROR for finding in findings):
        raise SettingsError(f"the settings of {name} cannot be pushed", findings, hint=f"deployer check {name}")
    templates: Path | None = workspace.templates
    return Declared(host, loaded.settings, render(loaded.settings, templates), tuple(findings))
