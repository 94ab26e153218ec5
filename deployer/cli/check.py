"""``deployer check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deployer import exits
from deployer.cli import console
from deployer.cli.complete import hosts as complete_hosts
from deployer.cli.complete import units as complete_units

if TYPE_CHECKING:
    from deployer.protocol.finding import Finding
    from deployer.rollout.check import Checked
    from deployer.settings.model import Host
    from deployer.settings.workspace import Workspace


@click.command("check")
@click.argument("units", nargs=-1, metavar="[UNIT]...", shell_complete=complete_units)
@click.option("--host", "host", metavar="HOST", shell_complete=complete_hosts,
              help="With this host's overrides, and against what the host says of itself.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def command(ctx: click.Context, units: tuple[str, ...], host: str | None, as_json: bool) -> int:
    """Report all findings about units and hosts.toml: their text, arguments, directives, ports, templates.

    Arguments are judged by every release of SGLang that the settings allow. Without --host no host is asked.
    Exit code 0 when there is no error (warnings are told), 1 when there is one, also in TOML that cannot be read;
    2 when a unit or host is named that does not exist, 3 when the host cannot be reached.
    A unit file of systemd's (FILE.service, or Quadlet's FILE.container) is read for traps, with its drop-ins.

    \b
    deployer check
    deployer check qwen3.5-397b --host gpu2
    deployer check /etc/systemd/system/llm.service
    deployer check --json | jq '.findings[] | select(.level == "error")'
    """
    from deployer.cli import run_hosts
    from deployer.protocol.finding import in_order

    unit_files = [name for name in units if _is_unit_file(name)]
    if unit_files:
        if host is not None or len(unit_files) < len(units):
            raise click.UsageError("unit files are checked by themselves: without --host and without names of units")
        return _unit_files(unit_files, as_json)
    workspace = run_hosts.workspace(ctx)
    checked, destinations = _declared(workspace, units, host)
    findings, code = list(checked.findings), exits.OK if checked.ok else exits.FINDINGS
    if checked.ok:
        for destination in destinations:
            more, asked = _on_host(workspace, destination, units)
            findings += more
            code = exits.gravest([code, asked, exits.FINDINGS if _errors(more) else exits.OK])
    findings = in_order(dict.fromkeys(findings))
    if as_json:
        console.result_json({"ok": code == exits.OK, "findings": [console.finding_json(f) for f in findings]})
    else:
        console.show_findings(findings)
        console.say(_summary(checked, findings, host))
    return code


def _is_unit_file(name: str) -> bool:
    from pathlib import Path

    return name.endswith((".service", ".container")) and Path(name).is_file()


def _unit_files(names: list[str], as_json: bool) -> int:
    """The traps of unit files, read as systemd reads them."""
    from pathlib import Path

    from deployer.intake.bring import How, bring_file

    findings = [finding for name in names for finding in bring_file(Path(name), How()).findings]
    code = exits.FINDINGS if _errors(findings) else exits.OK
    if as_json:
        console.result_json({"ok": code == exits.OK, "findings": [console.finding_json(f) for f in findings]})
    else:
        console.show_findings(findings)
        files = f"{len(names)} unit file{'s' if len(names) != 1 else ''}"
        console.say(f"{files} checked: {f'{len(findings)} findings' if findings else 'nothing to report'}")
    return code


def _declared(workspace: Workspace, units: tuple[str, ...], host: str | None) -> tuple[Checked, list[Host]]:
    """What the files alone say, and the hosts to ask then."""
    from deployer.errors import SettingsError
    from deployer.rollout.check import Checked, check

    if host is None:
        return check(workspace, units), []
    try:
        hosts = workspace.resolve([host])
    except SettingsError as error:
        return Checked((), error.findings), []
    every = [check(workspace, units, each) for each in hosts]
    names = dict.fromkeys(name for checked in every for name in checked.units)
    findings = dict.fromkeys(finding for checked in every for finding in checked.findings)
    return Checked(tuple(names), tuple(findings)), hosts


def _errors(findings: list[Finding]) -> bool:
    return any(finding.level.value == "error" for finding in findings)


def _on_host(workspace: Workspace, host: Host, units: tuple[str, ...]) -> tuple[list[Finding], int]:
    """What the host's own facts say against the units; beside it the exit code of asking."""
    from deployer.cli.asking import ask_hosts
    from deployer.rollout import own_release
    from deployer.rollout.preflight import judge
    from deployer.rollout.units import declare

    declared = [declare(workspace, host, name) for name in units or host.units or workspace.unit_names()]

    def ask(contact: Any) -> list[Finding]:
        found: list[Finding] = []
        for each in declared:
            survey = contact.ask_facts(each.settings.unit, each.settings)
            found += judge(each.settings, each.release, survey.facts)
            found += own_release.judge(contact, each.settings, survey.facts)
        return found

    answers, code = ask_hosts([host], ask)
    return list(dict.fromkeys(answers.get(host.name, []))), code


def _summary(checked: Checked, findings: list[Finding], host: str | None) -> str:
    counts = {level: sum(finding.level.value == level for finding in findings) for level in ("error", "warning")}
    said = [f"{count} {level}{'s' if count != 1 else ''}" for level, count in counts.items() if count]
    looked = f"{len(checked.units)} unit{'s' if len(checked.units) != 1 else ''}{f' for {host}' if host else ''}"
    return f"{looked} checked: {' and '.join(said) if said else 'nothing to report'}"
