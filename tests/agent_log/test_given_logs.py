"""Every case: what the log and systemd say of a start, read whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.agent.log.read import explain

CASES = sorted(path.parent for path in (Path(__file__).parent / "cases").glob("*/expected.json"))


def lines_of(case: Path) -> list[str]:
    return (case / "startup.log").read_bytes().decode("utf-8", "replace").split("\n")


def check(case: Path, lines: list[str], state: object = None) -> None:
    expected = json.loads((case / "expected.json").read_text())
    unit = case / "unit.json"
    found = explain(lines, json.loads(unit.read_text()) if unit.exists() and state is None else state)
    assert (found.outcome, found.cause) == (expected["outcome"], expected["cause"])
    assert expected["evidence"] in found.evidence
    assert [phase.name for phase in found.phases] == [phase["name"] for phase in expected["phases"]]
    for phase, wanted in zip(found.phases, expected["phases"], strict=True):
        if wanted["seconds"] is None:
            assert phase.seconds is None, phase
        else:
            assert phase.seconds is not None, phase
            assert abs(phase.seconds - wanted["seconds"]) <= max(3.0, 0.1 * wanted["seconds"]), phase
    assert found.max_total_num_tokens == expected["max_total_num_tokens"]
    assert found.kv_cache_dtype == expected["kv_cache_dtype"]
    assert set(found.findings) == set(expected["findings"])
    assert len(found.findings) == len(set(found.findings))
    for mention in expected["remedy_mentions"]:
        assert mention in found.remedy


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    check(case, lines_of(case))
