"""``deployer verify``."""

from __future__ import annotations

import contextlib

import click

from deployer.cli import run_hosts
from deployer.protocol import records
from deployer.protocol.outcome import Outcome
from deployer.rollout.view import Report, View
from deployer.settings.model import Host


@click.command("verify")
@run_hosts.host_options
@click.option("--settle", type=float, default=None, metavar="SECONDS",
              help="How long it must stay good (default: as the release says).")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], units: tuple[str, ...], as_json: bool,
            settle: float | None) -> int:
    """Run the gates alone, changing nothing: is it the declared server that runs, and does it answer well?

    Judges by the release that the host calls current, also for units that this workspace does not have. Exit codes:
    0 all gates passed, 3 host not reached, 8 a gate failed.

    \b
    deployer verify gpu1 -u qwen3.5-397b
    deployer verify @coding --json
    """
    from deployer.errors import SettingsError
    from deployer.rollout.units import Declared, declare, unit_names
    from deployer.rollout.verify import verify_now, verify_unit

    space = run_hosts.workspace(ctx)
    hosts = space.resolve(names)
    wanted = {host.name: unit_names(space, host, units) for host in hosts}
    known = set(space.unit_names())
    declared: dict[tuple[str, str], Declared] = {}
    for host in hosts:
        for name in known.intersection(wanted[host.name]):
            # Settings that cannot be pushed now are no reason not to look at what was pushed before.
            with contextlib.suppress(SettingsError):
                declared[host.name, name] = declare(space, host, name)

    def act(host: Host, view: View) -> list[Report]:
        with run_hosts.open_contact(host, view) as contact:
            return [_named(verify_now(contact, declared[host.name, name], settle) if (host.name, name) in declared
                           else verify_unit(contact, f"{name}.service", settle)) for name in wanted[host.name]]

    def _named(report: Report) -> Report:
        good = report.outcome is Outcome.NOTHING_TO_DO
        return records.replace(report, data={**report.data, "word": "good"}) if good else report

    return run_hosts.run(hosts, act, as_json=as_json)
