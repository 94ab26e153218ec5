"""``deployer schema``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deployer.cli.console import result_json

if TYPE_CHECKING:
    from deployer.sglang.flag import Flag


@click.command("schema")
@click.argument("which", type=click.Choice(["unit", "hosts"]), default="unit", metavar="[unit|hosts]")
@click.option("--sglang", "release", metavar="V", help="Name the arguments of this release of SGLang under [args] too.")
def command(which: str, release: str | None) -> None:
    """Print the JSON Schema (2020-12) of units/NAME.toml, or of hosts.toml, for editors.

    \b
    deployer schema unit --sglang 0.5.9 > unit.schema.json
    deployer schema hosts > hosts.schema.json

    An editor with taplo (Even Better TOML) then completes keys and shows what they mean in a file whose first line is:

    \b
    #:schema ../unit.schema.json
    """
    from deployer.settings import schema

    if which == "hosts":
        result_json(schema.hosts_schema())
        return
    unit = schema.unit_schema()
    if release:
        _name_arguments(unit["properties"]["args"], release)
    result_json(unit)


def _name_arguments(args: dict[str, Any], declared: str) -> None:
    """Names the arguments of the release for completion. Any value is taken still: `deployer check` judges them."""
    from deployer.errors import UsageError
    from deployer.sglang.catalogue import catalogue

    known = catalogue()
    if declared not in known.releases:
        raise UsageError(f"no release {declared} of SGLang is known", hint=f"the newest known one is {known.newest}")
    args["properties"] = {
        name.lstrip("-"): {
            "description": f"SGLang {declared}: {_about(flag)}",
            **({"deprecated": True} if flag.deprecated else {}),
            **args["additionalProperties"],
        }
        for name, flag in known.spellings(declared).items()
        if not flag.positional
    }


def _about(flag: Flag) -> str:
    """What the argument takes, in one line."""
    takes = " or ".join(map(str, flag.choices)) if flag.choices else flag.type
    default = f", {flag.default} by default" if flag.default is not None else ""
    old = f" Deprecated{f': write {flag.instead}' if flag.instead else ''}." if flag.deprecated else ""
    return (f"{takes}{default}." if flag.takes_value else "true or false.") + old
