"""``deployer push``."""

from __future__ import annotations

import click

from deployer.cli import run_hosts
from deployer.cli.console import say
from deployer.rollout.view import Report, View
from deployer.settings.model import Host


@click.command("push")
@run_hosts.host_options
@run_hosts.pace_options
@click.option("--dry-run", is_flag=True, help="Look and judge only: nothing is changed.")
@click.option("--overwrite-drift", is_flag=True, help="Discard edits that were made by hand on the host.")
@click.option("--restart", is_flag=True, help="Push even with nothing to change: the server is started anew.")
@click.option("--clean", "scope", type=click.Choice(["none", "own", "orphans"]), default=None,
              help="How far holders of the unit's GPUs may be ended (default: as declared).")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], units: tuple[str, ...], as_json: bool, parallel: int,
            max_failures: int, dry_run: bool, overwrite_drift: bool, restart: bool, scope: str | None) -> int:
    """Bring hosts to what is declared: checked, stopped, cleaned, installed, started, verified; or put back.

    The host finishes alone: a lost connection never leaves it half done. Exit codes: 0 done or nothing to do,
    3 host not reached, 4 failed and rolled back, 5 failed and nothing serves, 6 locked, 7 refused, 130 interrupted.

    \b
    deployer push gpu1 -u qwen3.5-397b
    deployer push @coding --parallel 2
    """
    from deployer.rollout import secrets as secret_room
    from deployer.rollout.push import Options, push
    from deployer.rollout.units import declare, unit_names

    space = run_hosts.workspace(ctx)
    hosts = space.resolve(names)
    wanted = Options(dry_run, overwrite_drift, scope, restart)
    # Everything declared is read and judged before the first connection.
    declared = {host.name: [declare(space, host, name) for name in unit_names(space, host, units)] for host in hosts}
    held = {host.name: [secret_room.resolve(entry.settings) for entry in declared[host.name]] for host in hosts}
    under_way = run_hosts.UnderWay(hosts, max_failures)

    def act(host: Host, view: View) -> list[Report]:
        with run_hosts.open_contact(host, view, ctx, under_way.turn(host, view)) as contact:
            return [push(contact, entry, secrets, wanted)
                    for entry, secrets in zip(declared[host.name], held[host.name], strict=True)]

    code = run_hosts.run(hosts, act, as_json=as_json, parallel=parallel, turns=under_way.turns,
                         interrupted=under_way.interrupted)
    if code == 0 and wanted.dry_run:
        say("dry run: nothing was changed")
    return code
