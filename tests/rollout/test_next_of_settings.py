"""What to type after settings were refused: the command with the names that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.errors import SettingsError
from deployer.rollout.secrets import resolve
from deployer.rollout.units import declare
from deployer.settings.model import Host
from deployer.settings.workspace import Workspace

UNIT = '[sglang]\nversion = "0.5.9"\npython = "/p"\n[args]\nmodel-path = "/m"\n'


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "q.toml").write_text(UNIT + "no-such = 1\n[env]\nA = [1]\n")
    (tmp_path / "units" / "s.toml").write_text(UNIT + '[secrets]\napi-key = { file = "none" }\n')
    return Workspace(tmp_path)


@pytest.mark.parametrize(("overrides", "command"), [
    ({}, "deployer check q"), ({"q": {"args": {"port": 1}}}, "deployer check q --host gpu1"),
    ({"s": {"args": {"port": 1}}}, "deployer check q"),
])
def test_of_a_unit_for_a_host(space: Workspace, overrides: dict[str, dict[str, object]], command: str) -> None:
    with pytest.raises(SettingsError) as caught:
        declare(space, Host("gpu1", overrides=overrides), "q")
    assert caught.value.hint == f"put it right, then: {command}"
    lines = [finding.where.line for finding in caught.value.findings if finding.where]
    assert lines == [6, 8]


def test_of_hosts_toml_and_of_secrets(space: Workspace) -> None:
    settings = space.load_unit("s").settings
    assert settings is not None
    with pytest.raises(SettingsError, match="secrets of s are missing") as caught:
        resolve(settings)
    assert caught.value.hint
    (space.root / "hosts.toml").write_text("[hosts.gpu1]\nfrob = 1\n")
    with pytest.raises(SettingsError) as caught:
        Workspace(space.root).resolve(["gpu1"])
    assert caught.value.hint == "put hosts.toml right, then: deployer check"
