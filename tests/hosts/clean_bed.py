"""What the tests of cleaning share: units that leave processes behind, and holders that a container cannot see."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.hosts.bed import Host, Hypervisor, Said

UNIT = "qwen.service"


def leave(host: Host, unit: str, *holds: str, marked: bool = True, stop: bool = True) -> None:
    """Starts a unit whose processes outlive it (KillMode=process), holding e.g. ``0=5000``, and stops it."""
    marker = f"Environment=DEPLOYER_UNIT={unit}\n" if marked else ""
    held = " ".join(f"setsid gpu-hold {hold} &" for hold in holds)
    host.write(f"/etc/systemd/system/{unit}",
               f"[Service]\n{marker}KillMode=process\nExecStart=/bin/bash -c '{held} exec sleep 100000'\n")
    host.run(f"systemctl daemon-reload && systemctl start {unit}")
    await_holders(host, len(holds))
    if stop:
        host.run(f"systemctl stop {unit}")


def await_holders(host: Host, count: int, limit: float = 10.0) -> None:
    """Returns when so many processes hold GPU memory; fails after ``limit`` seconds."""
    until = time.monotonic() + limit
    while len(host.gpu.processes()) < count:
        assert time.monotonic() < until, f"{host.gpu.processes()} instead of {count} holders"
        time.sleep(0.05)


def result(said: Said) -> dict[str, Any]:
    """The last event of a command that streams JSON."""
    last: dict[str, Any] = json.loads(said.out.splitlines()[-1])
    assert last["event"] == "result"
    return last


def events(said: Said, name: str) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, said.out.splitlines()) if event["event"] == name]


def ended(said: Said) -> list[int]:
    return sorted(one["holder"]["pid"] for one in result(said)["cleaned"]["ended"])


@contextmanager
def hidden(hypervisor: Hypervisor, *variables: str, hold: str) -> Iterator[int]:
    """A holder in the container that its own root cannot see; its pid on the hypervisor.

    A mount over its folder in the container's /proc hides it, as another's rights or a dead mount do.
    """
    container = hypervisor.container
    words = " ".join(["env", *variables, "setsid", "gpu-hold", hold])
    container.run(f"({words} >/dev/null 2>&1 </dev/null &)")
    until = time.monotonic() + 10
    while not (inside := container.pids(f"gpu-hold {hold}")):
        assert time.monotonic() < until
        time.sleep(0.05)
    outside = next(pid for pid in hypervisor.pids(f"gpu-hold {hold}")
                   if "/lxc/101" in hypervisor.read(f"/proc/{pid}/cgroup"))
    await_holders(hypervisor, 1)
    container.run(f"mount -t tmpfs hidden /proc/{inside[0]}")
    try:
        yield outside
    finally:
        container.run(f"umount /proc/{inside[0]}", check=False)
        hypervisor.run(["kill", "-9", str(outside)], check=False)
