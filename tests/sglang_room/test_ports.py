"""All ports of an instance, by release."""

from __future__ import annotations

import pytest

from deployer.sglang.ports import Port, collisions, ports


@pytest.mark.parametrize(("args", "release", "expected"), [
    ({}, "0.5.9", [(30000, 30000), (32768, 60999)]),
    ({"port": 8000}, "0.5.8", [(8000, 8000), (8100, 9000)]),
    ({"port": 8000}, "0.5.22", [(8000, 8000), (22000, 29999)]),
    ({"port": 8000, "nccl-port": 29500}, "0.5.22", [(8000, 8000), (29500, 29500)]),
    ({"dist_init_addr": "10.0.0.1:5000"}, "0.5.9", [(30000, 30000), (5000, 5000)]),
    ({"port": 30000, "enable-dp-attention": True, "dp-size": 2}, "0.5.9",
     [(n, n) for n in (30000, 30233, 30234, 30235, 30236, 30237, 30238, 30013)]),
    ({"port": 30000, "enable-dp-attention": True, "dp-size": 2}, "0.5.13",
     [(n, n) for n in (30000, 30233, 30234, 30235, 30236, 30237, 30238, 30239, 30013)]),
    ({"port": 30000, "enable-dp-attention": True, "dp-size": 1}, "0.5.22", [(30000, 30000), (22000, 29999)]),
])
def test_ports(args: dict[str, object], release: str, expected: list[tuple[int, int]]) -> None:
    assert [(port.low, port.high) for port in ports(args, release)] == expected


def test_collisions_certain_ones_first() -> None:
    mine = ports({"port": 30000}, "0.5.8")
    others = ports({"port": 30500}, "0.5.8")
    found = collisions(mine, others)
    assert [(pair.mine.what, pair.other.what, pair.certain) for pair in found] == [
        ("torch.distributed", "HTTP", False), ("torch.distributed", "torch.distributed", False)]
    same = collisions(mine, [Port(30000, 30000, "HTTP")])
    assert [pair.certain for pair in same] == [True]
