"""``deployer render``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployer.cli import console
from deployer.cli.complete import hosts as complete_hosts
from deployer.cli.complete import units as complete_units

if TYPE_CHECKING:
    from deployer.protocol.finding import Finding
    from deployer.render.model import File, Release
    from deployer.settings.model import Host
    from deployer.settings.workspace import Workspace

_UNITS = "/etc/systemd/system/"
_SECRETS = "/etc/deployer/"


@click.command("render")
@click.argument("units", nargs=-1, metavar="[UNIT]...", shell_complete=complete_units)
@click.option("--host", "host", metavar="HOST", shell_complete=complete_hosts,
              help="With this host's overrides; its own units where none is named.")
@click.option("-o", "--output", "folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
              help="Write the files to this folder instead of printing them.")
@click.option("--json", "as_json", is_flag=True, help="Print argv, environment, digest and files as JSON.")
@click.pass_context
def command(ctx: click.Context, units: tuple[str, ...], host: str | None, folder: Path | None, as_json: bool) -> None:
    """Print the files of units, or write them to a folder. Nothing is asked of any host.

    Without UNIT all units of the workspace are rendered. Of files with secrets only the places of the secrets are
    shown.

    \b
    deployer render qwen3.5-397b
    deployer render --host gpu1 -o /tmp/rendered
    deployer render --json | jq '.units[].argv'
    """
    from deployer.settings.workspace import Workspace

    workspace = Workspace.find(Path(ctx.obj) if ctx.obj else None)
    releases = _render(workspace, units, host)
    if folder is not None:
        _write(folder, releases)
    if as_json:
        console.result_json({"units": [_plain(release) for release in releases]})
    elif folder is None:
        _print(releases)


def _render(workspace: Workspace, units: Sequence[str], host: str | None) -> list[Release]:
    """Every unit asked for; all findings of all of them are reported at once."""
    from deployer.errors import SettingsError
    from deployer.protocol.finding import Level
    from deployer.render.release import render

    destination: Host | None = workspace.resolve([host])[0] if host else None
    names = units or (destination.units if destination else ()) or workspace.unit_names()
    if not names:
        from deployer.errors import UsageError

        raise UsageError(f"{workspace.root} holds no units", hint="write units/NAME.toml, or: deployer init")
    releases: list[Release] = []
    findings: list[Finding] = []
    failed: list[str] = []
    for name in dict.fromkeys(names):
        loaded = workspace.load_unit(name, destination)
        findings += loaded.findings
        if loaded.settings is None:
            failed.append(name)
            continue
        try:
            releases.append(render(loaded.settings, workspace.templates))
        except SettingsError as error:
            failed.append(name)
            findings += error.findings
    if failed:
        own = destination is not None and any(name in destination.overrides for name in failed)
        again = f"deployer check {' '.join(dict.fromkeys(failed))}{f' --host {host}' if own else ''}"
        raise SettingsError(f"{_listed(failed)} cannot be rendered", findings, hint=f"put it right, then: {again}")
    console.show_findings([finding for finding in findings if finding.level is not Level.NOTE])
    return releases


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:5])} and {len(names) - 5} more"


def _print(releases: Sequence[Release]) -> None:
    """One file after the other; its place stands above each where there are several."""
    files = [file for release in releases for file in release.files]
    for index, file in enumerate(files):
        if len(files) > 1:
            console.result(f"{'' if index == 0 else chr(10)}#### {file.path} ({file.mode:04o} {file.owner})")
        console.result(_shown(file).rstrip("\n"))


def _write(folder: Path, releases: Sequence[Release]) -> None:
    """Units lie in the folder itself, what belongs to /etc/deployer in a folder named by the unit."""
    for release in releases:
        for file in release.files:
            place = folder / file.path.removeprefix(_UNITS).removeprefix(_SECRETS).lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_shown(file), encoding="utf-8")
            console.say(f"{place}")


def _shown(file: File) -> str:
    from deployer.render.credentials import masked

    return file.text if isinstance(file.text, str) else masked(file.text)


def _plain(release: Release) -> dict[str, Any]:
    """The shape of DESIGN section 6. The text of a file with secrets is null."""
    return {
        "name": release.unit.removesuffix(".service"),
        "argv": list(release.argv),
        "env": dict(release.env),
        "digest": release.digest,
        "files": [{
            "path": file.path, "mode": f"{file.mode:04o}", "text": file.text if isinstance(file.text, str) else None,
        } for file in release.files],
    }
