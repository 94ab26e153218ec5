"""What files cannot bring back: an environment or a model that changed in place since the current release was good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployer.protocol.facts import Facts
from deployer.protocol.finding import Finding, Level


def changed(facts: Facts, now: Mapping[str, Any]) -> list[Finding]:
    """A finding when the current release, brought back, would not run on what it ran on."""
    before = next((entry.get("identity") for entry in facts.unit.releases
                   if entry.get("number") == facts.unit.current), None)
    if not before or not now:
        return []
    differences = list(_differences(before, now))
    if not differences:
        return []
    shown = "; ".join(differences[:4]) + (f"; and {len(differences) - 4} more" if len(differences) > 4 else "")
    return [Finding(
        "rollback-not-the-same", Level.WARNING,
        f"if this push fails, release {facts.unit.current} comes back on what has changed since it was good: {shown}",
        hint="keep the old environment and model in folders of their own, so that a rollback finds them")]


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) or isinstance(new, dict):
            files = sorted(key for key in {*(old or {}), *(new or {})} if (old or {}).get(key) != (new or {}).get(key))
            if files and old and new:
                yield f"{name}: {', '.join(files[:3])}{' …' if len(files) > 3 else ''}"
        elif old != new and name != "site-packages":
            yield f"{name} {old or 'absent'} → {new or 'absent'}"
        elif old != new:
            yield "packages were installed or removed in the environment"
