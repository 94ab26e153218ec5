"""Hand edits become settings: rendered again they come to what is installed, and nothing else of the file changes."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deployer.errors import RefusedError
from deployer.protocol.facts import InstalledFile, UnitFacts
from deployer.render.release import render
from deployer.rollout.adopt import SYSTEM, Adopted, adopt
from deployer.rollout.effect import effect
from deployer.settings.model import Host
from deployer.settings.workspace import Workspace

UNITS = Path(__file__).parents[2] / "units"


@dataclass
class Asked:
    """A host that only knows its installed files."""

    files: dict[str, str]
    host: Host = field(default_factory=lambda: Host("gpu1"))

    def ask_facts(self, unit: str) -> Any:
        files = tuple(InstalledFile(path, "x", text=text) for path, text in self.files.items())

        @dataclass
        class Facts:
            unit: UnitFacts

        @dataclass
        class Survey:
            facts: Facts

        return Survey(Facts(UnitFacts(unit, {}, files)))


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    (tmp_path / "units").mkdir()
    for name in ("kimi-k2.5", "qwen3.5-397b"):
        shutil.copy(UNITS / f"{name}.toml", tmp_path / "units")
    return Workspace(tmp_path)


def text_of(space: Workspace, name: str) -> str:
    settings = space.load_unit(name).settings
    assert settings
    return next(str(file.text) for file in render(settings, None).files if file.path.endswith(f"/{name}.service"))


def adopted(space: Workspace, name: str, text: str, dropins: dict[str, str] | None = None) -> Adopted:
    unit = f"{SYSTEM}/{name}.service"
    files = {unit: text, **{f"{unit}.d/{key}": part for key, part in (dropins or {}).items()}}
    return adopt(Asked(files), space, name)  # type: ignore[arg-type]


def settled(space: Workspace, name: str, found: Adopted, text: str, dropins: dict[str, str] | None = None) -> None:
    """The settings that were adopted render to what is installed, and are adopted as they are."""
    found.file.write_text(found.after)
    unit = f"{name}.service"
    made, there = effect(unit, text_of(space, name), {}, "sglang"), effect(unit, text, dropins or {}, "sglang")
    assert (made.head, made.args, made.env, made.values) == (there.head, there.args, there.env, there.values)
    assert not adopted(space, name, text, dropins).changed


def test_nothing_was_edited(space: Workspace) -> None:
    found = adopted(space, "kimi-k2.5", text_of(space, "kimi-k2.5"))
    assert (found.changed, found.left) == (False, ())


def test_an_argument_was_edited(space: Workspace) -> None:
    text = text_of(space, "kimi-k2.5").replace("--mem-fraction-static 0.88", "--mem-fraction-static 0.85")
    found = adopted(space, "kimi-k2.5", text)
    before, after = (part.splitlines() for part in (found.before or "", found.after))
    changed = [line for line in after if line not in before]
    assert len(changed) == 1 and changed[0].startswith("mem-fraction-static = 0.85")
    assert found.left == ()
    settled(space, "kimi-k2.5", found, text)


def test_arguments_variables_and_directives(space: Workspace) -> None:
    name = "qwen3.5-397b"
    new = "--kv-cache-dtype fp8_e4m3 \\\n    --schedule-policy lpm"
    text = text_of(space, name).replace("--kv-cache-dtype bf16", new).replace("P2P_LEVEL=SYS", "P2P_LEVEL=PHB")
    dropins = {"10-hand.conf": "[Unit]\nAfter=mnt.mount\n[Service]\nNice=-5\nEnvironment=NCCL_DEBUG=INFO \"A=b c\"\n"
                               "Environment=CUDA_VISIBLE_DEVICES=0,1\nRestartSec=30\n"}
    found = adopted(space, name, text, dropins)
    assert found.left == ()
    data = tomllib.loads(found.after)
    assert data["args"]["kv-cache-dtype"] == "fp8_e4m3"
    assert data["args"]["schedule-policy"] == "lpm"
    assert data["env"] == {"NCCL_P2P_LEVEL": "PHB", "NCCL_DEBUG": "INFO", "A": "b c"}
    assert data["gpu"]["devices"] == [0, 1]
    assert data["service"] == {"Nice": "-5", "RestartSec": "30"}
    assert data["unit"]["After"] == "mnt.mount"
    assert set(data["unit"]) == {"After", "StartLimitIntervalSec"}      # the latter would follow RestartSec
    settled(space, name, found, text, dropins)


def test_what_was_taken_out(space: Workspace) -> None:
    name = "qwen3.5-397b"
    text = text_of(space, name).replace(" \\\n    --trust-remote-code", "").replace("ProtectControlGroups=yes\n", "")
    found = adopted(space, name, text)
    assert "trust-remote-code" not in tomllib.loads(found.after)["args"]
    assert found.left == () or all("ProtectControlGroups" in text for text in found.left)


def test_a_secret_in_clear_is_not_taken_over(space: Workspace) -> None:
    new = "KillMode=mixed\nEnvironment=HF_TOKEN=hf_abcdefghijklm"
    text = text_of(space, "kimi-k2.5").replace("KillMode=mixed", new)
    found = adopted(space, "kimi-k2.5", text)
    assert "hf_abc" not in found.after + "".join(found.left)
    assert any("HF_TOKEN" in text for text in found.left)


def test_a_unit_that_the_workspace_does_not_have_is_imported(space: Workspace) -> None:
    text = ("[Service]\nUser=ai\nExecStart=/opt/s/bin/python -m sglang.launch_server --model /m --tp 2\n"
            "[Install]\nWantedBy=multi-user.target\n")
    found = adopted(space, "old", text, {"9.conf": "[Service]\nEnvironment=A=1\n"})
    data = tomllib.loads(found.after)
    assert found.before is None
    assert data["args"] == {"model-path": "/m", "tp-size": 2}
    assert (data["env"], data["service"]) == ({"A": "1"}, {"User": "ai"})


def test_no_unit(space: Workspace) -> None:
    with pytest.raises(RefusedError, match="to adopt"):
        adopt(Asked({}), space, "kimi-k2.5")  # type: ignore[arg-type]
