"""``deployer rollback``."""

from __future__ import annotations

import click

from deployer.cli import run_hosts
from deployer.rollout.view import Report, View
from deployer.settings.model import Host


@click.command("rollback")
@run_hosts.host_options
@run_hosts.pace_options
@click.option("--to", type=click.IntRange(0), default=None, metavar="N",
              help="This release (default: the one that served before the current one).")
@click.option("--overwrite-drift", is_flag=True, help="Discard edits that were made by hand on the host.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], units: tuple[str, ...], as_json: bool, parallel: int,
            max_failures: int, to: int | None, overwrite_drift: bool) -> int:
    """Bring an earlier release back, verified like any push. Release 0 is the unit as it was before the first push.

    \b
    deployer rollback gpu1 -u qwen3.5-397b
    deployer rollback gpu1 -u qwen3.5-397b --to 3
    """
    from deployer.rollout.rollback import rollback
    from deployer.rollout.units import unit_names

    space = run_hosts.workspace(ctx)
    hosts = space.resolve(names)
    wanted = {host.name: unit_names(space, host, units) for host in hosts}

    under_way = run_hosts.UnderWay(hosts, max_failures)

    def act(host: Host, view: View) -> list[Report]:
        with run_hosts.open_contact(host, view, turn=under_way.turn(host, view)) as contact:
            return [rollback(contact, f"{name}.service", to, overwrite_drift=overwrite_drift)
                    for name in wanted[host.name]]

    return run_hosts.run(hosts, act, as_json=as_json, parallel=parallel, turns=under_way.turns,
                         interrupted=under_way.interrupted)
