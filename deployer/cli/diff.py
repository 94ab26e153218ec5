"""``deployer diff``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from deployer import exits
from deployer.cli import console, run_hosts
from deployer.cli.asking import ask_hosts

if TYPE_CHECKING:
    from deployer.rollout.diff import Difference


@click.command("diff")
@run_hosts.host_options
@click.option("--exit-code", is_flag=True, help="Exit with 1 when there is a difference.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], units: tuple[str, ...], as_json: bool, exit_code: bool) -> int:
    """Show what a push would change, as changed arguments and a unified diff; hand edits on the host apart.

    \b
    deployer diff gpu1
    deployer diff @coding --exit-code
    """
    from deployer.rollout.diff import difference
    from deployer.rollout.units import declare, unit_names

    space = run_hosts.workspace(ctx)
    hosts = space.resolve(names)
    declared = {host.name: [declare(space, host, name) for name in unit_names(space, host, units)] for host in hosts}
    found, code = ask_hosts(hosts, lambda contact: [
        difference(contact, entry) for entry in declared[contact.host.name]])
    every = [entry for host in hosts for entry in found.get(host.name, [])]
    if as_json:
        console.result_json({"diffs": [entry.plain() for entry in every]})
    else:
        for entry in every:
            _show(entry)
    differs = exit_code and any(every)
    return exits.gravest([code, exits.FINDINGS if differs else exits.OK])


def _show(entry: Difference) -> None:
    """What a push would change, then what was edited by hand: each change once, in words or in a diff."""
    from deployer.rollout.changes import unified
    from deployer.rollout.drift import next_command

    name = entry.unit.removesuffix(".service")
    if not entry:
        console.say(f"{entry.host} {name}: no difference")
        return
    head, arguments = f"{entry.host} {name}", entry.changes.arguments or {}
    if len(arguments) > 1 and not entry.changes.first:
        console.say(f"{head}: a push changes {len(arguments)} arguments{', secrets' if entry.changes.secrets else ''}")
        for argument, (old, new) in arguments.items():
            console.say(f"  {argument}: {'(absent)' if old is None else old or '(on)'} → "
                        f"{'(absent)' if new is None else new or '(on)'}")
    else:
        console.say(f"{head}: {entry.changes.words() if entry.changes else 'nothing to push'}")
    for change in entry.changes.files:
        _lines(unified(change))
    if entry.edits:
        console.say(f"{head}: {console.paint('edited by hand on the host since the last push', '33;1')}")
    for edit in entry.edits:
        if edit.diff:
            _lines(edit.diff)
        else:
            console.say(f"  {edit.text}")
    if entry.edits:
        console.say(f"  next: {next_command(entry.host, name, entry.declared)}")


def _lines(diff: str) -> None:
    for line in diff.splitlines():
        console.result(_painted(line))


def _painted(line: str) -> str:
    if line.startswith(("+++", "---")):
        return console.paint(line, "1", sys.stdout)
    colour = {"+": "32", "-": "31", "@": "36"}.get(line[:1])
    return console.paint(line, colour, sys.stdout) if colour else line
