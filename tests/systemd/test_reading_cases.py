"""Unit files with what systemd 252 and 257 make of them: one folder of data, compared whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.systemd import specifiers
from deployer.systemd.command import commands
from deployer.systemd.environment import assignments
from deployer.systemd.lint import lint
from deployer.systemd.parse import merge, parse

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"), key=lambda path: path.name)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_case(case: Path) -> None:
    expected = json.loads(case.read_text(encoding="utf-8"))
    main = case.with_suffix(".service")
    dropins = sorted(case.with_suffix(".service.d").glob("*.conf"), reverse=True)
    unit = merge(parse(main.read_bytes(), main.name), [parse(path.read_bytes(), path.name) for path in dropins])
    values = {**specifiers.SYSTEM, **specifiers.of_unit(expected.get("name", main.name))}
    env, env_problems = assignments(unit.effective("Service", "Environment"), values)
    found, command_problems = commands(unit.effective("Service", "ExecStart"), values)
    problems = [*lint(unit), *env_problems, *command_problems]
    unset: list[str] = []
    assert {
        "argv": found[0].argv(env, unset) if found else None,
        "env": env,
        "unset": unset,
        "problems": [[problem.code, problem.line] for problem in problems],
        "refused": unit.refused or any(problem.fatal for problem in problems),
        "values": {key: unit.value(*key.split(".")) for key in expected["values"]},
        "words": {key: unit.words(*key.split(".")) for key in expected["words"]},
    } == {"unset": [], "refused": False, **{key: item for key, item in expected.items() if key != "name"}}
