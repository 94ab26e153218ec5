"""Each case a file: what is expected, what was seen when, and how every gate that matters must judge it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployer.agent.verify.mark import StartMark
from deployer.agent.verify.watch import watch
from deployer.protocol.codec import from_plain
from deployer.protocol.expectations import Expectations
from deployer.protocol.redact import Redactor
from tests.agent_verify.scripted import Scripted, Told

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return case


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = load(path)
    sources = Scripted(case["observations"], case.get("answers", {}), case.get("waiting", ()))
    told: Told = []
    before = case.get("mark", {"invocation": "old"})
    mark = StartMark("x.service", "c", 0.0, 0.0, **before) if before is not None else None
    result = watch(
        "x.service", from_plain(Expectations, case["expectations"]), mark,
        lambda event, data: told.append((sources.now(), event, data)),
        redactor=Redactor(case.get("secrets", {}).values()), secrets=case.get("secrets", {}),
        history=case.get("history", ()), sources=sources,
    )
    expected = case["expected"]
    verdicts = {verdict.gate: verdict for verdict in result.verdicts}
    said = "\n".join(f"{v.gate}: {v.state.value} {v.text}" for v in result.verdicts)
    assert result.passed == expected["passed"], said
    for gate, wanted in expected.get("gates", {}).items():
        assert verdicts[gate].state.value == wanted["state"], said
        for text in wanted.get("says", ()):
            assert text in verdicts[gate].text, said
        for text in wanted.get("never", ()):
            assert text not in verdicts[gate].text, said
    if "ended" in expected:
        assert expected["ended"][0] <= sources.now() <= expected["ended"][1], (sources.now(), said)
    for name, value in expected.get("figures", {}).items():
        assert result.figures.get(name) == value, result.figures
    for text in expected.get("nowhere", ()):
        assert text not in json.dumps([said, result.figures, [data for _, _, data in told]])
    assert sources.closed
    shown = {data["gate"]: data["state"] for _, event, data in told if event == "gate"}
    assert shown == {gate: verdict.state.value for gate, verdict in verdicts.items()}, "what was shown last is the end"
