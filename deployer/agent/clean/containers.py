"""Containers of this host: their names, and stopping one as its own engine does."""

from __future__ import annotations

import re
from typing import Dict, Iterable

from deployer.agent.door import run

ENGINES = ("docker", "podman", "nerdctl")


def names(containers: Iterable[str]) -> Dict[str, str]:
    """"docker 0123456789ab" to its name; engines that do not answer within 5 s give none."""
    found: Dict[str, str] = {}
    wanted = set(containers)
    for engine in sorted({container.partition(" ")[0] for container in wanted} & set(ENGINES)):
        ran = run([engine, "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}"], timeout=5)
        for line in ran.out.splitlines() if ran.ok else ():
            identifier, _, name = line.partition(" ")
            key = "{} {}".format(engine, identifier[:12])
            if key in wanted and name:
                found[key] = name.strip()
    return found


def stop(container: str, limit: float) -> str:
    """Stops "docker ID" with the engine's own command; empty, or what went wrong. ``limit`` in seconds."""
    engine, _, identifier = container.partition(" ")
    if engine not in ENGINES or not re.fullmatch(r"[0-9a-f]{12,64}", identifier):
        return "{}: no engine here stops such a container".format(container)
    ran = run([engine, "stop", identifier], timeout=max(15.0, limit))
    return "" if ran.ok else "{} stop {}: {}".format(engine, identifier, ran.said)
