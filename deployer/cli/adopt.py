"""``deployer adopt``."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from deployer import exits
from deployer.cli import console, run_hosts
from deployer.cli.complete import hosts as complete_hosts
from deployer.cli.complete import units as complete_units


@click.command("adopt")
@click.argument("host", metavar="HOST", shell_complete=complete_hosts)
@click.option("-u", "--unit", "unit", required=True, metavar="UNIT", shell_complete=complete_units,
              help="The unit to take over.")
@click.option("-o", "--output", "output", metavar="FILE",
              help="Write the settings here (-: stdout) instead of units/UNIT.toml.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a file is changed.")
@click.pass_context
def command(ctx: click.Context, host: str, unit: str, output: str | None, yes: bool) -> int:
    """Take hand edits on a host over into the settings.

    The installed unit with its drop-ins is read, and units/UNIT.toml is changed so that it declares just that; order
    and remarks of the file stay. A unit that the workspace does not have is imported. The host is not changed:
    a push settles the drift afterwards.

    \b
    deployer adopt gpu1 -u qwen3.5-397b
    deployer adopt gpu1 -u old-server -o - > units/old-server.toml
    """
    from deployer.cli.asking import ask_hosts
    from deployer.rollout.adopt import Adopted, adopt

    space = run_hosts.workspace(ctx)
    name = unit.rpartition("/")[2].removesuffix(".toml").removesuffix(".service")
    destinations = space.resolve([host])
    if len(destinations) != 1:
        raise click.UsageError(f"{host} stands for {len(destinations)} hosts: one at a time can be adopted from")
    answers, code = ask_hosts(destinations, lambda contact: adopt(contact, space, name))
    adopted = answers.get(destinations[0].name)
    if not isinstance(adopted, Adopted):
        return code
    console.show_findings(adopted.findings)
    for text in adopted.left:
        console.say(f"{console.paint('not taken over', '33;1')}: {text}")
    if output == "-":
        console.result(adopted.after.rstrip("\n"))
        return exits.OK
    return _write(adopted.file if output is None else Path(output), adopted.before, adopted.after, host, name, yes)


def _write(file: Path, before: str | None, after: str, host: str, name: str, yes: bool) -> int:
    if before == after:
        console.say(f"{file}: declares what {host} has; nothing to adopt")
        return exits.OK
    for line in difflib.unified_diff((before or "").splitlines(), after.splitlines(), f"{file.name}", f"{file.name}",
                                     lineterm=""):
        console.say(line)
    if file.exists() and not yes:
        answer = run_hosts.asker().prompt_yes(f"change {file}?", False)
        if not answer:
            why = "" if answer is False else ": there is nobody to ask; --yes or -o -"
            console.say(f"{file} was not changed{why}")
            return exits.REFUSED
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(after, encoding="utf-8")
    console.say(f"{file} declares what {host} has")
    console.say(f"  next: deployer check {name}; deployer push {host} -u {name} --overwrite-drift")
    return exits.OK


