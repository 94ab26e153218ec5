"""``deployer schema``."""

from __future__ import annotations

import click

from deployer.cli.console import result_json


@click.command("schema")
@click.argument("which", type=click.Choice(["unit", "hosts"]), default="unit", metavar="[unit|hosts]")
def command(which: str) -> None:
    """Print the JSON Schema (2020-12) of units/NAME.toml, or of hosts.toml, for editors.

    \b
    deployer schema unit > unit.schema.json
    deployer schema hosts > hosts.schema.json

    An editor with taplo (Even Better TOML) then completes keys and shows what they mean in a file whose first line is:

    \b
    #:schema ../unit.schema.json
    """
    from deployer.settings import schema

    result_json(schema.unit_schema() if which == "unit" else schema.hosts_schema())
