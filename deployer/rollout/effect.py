"""What the text of a unit comes to: arguments, variables, directives. Two texts of one effect need no push."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.intake.arguments import read as read_arguments
from deployer.intake.found import server
from deployer.protocol.records import dataclass
from deployer.systemd import directives, specifiers
from deployer.systemd.command import commands
from deployer.systemd.environment import assignments
from deployer.systemd.parse import Unit, canonical, merge, parse

_APART = {("Service", "ExecStart"), ("Service", "Environment")}


@dataclass(frozen=True)
class Effect:
    """``head``: the words up to the server's own arguments; None where no server is started. ``args`` by full names.

    ``values``: (section, directive) -> the values that count, as written.
    """

    head: tuple[str, ...] | None
    args: Mapping[str, Any]
    env: Mapping[str, str]
    values: Mapping[tuple[str, str], tuple[str, ...]]


def effect(name: str, text: str, dropins: Mapping[str, str], program: str) -> Effect:
    """The effect of ``name`` (with its suffix) with drop-ins by their paths. Variables that only the host has stay."""
    unit = merge(parse(text, name), [parse(part, path) for path, part in dropins.items()])
    known = {**specifiers.SYSTEM, **specifiers.of_unit(name)}
    env, _ = assignments(unit.effective("Service", "Environment"), known)
    found, _ = commands(unit.effective("Service", "ExecStart"), known)
    head: tuple[str, ...] | None = None
    args: Mapping[str, Any] = {}
    if len(found) == 1:
        unset: list[str] = []
        found[0].argv(env, unset)
        argv = found[0].argv({**env, **{name: "${" + name + "}" for name in unset}})
        for at in range(len(argv)):
            started = server(argv[at:])
            if started and started[0] == program:
                head = tuple(argv[: at + started[1]])
                args = read_arguments(argv[at + started[1]:], program).args
                break
    return Effect(head, args, env, _values(unit))


def _values(unit: Unit) -> dict[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for item in unit.assignments:
        place = canonical(item.section, item.key)
        if place in found or place in _APART or not directives.known(item.section, item.key):
            continue
        values = tuple(each.value for each in unit.effective(*place))
        if values:
            found[place] = values
    return found
