"""What several commands have they call by the same names."""

from __future__ import annotations

import click
import pytest

from deployer.cli.program import program

ALIKE = [("-y", "--yes"), ("-u", "--unit"), ("-o", "--output")]


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(program)
    return [(name, command) for name in program.list_commands(context)
            if (command := program.get_command(context, name)) is not None]


@pytest.mark.parametrize(("short", "long"), ALIKE)
def test_an_option_has_its_short_name_everywhere(short: str, long: str) -> None:
    having = {name: parameter.opts for name, command in commands() for parameter in command.params
              if long in parameter.opts or short in parameter.opts}
    assert having
    assert {name: opts for name, opts in having.items() if not {short, long} <= set(opts)} == {}
