"""Units of one host against each other: what two servers cannot both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deployer.protocol.finding import Finding, Level
from deployer.settings.model import Host, UnitSettings
from deployer.sglang.catalogue import catalogue

_DEFAULT_PORTS = {"sglang": 30000, "router": 30000}
"""server_args.py and router_args.py of every release that the catalogue holds."""


def on_host(host: Host, units: Sequence[UnitSettings]) -> list[Finding]:
    """Findings about the units that hosts.toml lists for ``host``, its overrides in them."""
    placed = []
    for index, unit in enumerate(units):
        found = [finding for other in units[:index] for finding in _ports(host, unit, other)]
        found += _gpus(host, unit, units[:index])
        placed += [finding.at(unit.spans.where(finding.key)) if unit.spans else finding for finding in found]
    return placed


def _ports(host: Host, unit: UnitSettings, other: UnitSettings) -> Iterator[Finding]:
    mine, theirs = ports(unit), ports(other)
    for number in mine.keys() & theirs.keys():
        yield Finding(
            "port-collision", Level.ERROR, f"on {host.name}, {unit.name} and {other.name} both take port {number} "
            f"({mine[number]}, {theirs[number]})", ("args", mine[number]),
            hint=f"give one of the two another {mine[number]}")


def ports(unit: UnitSettings) -> dict[int, str]:
    """The ports that a unit's arguments name: number -> argument."""
    known = catalogue(unit.program)
    declared = {known.dest(name): (name, value) for name, value in unit.args.items()}
    found: dict[int, str] = {}
    for dest in ("port", "nccl_port", "grpc_port", "disaggregation_bootstrap_port", "dist_init_addr"):
        name, value = declared.get(dest, (dest, _DEFAULT_PORTS[unit.program] if dest == "port" else None))
        text = str(value).rpartition(":")[2]
        if text.isdigit():
            found.setdefault(int(text), name)
    return found


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
