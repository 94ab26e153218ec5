"""Declared arguments against releases: cases/judged.json, one object a case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployer.sglang.flags import judge

CASES = json.loads(Path(__file__).with_name("cases").joinpath("judged.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_judged(case: dict[str, Any]) -> None:
    program = case.get("program", "sglang")
    found = judge(case["args"], case["declared"], program)
    assert [(f.code, f.level.value) for f in found] == [(e[0], e[1]) for e in case["findings"]], found
    for finding, (_, _, name, message, hint) in zip(found, case["findings"], strict=True):
        key = ("args",) if name is None else (program, "version") if name == "VERSION" else ("args", name)
        assert finding.key == key
        assert message in finding.message
        assert hint in finding.hint


def test_secrets_are_judged_by_name_alone() -> None:
    found = judge({"model-path": "/m"}, "0.5.7", secrets=["api-key", "admin-api-key"])
    assert [(f.code, f.key) for f in found] == [("argument-too-new", ("secrets", "admin-api-key"))]


def test_an_argument_that_is_also_a_secret() -> None:
    found = judge({"model-path": "/m", "api_key": "x"}, "0.5.7", secrets=["api-key"])
    assert all(f.code != "same-argument" for f in found)


def test_keys_are_the_callers() -> None:
    found = judge({"model-path": "/m", "port": "x"}, "0.5.9", key=lambda name: ("args", "config", name))
    assert [f.key for f in found] == [("args", "config", "port")]


def test_the_value_of_no_secret_is_shown() -> None:
    found = judge({"model-path": "/m", "api-key": ["hunter2-a", "hunter2-b"]}, "0.5.9")
    assert [f.code for f in found] == ["value-count"]
    assert "hunter2" not in found[0].message + found[0].hint
