"""Figures and gaps of one start, as an explanation gives them."""

from __future__ import annotations

from typing import Any, Dict, List

from deployer.agent.log.attempt import Attempt


def gaps_of(start: Attempt) -> List[str]:
    """Where lines of ``start`` are missing, in words."""
    found = list(start.gaps)
    if start.lost:
        found.append("{} line(s) came without text (MESSAGE null): journalctl leaves long lines out without -a".format(
            start.lost))
    return found


def capacity_of(start: Attempt) -> Dict[str, Any]:
    """Figures of the log: tokens, requests, context, GB (2**30 bytes on the device, 1e9 of the host pool)."""
    known = start.known
    found: Dict[str, Any] = {}
    for rank, capacity in known.capacities.items():
        for name, value in capacity.items():
            if value is not None:
                found.setdefault(name, value)
        if len(known.capacities) > 1:
            found.setdefault("ranks", {})[rank] = capacity["max_total_num_tokens"]
    if known.max_total_num_tokens is not None:
        found.setdefault("max_total_num_tokens", known.max_total_num_tokens)
    if known.timeline.available:
        found["available_before_weights_gb"] = min(known.timeline.available.values())
    used = [usage for _, usage in known.loaded.values() if usage]
    if used:
        found["weights_gb"] = max(used)
    if known.pools:
        first = known.pools[0]["rank"]
        found["kv_pools"] = [{key: pool[key] for key in ("name", "dtype", "tokens", "gb")}
                             for pool in known.pools if pool["rank"] == first]
    if known.host_pool:
        found["host_pool_gb"] = known.host_pool
    for name in ("mem_fraction_static", "tp_size", "dp_size"):
        value = known.number(name)
        if value is not None:
            found[name] = value
    return found
