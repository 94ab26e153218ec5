"""Loading a unit for a host, checked and rendered: what every command that touches a host begins with."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from deployer.errors import SettingsError, UsageError
from deployer.protocol.finding import Finding, Level, in_order
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


def check_again(name: str, host: Host | None) -> str:
    """The command that shows whether the findings of a unit, as it is on ``host``, are settled."""
    own = f" --host {host.name}" if host and name in host.overrides else ""
    return f"put it right, then: deployer check {name}{own}"


def declare(workspace: Workspace, host: Host, name: str) -> Declared:
    """Loads, checks and renders. Raises SettingsError with every finding when one of them is an error."""
    stem = workspace.unit_file(name).stem
    made = _made(workspace, stem, host) if stem in host.overrides else _alike(workspace, stem)
    return Declared(host, *made)


Made = tuple[UnitSettings, Release, tuple[Finding, ...]]


@functools.lru_cache(maxsize=1024)
def _alike(workspace: Workspace, stem: str) -> Made:
    """The unit as it is on every host that overrides nothing of it: read and rendered once for all of them."""
    return _made(workspace, stem, None)


def _made(workspace: Workspace, stem: str, host: Host | None) -> Made:
    from deployer.rollout.check import judge_unit

    loaded = workspace.load_unit(stem, host)
    found, release = judge_unit(workspace, loaded)
    findings = in_order(found)
    if loaded.settings is None or release is None or any(finding.level is Level.ERROR for finding in findings):
        raise SettingsError(f"the settings of {stem} cannot be pushed", findings, hint=check_again(stem, host))
    return loaded.settings, release, tuple(findings)
