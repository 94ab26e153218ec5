"""The directives of a unit that have to survive an import: as written, after drop-ins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.systemd import directives as table
from deployer.systemd import values
from deployer.systemd.command import Command
from deployer.systemd.parse import Unit, canonical

_OWN = {"ExecStart", "Environment"}
_WORDS = {"ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths", "SupplementaryGroups",
          "PassEnvironment", "UnsetEnvironment", "Documentation", "RequiresMountsFor", "WantsMountsFor"}
_FOLDERS = {"StateDirectory", "CacheDirectory", "LogsDirectory", "RuntimeDirectory", "ConfigurationDirectory"}


def directives(unit: Unit, commands: Mapping[str, list[Command]]) -> dict[str, dict[str, Any]]:
    """Section -> directive -> value; a list for what adds up. Specifiers stay as they are written."""
    found: dict[str, dict[str, Any]] = {section: {} for section in table.SERVICE_SECTIONS}
    for item in unit.assignments:
        section, key = canonical(item.section, item.key)
        known = table.known(item.section, item.key) or (section, key) != (item.section, item.key)
        if section not in found or key in found[section] or key in _OWN or not known:
            continue
        value = _value(unit, section, key, commands)
        if value not in (None, []):
            found[section][key] = value
    return found


def _value(unit: Unit, section: str, key: str, commands: Mapping[str, list[Command]]) -> Any:
    kind = table.kind(section, key)
    if key.startswith("Exec") and key in commands:
        texts = [command.text for command in commands[key]]
        return texts or [item.value for item in unit.effective(section, key)]
    if kind.dependency or (section == "Install" and key != "DefaultInstance") or key in _WORDS:
        return unit.words(section, key)
    if key in _FOLDERS:
        items = [item.value for item in unit.effective(section, key)]
        return items[0] if len(items) == 1 else items
    if kind.many:
        return [item.value for item in unit.effective(section, key)]
    return unit.value(section, key)


def ignored(unit: Unit) -> dict[str, dict[str, Any]]:
    """Directives that are in the text and have no effect: unknown ones, values that systemd does not take."""
    found: dict[str, dict[str, Any]] = {}
    for item in unit.assignments:
        kind = table.kind(item.section, item.key)
        if not table.known(item.section, item.key):
            found.setdefault(item.section, {})[item.key] = item.value
        elif not values.accepted(item.value, kind.value, item.key):
            section = found.setdefault(item.section, {})
            if kind.many:
                section.setdefault(item.key, []).append(item.value)
            else:
                section[item.key] = item.value
    return found
