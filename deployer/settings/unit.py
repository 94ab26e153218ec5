"""``units/NAME.toml`` as ``UnitSettings``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deployer.settings.model import Container, Runtime, SecretRef, UnitSettings, Venv
from deployer.settings.shape import INVALID, Table
from deployer.settings.sink import Sink
from deployer.settings.spans import canonical
from deployer.settings.unit_keys import UNIT

TEMPLATES = {"sglang": "sglang.service", "router": "sglang-router.service"}
"""The template of each program, where the settings name none."""

_AS_READ = ("description", "args", "env", "gpu", "verify", "watch", "hooks")


def build(name: str, written: Mapping[str, Any], root: Path, file: Path) -> UnitSettings:
    """The settings of what ``UNIT.read`` gave; relative secret files lie in the workspace's ``root``."""
    program = "router" if "router" in written else "sglang"
    table = written[program]
    runtime: Runtime = Container(table["image"]) if "image" in table else Venv(table["python"])
    sections = {section: written.get(section.lower(), {}) for section in ("Unit", "Service", "Install")}
    kept = {key: written[key] for key in _AS_READ if key in written}
    return UnitSettings(
        name=name,
        runtime=runtime,
        sglang=table["version"],
        template=written.get("template", TEMPLATES[program]),
        wrapper=table.get("wrapper", ()),
        secrets={name: _absolute(secret, root) for name, secret in written.get("secrets", {}).items()},
        directives={section: values for section, values in sections.items() if values},
        allow_secrets_in_argv=table.get("allow_secrets_in_argv", False),
        program=program,
        file=file,
        **kept,
    )


def build_readable(name: str, data: Mapping[str, Any], sink: Sink, root: Path, file: Path) -> UnitSettings:
    """The settings of those parts of a faulty file that are good; defaults stand for the others.

    Not for rendering: ``sink`` takes findings that are known already.
    """
    written: dict[str, Any] = {}
    for key, value in data.items():
        field = UNIT.fields.get(canonical(key))
        part = field.kind.read(value, (key,), sink) if field else INVALID
        if part is not INVALID:
            written.setdefault(canonical(key), part)
    program = "router" if "router" in data and "sglang" not in data else "sglang"
    whole = written.pop(program, {"version": _version(data.get(program), program, sink), "python": ""})
    for other in ("router", "sglang"):
        written.pop(other, None)
    return build(name, {**written, program: whole}, root, file)


def _version(table: Any, program: str, sink: Sink) -> str:
    if not isinstance(table, Mapping) or "version" not in table:
        return ""
    below = UNIT.fields[program].kind
    assert isinstance(below, Table)
    version = below.fields["version"].kind.read(table["version"], (program, "version"), sink)
    return "" if version is INVALID else str(version)


def _absolute(secret: SecretRef, root: Path) -> SecretRef:
    return SecretRef(root / secret.file) if secret.file else secret
