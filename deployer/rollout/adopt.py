"""Hand edits on a host taken over into the settings: what is installed there is what the settings then declare."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deployer.errors import RefusedError, SettingsError
from deployer.intake.bring import How, bring_unit
from deployer.intake.files import Files
from deployer.protocol.finding import Finding
from deployer.protocol.records import dataclass
from deployer.render.model import Release
from deployer.render.release import render
from deployer.rollout.contact import Contact
from deployer.rollout.edit import Editor
from deployer.rollout.effect import Effect, effect
from deployer.rollout.units import check_again
from deployer.settings.model import Host, UnitSettings
from deployer.settings.workspace import Workspace

SYSTEM = "/etc/systemd/system"
_ROUNDS = 4


@dataclass(frozen=True)
class Adopted:
    """``before`` is None for a unit that the workspace does not have. ``left``: what could not be taken over."""

    host: str
    unit: str
    file: Path
    before: str | None
    after: str
    left: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        return self.before != self.after


def adopt(contact: Contact, workspace: Workspace, name: str) -> Adopted:
    """Reads the installed unit with its drop-ins. Raises RefusedError where the host has none, SettingsError where
    the settings that are there cannot be read."""
    unit = f"{name}.service"
    facts = contact.ask_facts(unit).facts.unit
    texts = {file.path: file.text for file in facts.files if file.text is not None}
    main = texts.get(f"{SYSTEM}/{unit}")
    dropins = {path: text for path, text in texts.items()
               if path.startswith(f"{SYSTEM}/{unit}.d/") and path.endswith(".conf")}
    host = contact.host
    if main is None:
        raise RefusedError(f"{host.name} has no {SYSTEM}/{unit} to adopt", hint=f"deployer status {host.name}")
    file = workspace.root / "units" / f"{name}.toml"
    if not file.is_file():
        return _imported(host, unit, file, main, dropins)
    return _edited(host, workspace, name, file, main, dropins)


def _imported(host: Host, unit: str, file: Path, main: str, dropins: Mapping[str, str]) -> Adopted:
    result = bring_unit(main.encode("utf-8", "surrogateescape"), unit, {
        path: text.encode("utf-8", "surrogateescape") for path, text in dropins.items()}, Files(None), How())
    return Adopted(host.name, unit, file, None, result.units[0].settings, tuple(result.notes), result.findings)


def _edited(
    host: Host, workspace: Workspace, name: str, file: Path, main: str, dropins: Mapping[str, str]
) -> Adopted:
    before = file.read_text(encoding="utf-8")
    settings, release = _rendered(workspace, name, host)
    declared = effect(settings.unit, _unit_text(release), {}, settings.program)
    installed = effect(settings.unit, main, dropins, settings.program)
    if installed.head is None:
        raise RefusedError(f"the installed {settings.unit} does not start one SGLang server: it cannot be adopted",
                           hint=f"deployer diff {host.name}")
    after, left = before, list[str]()
    for _ in range(_ROUNDS):
        # What one value makes of another (RestartSec of the start limit) only shows when it is rendered again.
        editor = Editor(after, settings, host.overrides.get(name, {}))
        editor.take(declared, installed)
        left = [*left, *(text for text in editor.left if text not in left)]
        if editor.text() == after:
            break
        after = editor.text()
        try:
            declared = _made(workspace, name, host, after)
        except SettingsError as error:
            left += [f"the changed settings have a fault: {finding.message}" for finding in error.findings]
            return Adopted(host.name, settings.unit, file, before, after, tuple(left))
    return Adopted(host.name, settings.unit, file, before, after, (*left, *_compared(declared, installed)))


def _rendered(workspace: Workspace, name: str, host: Host) -> tuple[UnitSettings, Release]:
    loaded = workspace.load_unit(name, host)
    hint = check_again(name, host)
    if loaded.settings is None:
        raise SettingsError(f"the settings of {name} cannot be read", loaded.findings, hint=hint)
    try:
        return loaded.settings, render(loaded.settings, workspace.templates)
    except SettingsError as error:
        raise SettingsError(error.message, error.findings, hint=hint) from None


def _unit_text(release: Release) -> str:
    return next(str(file.text) for file in release.files if file.path == f"{SYSTEM}/{release.unit}")


def _made(workspace: Workspace, name: str, host: Host, text: str) -> Effect:
    """What the changed settings come to. Raises SettingsError."""
    with tempfile.TemporaryDirectory(prefix="deployer-adopt-") as folder:
        (Path(folder) / "units").mkdir()
        (Path(folder) / "units" / f"{name}.toml").write_text(text, encoding="utf-8")
        loaded = Workspace(Path(folder)).load_unit(name, host)
        if loaded.settings is None:
            raise SettingsError(f"the changed settings of {name} cannot be read", loaded.findings)
        release = render(loaded.settings, workspace.templates)
    return effect(loaded.settings.unit, _unit_text(release), {}, loaded.settings.program)


def _compared(made: Effect, installed: Effect) -> Iterator[str]:
    if made.head != installed.head:
        yield f"the command begins with {' '.join(installed.head or ())} on the host, {' '.join(made.head or ())} here"
    yield from _tables("argument ", made.args, installed.args)
    yield from _tables("variable ", made.env, installed.env)
    names = {f"{section}.{key}": values for (section, key), values in made.values.items()}
    yield from _tables("", names, {f"{section}.{key}": values for (section, key), values in installed.values.items()})


def _tables(kind: str, made: Mapping[str, Any], installed: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*installed, *made]):
        if made.get(name) != installed.get(name):
            yield f"{kind}{name} differs still: it was changed by hand in a way that settings cannot say"
