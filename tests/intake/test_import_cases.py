"""Launch scripts and units with what bash 5.2, systemd 252, docker 20.10 and quadlet 5.4 really made of them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deployer.cli.import_ import command
from deployer.intake.traps import LEVELS

CASES = Path(__file__).parent / "cases"
COMMANDS = sorted(path for path in (CASES / "commands").iterdir() if path.is_dir())
UNITS = sorted(path for path in (CASES / "units").iterdir() if path.is_dir())
RUN_IN = {"13-paths-empty-values": "/srv/run"}
HOMES = {"05-user-unit-continuation": "/home/pia"}


def imported(*args: str) -> Any:
    result = CliRunner().invoke(command, [*args, "--json"], standalone_mode=False)
    assert result.exception is None, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("case", COMMANDS, ids=lambda path: path.name)
def test_command(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    cwd = ["--cwd", RUN_IN[case.name]] if case.name in RUN_IN else []
    found = imported(str(case / "input.sh"), *cwd)
    units = found.get("units", [found])
    wanted = expected.get("commands", [expected])
    assert len(units) == len(wanted)
    for unit, want in zip(units, wanted, strict=True):
        for key in ("env", "wrapper", "cwd"):
            assert unit[key] == want[key], key
        _same_argv(unit["argv"], want["argv"], bool(expected.get("substitutions")))
    if not expected.get("substitutions"):
        assert units[0]["unresolved"] == expected["unresolved"]
    for key in ("exe", "env_removed", "env_from_sourced_file", "docker"):
        if key in expected:
            assert units[0][key] == expected[key]


def _same_argv(argv: list[str], want: list[str], substitutions: bool) -> None:
    """Where a value is the output of a command, it may stand as that command, but as nothing else."""
    assert len(argv) == len(want)
    for word, other in zip(argv, want, strict=True):
        assert word == other or (substitutions and re.match(r"\$\(", word)), word


def test_what_is_not_known_is_named() -> None:
    found = imported(str(CASES / "commands/18-command-substitution/input.sh"))
    assert found["unresolved"] == ["$(nvidia-smi -L | wc -l)"]
    assert found["argv"][found["argv"].index("--tp") + 1] == "$(nvidia-smi -L | wc -l)"
    assert found["argv"][-1] == "$((31000 + GPUS))"


@pytest.mark.parametrize("case", UNITS, ids=lambda path: path.name)
def test_unit(case: Path, tmp_path: Path) -> None:
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    file = next(case.glob("input.*[!d]"))
    shutil.copytree(case, tmp_path, dirs_exist_ok=True)
    home = ["--home", HOMES[case.name]] if case.name in HOMES else []
    found = imported(str(tmp_path / file.name), "--name", expected["unit_name"], *home)
    for key in ("argv", "env", "directives"):
        assert found[key] == expected[key], key
    assert found["cwd"] == expected.get("cwd")
    assert sorted(found["traps"]) == sorted(set(expected["traps"]) & set(LEVELS))
    assert found.get("ignored_by_systemd", {}) == expected.get("ignored_by_systemd", {})
    assert sorted(found["wrapper"]) == sorted(expected.get("wrapper", []))
    for key in ("docker", "env_of_the_service", "env_files_of_the_container", "devices"):
        if key in expected:
            assert found[key] == expected[key]
    if "exe" in expected and case.name != "12-bare-name-workdir":      # which sglang it is, only the host knows
        assert found["exe"] == expected["exe"]


def test_a_users_home_is_not_guessed() -> None:
    found = imported(str(CASES / "units/05-user-unit-continuation/input.service"), "--name", "puffin.service")
    assert found["argv"][0] == "${HOME}/puffin/venv/bin/python"
    assert found["unresolved"] == ["%h"]
