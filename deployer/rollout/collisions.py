"""Units of one host against each other: what two servers cannot both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deployer.protocol.finding import Finding, Level
from deployer.rollout.preflight import lowest
from deployer.settings.model import Host, UnitSettings
from deployer.sglang import ports
from deployer.sglang.catalogue import catalogue

_ROUTER_PORT = 30000
"""router_args.py of every release that the catalogue holds."""


def on_host(host: Host, units: Sequence[UnitSettings]) -> list[Finding]:
    """Findings about the units that hosts.toml lists for ``host``, its overrides in them."""
    placed = []
    for index, unit in enumerate(units):
        found = [finding for other in units[:index] for finding in _ports(host, unit, other)]
        found += _gpus(host, unit, units[:index])
        placed += [finding.at(unit.spans.where(finding.key)) if unit.spans else finding for finding in found]
    return placed


def _ports(host: Host, unit: UnitSettings, other: UnitSettings) -> Iterator[Finding]:
    """Ports that both will surely take are an error; those that one may take by chance, a warning."""
    told: set[tuple[int, int]] = set()
    for pair in ports.collisions(ports_of(unit), ports_of(other)):
        where = (max(pair.mine.low, pair.other.low), min(pair.mine.high, pair.other.high))
        if where in told or not (pair.certain or pair.mine.fixed or pair.other.fixed):
            continue
        told.add(where)
        certain = pair.certain
        yield Finding(
            "port-collision" if certain else "port-by-chance", Level.ERROR if certain else Level.WARNING,
            f"on {host.name}, {unit.name} and {other.name} {'both take' if certain else 'may both take'} port "
            f"{where[0]} ({_words(pair.mine)}, {_words(pair.other)})", ("args", pair.mine.argument),
            hint=f"give one of the two another {pair.mine.argument}" if certain else "pin nccl-port in each of the two")


def _words(port: ports.Port) -> str:
    return f"{port.what}: --{port.argument}" if port.what != "HTTP" else "--port"


def ports_of(unit: UnitSettings) -> list[ports.Port]:
    """All ports that a unit will take."""
    if unit.program == "router":
        port = unit.args.get("port", _ROUTER_PORT)
        return [ports.Port(int(str(port)), int(str(port)), "HTTP")] if str(port).isdigit() else []
    return ports.ports(unit.args, lowest(unit.sglang) or catalogue().releases[-1])


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
