"""``deployer attach``."""

from __future__ import annotations

import click

from deployer.cli import run_hosts
from deployer.rollout.view import Report, View
from deployer.settings.model import Host


@click.command("attach")
@run_hosts.host_options
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], units: tuple[str, ...], as_json: bool) -> int:
    """Follow a push that is under way on a host, from its beginning; or put right one that was interrupted.

    \b
    deployer attach gpu1
    """
    from deployer.rollout.attach import attach

    space = run_hosts.workspace(ctx)
    hosts = space.resolve(names)

    def act(host: Host, view: View) -> list[Report]:
        with run_hosts.open_contact(host, view) as contact:
            return [attach(contact, [f"{name.removesuffix('.service')}.service" for name in units])]

    def interrupted(view: View) -> None:
        from deployer.cli.interrupt import ask_what_now

        ask_what_now(list(hosts), view)

    return run_hosts.run(hosts, act, as_json=as_json, interrupted=interrupted)
