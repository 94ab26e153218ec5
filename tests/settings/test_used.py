"""No setting is read from the file and then used nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deployer.protocol import records
from deployer.settings import model

PACKAGE = Path(model.__file__).parents[1]
NAMES = {
    model.VerifySettings: ("verify",), model.PromptSettings: ("prompt",), model.LoadSettings: ("load",),
    model.WatchSettings: ("watch",), model.Hook: ("hook",), model.HookSettings: ("hooks",), model.GpuSettings: ("gpu",),
    model.SecretRef: ("ref",), model.Hypervisor: ("hypervisor",), model.Host: ("host", "destination", "each"),
    model.UnitSettings: ("settings",),
}
"""How the rest of the package calls a value of each class."""


@pytest.mark.parametrize(("kind", "names"), NAMES.items(), ids=[kind.__name__ for kind in NAMES])
def test_every_field_is_used(kind: type, names: tuple[str, ...]) -> None:
    sources = [file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")
               if file.parent != PACKAGE / "settings"]
    used = {found[1] for source in sources for found in re.finditer(rf"\b(?:{'|'.join(names)})\.(\w+)", source)}
    assert {field.name for field in records.fields(kind)} - used == set()
