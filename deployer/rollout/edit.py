"""Changes to ``units/NAME.toml`` that leave its order, remarks and everything else as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.intake.secrets import is_secret
from deployer.intake.settings import devices_of
from deployer.protocol.redact import is_secret_name
from deployer.render.overrides import ADDED
from deployer.rollout.effect import Effect
from deployer.settings.model import UnitSettings
from deployer.sglang.catalogue import catalogue
from deployer.systemd import directives


class Editor:
    """``overrides`` are the host's own values over the unit's: what they say is not changed here but told."""

    def __init__(self, text: str, settings: UnitSettings, overrides: Mapping[str, Any]) -> None:
        import tomlkit

        self._kit = tomlkit
        self._document = tomlkit.parse(text)
        self._settings = settings
        self._overrides = overrides
        self._known = catalogue(settings.program)
        self.left: list[str] = []

    def text(self) -> str:
        return self._kit.dumps(self._document)

    def take(self, declared: Effect, installed: Effect) -> None:
        """Makes the settings declare what is installed."""
        self._head(declared, installed)
        for name in dict.fromkeys([*installed.args, *declared.args]):
            if installed.args.get(name) != declared.args.get(name):
                self._argument(name, installed.args.get(name), name in installed.args)
        for name in dict.fromkeys([*installed.env, *declared.env]):
            if installed.env.get(name) != declared.env.get(name):
                self._variable(name, installed.env.get(name))
        for place in dict.fromkeys([*installed.values, *declared.values]):
            old, new = declared.values.get(place, ()), installed.values.get(place, ())
            if old != new:
                self._directive(place[0], place[1], old, new)

    def _table(self, name: str) -> Any:
        if name not in self._document:
            self._document[name] = self._kit.table()
        return self._document[name]

    def _put(self, table: str, name: str, value: Any) -> None:
        if name in self._overrides.get(table, {}):
            self.left.append(f"{table}.{name} is a value of this host's own: change it in hosts.toml, under overrides")
            return
        item = self._kit.item(value)
        if isinstance(value, dict):
            item = self._kit.inline_table()
            item.update(value)
        self._table(table)[name] = item

    def _drop(self, table: str, name: str) -> bool:
        if name in self._document.get(table, {}):
            del self._document[table][name]
            return True
        return False

    def _head(self, declared: Effect, installed: Effect) -> None:
        if installed.head == declared.head or not installed.head or not declared.head:
            return
        tail = declared.head[-2:]
        if installed.head[-2:] != tail:
            self.left.append(f"the host runs {' '.join(installed.head)}: settings start {' '.join(tail)}")
            return
        *wrapper, python = installed.head[:-2]
        if python != declared.head[-3]:
            self._put(self._settings.program, "python", python)
        if wrapper != list(declared.head[:-3]):
            if wrapper:
                self._put(self._settings.program, "wrapper", wrapper)
            else:
                self._drop(self._settings.program, "wrapper")

    def _argument(self, name: str, value: Any, given: bool) -> None:
        dest = self._known.dest(name)
        written = next((key for key in self._document.get("args", {}) if self._known.dest(key) == dest), name)
        if dest == "config":
            self.left.append("--config was changed by hand: it carries the secrets")
        elif not given:
            if not self._drop("args", written):
                self.left.append(f"{name} was taken out by hand, and is not declared under [args]")
        elif is_secret_name(name) and isinstance(value, str) and value:
            self.left.append(f"{name} stands in clear in the installed unit: it is no setting; put it under [secrets]")
        else:
            self._put("args", written, value)

    def _variable(self, name: str, value: str | None) -> None:
        listed = devices_of(value) if name == "CUDA_VISIBLE_DEVICES" and value else None
        if listed:
            self._put("gpu", "devices", listed)
        elif value is None:
            if name == "CUDA_VISIBLE_DEVICES" and self._drop("gpu", "devices"):
                return
            if not self._drop("env", name):
                table = self._table("service")
                before = table.get("UnsetEnvironment", [])
                self._put("service", "UnsetEnvironment", [*([before] if isinstance(before, str) else before), name])
        elif is_secret(name, value):
            self.left.append(f"{name} stands in clear in the installed unit: it is no setting; put it under [secrets]")
        else:
            self._put("env", name, value)

    def _directive(self, section: str, key: str, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        table = section.lower()
        if key == "Description" and new and "%" not in new[-1]:
            self._document["description"] = new[-1]
            return
        if key in ("LoadCredential", "EnvironmentFile") and any("/etc/deployer/" in value for value in old):
            missing = [value for value in old if value not in new and "/etc/deployer/" in value]
            if missing:
                self.left.append(f"{key}={missing[0]} was taken out by hand: it hands over the secrets")
                return
        kind = directives.kind(section, key)
        if key in ADDED or kind.dependency:
            self._added(table, key, old, new)
        elif not new:
            if not self._drop(table, key):
                self._put(table, key, "")
        else:
            self._put(table, key, list(new) if kind.many and len(new) > 1 else new[-1])

    def _added(self, table: str, key: str, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Directives that add to the template's: further ones are appended, else all are written after a reset."""
        declared = self._document.get(table, {}).get(key, [])
        present = [declared] if isinstance(declared, str) else [str(item) for item in declared]
        if all(value in new for value in old):
            written = [*present, *(value for value in new if value not in old)]
        else:
            gone = [value for value in old if value not in new]
            written = [value for value in present if value not in gone]
            if any(value not in present for value in gone):
                written = ["", *new]
        if written:
            self._put(table, key, written if len(written) > 1 else written[0])
        else:
            self._drop(table, key)


