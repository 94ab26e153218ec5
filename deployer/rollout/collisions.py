"""Units of one host against each other: what two servers cannot both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deployer.protocol.finding import Finding, Level
from deployer.settings.model import Host, UnitSettings
from deployer.sglang import ports, releases
from deployer.sglang.catalogue import catalogue
from deployer.sglang.ports import Collision, Port

ANYWHERE = ("0.0.0.0", "::", "")
"""Addresses on which a server is bound everywhere."""


def on_host(host: Host, units: Sequence[UnitSettings]) -> list[Finding]:
    """Findings about the units that hosts.toml lists for ``host``, its overrides in them."""
    placed = []
    for index, unit in enumerate(units):
        found = [finding for other in units[:index] for finding in _ports(host, unit, other)]
        found += _gpus(host, unit, units[:index])
        placed += [finding.at(unit.spans.where(finding.key)) if unit.spans else finding for finding in found]
    return placed


def _ports(host: Host, unit: UnitSettings, other: UnitSettings) -> Iterator[Finding]:
    """Two random ports do not collide: each process looks for a free one. A fixed one is bound when it is too late."""
    apart = _bound_apart(unit, other)
    pairs = [pair for pair in ports.collisions(taken(unit), taken(other))
             if (pair.mine.fixed or pair.other.fixed)
             and not (apart and pair.mine.what == pair.other.what == "HTTP")]
    certain = [pair for pair in pairs if pair.certain]
    for pair in certain[:1] or pairs[:1]:
        yield _collision(host, unit, other, pair)


def _collision(host: Host, unit: UnitSettings, other: UnitSettings, pair: Collision) -> Finding:
    mine, theirs = pair.mine, pair.other
    if pair.certain:
        return Finding(
            "port-collision", Level.ERROR, f"on {host.name}, {unit.name} and {other.name} both take port {mine.low} "
            f"({mine.what}; {theirs.what})", ("args", _name(unit, mine.argument)),
            hint=f"give one of the two another {mine.argument}")
    random, owner, fixed = (mine, unit, theirs) if theirs.fixed else (theirs, other, mine)
    return Finding(
        "port-may-collide", Level.WARNING, f"on {host.name}, {owner.name} takes a random port of {random.low} to "
        f"{random.high} for {random.what}; port {fixed.low} ({fixed.what}) of "
        f"{other.name if owner is unit else unit.name} lies among them",
        ("args", _name(unit, (mine if mine.fixed else random).argument)),
        hint=f"pin {random.argument} of {owner.name} to a free port")


def taken(unit: UnitSettings) -> list[Port]:
    """The ports of a unit in the first and the last release that it allows."""
    known = catalogue(unit.program)
    given = {known.dest(name): value for name, value in unit.args.items() if value is not False}
    if unit.program == "router":
        declared = [(dest, str(given[dest])) for dest in ("port", "prometheus_port") if dest in given]
        numbers = {"port": str(ports.DEFAULT_PORT), **dict(declared)}
        return [Port(int(text), int(text), "HTTP" if dest == "port" else "metrics", dest.replace("_", "-"))
                for dest, text in numbers.items() if text.isdigit()]
    meant = releases.meant(known, unit.sglang)[0]
    ends = dict.fromkeys([meant[0], meant[-1]]) if meant else {}
    return list(dict.fromkeys(port for release in ends for port in ports.ports(given, release)))


def _bound_apart(unit: UnitSettings, other: UnitSettings) -> bool:
    """Whether the two are bound to different addresses of the host."""
    mine, theirs = (str(each.args.get("host", "127.0.0.1")) for each in (unit, other))
    return mine != theirs and mine not in ANYWHERE and theirs not in ANYWHERE


def _name(unit: UnitSettings, argument: str) -> str:
    """An argument as the unit spells it, so that the finding points at it."""
    known = catalogue(unit.program)
    wanted = known.dest(argument)
    return next((name for name in unit.args if known.dest(name) == wanted), argument)


def _gpus(host: Host, unit: UnitSettings, others: Sequence[UnitSettings]) -> Iterator[Finding]:
    """Two servers may share GPUs, when both leave memory for the other."""
    sharing = [other for other in others if _shared(unit, other)]
    if sharing:
        names = ", ".join(other.name for other in sharing)
        yield Finding("gpu-shared", Level.WARNING, f"on {host.name}, {unit.name} shares GPUs with {names}",
                      ("gpu", "devices"), hint="write devices under [gpu] of each, or leave memory for the others with "
                      "mem-fraction-static")


def _shared(unit: UnitSettings, other: UnitSettings) -> bool:
    mine, theirs = unit.gpu.devices, other.gpu.devices
    if not mine or not theirs or "router" in (unit.program, other.program):
        return False
    return mine == "all" or theirs == "all" or bool(set(mine).intersection(theirs))
