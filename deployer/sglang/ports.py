"""Every TCP port that one instance will take, by release (facts: ``server_args.py``, ``PortArgs.init_new``).

Without DP attention the processes speak over unix sockets; the port of torch.distributed is random unless pinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.protocol.records import dataclass
from deployer.sglang.fits import size
from deployer.sglang.version import at_least

DEFAULT_PORT = 30000
DIST_OFFSET = 233
"""--port + 233 is the rendezvous of a single node with DP attention where no --dist-init-addr is declared."""


@dataclass(frozen=True)
class Port:
    """One port, or a range of ``low..high`` from which a random one is taken; ``argument`` pins or moves it."""

    low: int
    high: int
    what: str
    argument: str = "port"

    @property
    def fixed(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        return str(self.low) if self.fixed else f"{self.low}–{self.high} (one of them, by chance)"


@dataclass(frozen=True)
class Collision:
    """Two ports that can be the same; ``certain`` when both are fixed."""

    mine: Port
    other: Port

    @property
    def certain(self) -> bool:
        return self.mine.fixed and self.other.fixed


def ports(args: Mapping[str, Any], release: str, ephemeral: tuple[int, int] = (32768, 60999)) -> list[Port]:
    """All ports of an instance with these arguments. ``ephemeral`` is net.ipv4.ip_local_port_range."""
    given = {name.replace("-", "_"): value for name, value in args.items()}
    port = size(given, "port", default=DEFAULT_PORT)
    found = [Port(port, port, "HTTP")]
    dist = _dist_port(given)
    if dist:
        found.append(Port(dist, dist, "torch.distributed rendezvous", "dist-init-addr"))
    elif not _dp_attention(given, release):
        found.append(_nccl(given, port, release, ephemeral))
    if _dp_attention(given, release):
        found += _attention_ports(given, port, dist, release)
    mode = str(given.get("disaggregation_mode") or "null")
    if mode != "null" or "disaggregation_bootstrap_port" in given:
        bootstrap = size(given, "disaggregation_bootstrap_port", default=8998)
        if mode in ("prefill", "null"):
            found.append(Port(bootstrap, bootstrap, "disaggregation bootstrap", "disaggregation-bootstrap-port"))
    if given.get("kv_events_config"):
        found.append(Port(5557, 5557, "KV events", "kv-events-config"))
    if "grpc_port" in given:
        grpc = size(given, "grpc_port", default=port + 10000)
        found.append(Port(grpc, grpc, "gRPC", "grpc-port"))
    elif given.get("smg_grpc_mode") or given.get("grpc_mode"):
        found.append(Port(port + 10000, port + 10000, "gRPC"))
    return found


def collisions(mine: list[Port], others: list[Port]) -> list[Collision]:
    """Pairs that overlap, certain ones first."""
    found = [Collision(one, other) for one in mine for other in others
             if one.low <= other.high and other.low <= one.high]
    return sorted(found, key=lambda pair: not pair.certain)


def _dist_port(given: Mapping[str, Any]) -> int | None:
    address = str(given.get("dist_init_addr") or "")
    tail = address.rpartition(":")[2]
    return int(tail) if tail.isdigit() else None


def _dp_attention(given: Mapping[str, Any], release: str) -> bool:
    legacy = bool(given.get("enable_dp_attention")) and size(given, "dp_size", "data_parallel_size") > 1
    return legacy or (at_least(release, "0.5.22") and size(given, "attn_dp_size") > 1)


def _nccl(given: Mapping[str, Any], port: int, release: str, ephemeral: tuple[int, int]) -> Port:
    pinned = size(given, "nccl_port", default=0)
    if pinned:
        return Port(pinned, pinned, "torch.distributed", "nccl-port")
    if at_least(release, "0.5.22"):
        return Port(22000, 29999, "torch.distributed", "nccl-port")
    if at_least(release, "0.5.9"):
        return Port(*ephemeral, "torch.distributed", "nccl-port")
    return Port(port + 100, port + 1000, "torch.distributed", "nccl-port")


def _attention_ports(given: Mapping[str, Any], port: int, dist: int | None, release: str) -> list[Port]:
    """The block that follows the rendezvous, and the handshake of the data parallel ranks."""
    base = (dist or port + DIST_OFFSET) + 1
    argument = "dist-init-addr" if dist else "port"
    names = ["tokenizer", "detokenizer", "RPC"]
    if at_least(release, "0.4.9"):
        names.append("metrics")
    names.append("scheduler input")
    if at_least(release, "0.5.13"):
        names.append("load collector")
    found = [Port(base + offset, base + offset, f"DP attention: {name}", argument) for offset, name in enumerate(names)]
    if not dist:
        found.insert(0, Port(base - 1, base - 1, "torch.distributed rendezvous", argument))
    ranks = size(given, "dp_size", "data_parallel_size") if given.get("enable_dp_attention") else \
        size(given, "attn_dp_size")
    if at_least(release, "0.4.9") and not at_least(release, "0.5.4"):
        found += [Port(base + 5 + rank, base + 5 + rank, f"DP attention: worker {rank}", argument)
                  for rank in range(ranks)]
    if at_least(release, "0.5.4"):
        handshake = (dist or port) + (13 if at_least(release, "0.5.6") else 5)
        found.append(Port(handshake, handshake, "DP attention: handshake", argument))
    return found
