"""``deployer init``: a workspace that passes its own check, and never overwrites."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import jsonschema
from click.testing import CliRunner

from deployer import resources
from deployer.cli.init import command
from deployer.cli.schema import command as schema_command
from deployer.settings import schema
from deployer.settings.workspace import Workspace


def test_the_written_workspace_has_no_findings(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(tmp_path / "new")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "deployer check" in done.output
    workspace = Workspace.find(tmp_path / "new")
    assert workspace.hosts().findings == ()
    assert list(workspace.hosts().hosts) == ["gpu1"]
    for name in workspace.unit_names():
        assert workspace.load_unit(name).findings == ()
    assert (workspace.root / "units/example.toml").read_bytes() == (resources.units() / "annotated.toml").read_bytes()
    assert "/secrets/" in (workspace.root / ".gitignore").read_text()
    assert (workspace.root / "secrets").stat().st_mode & 0o777 == 0o700


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text("# mine\n")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    before = os.listdir(tmp_path)
    done = CliRunner().invoke(command, [str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert (tmp_path / "hosts.toml").read_text() == "# mine\n"
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\n"
    assert "add a line /secrets/" in done.output
    assert set(before) < set(os.listdir(tmp_path))
    again = CliRunner().invoke(command, [str(tmp_path)], catch_exceptions=False)
    assert "wrote" not in again.output


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    done = CliRunner().invoke(command, [str(tmp_path / "file" / "below")])
    assert type(done.exception).__name__ == "UsageError"


def test_the_commented_keys_of_the_written_hosts_file_are_keys(tmp_path: Path) -> None:
    CliRunner().invoke(command, [str(tmp_path)], catch_exceptions=False)
    text = (tmp_path / "hosts.toml").read_text()
    lines = [(line, line.removeprefix("# ")) for line in text.splitlines()]
    shown = "\n".join(bare if is_toml(bare) else line for line, bare in lines)
    assert shown.count("#") < text.count("#")
    validator = jsonschema.Draft202012Validator(schema.hosts_schema())
    assert [error.message for error in validator.iter_errors(tomllib.loads(shown))] == []


def is_toml(line: str) -> bool:
    try:
        return bool(tomllib.loads(line))
    except tomllib.TOMLDecodeError:
        return False


def test_the_schema_command_prints_both() -> None:
    for which, expected in (([], schema.unit_schema()), (["hosts"], schema.hosts_schema())):
        done = CliRunner().invoke(schema_command, which, catch_exceptions=False)
        assert json.loads(done.stdout) == expected


def test_the_schema_command_names_the_arguments_of_a_release() -> None:
    done = CliRunner().invoke(schema_command, ["unit", "--sglang", "0.5.9"], catch_exceptions=False)
    whole = json.loads(done.stdout)
    named = whole["properties"]["args"]["properties"]
    assert "bf16" in named["kv-cache-dtype"]["description"]
    assert {"tp-size", "tensor-parallel-size", "model-path"} <= set(named)
    example = tomllib.loads((resources.units() / "annotated.toml").read_text(encoding="utf-8"))
    assert jsonschema.Draft202012Validator(whole).is_valid(example)
    example["args"]["port"] = [["no argument"]]
    assert not jsonschema.Draft202012Validator(whole).is_valid(example)
    unknown = CliRunner().invoke(schema_command, ["unit", "--sglang", "9.9"])
    assert "9.9" in str(unknown.exception)
