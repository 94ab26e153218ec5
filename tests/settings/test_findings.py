"""Workspaces full of slips, one a folder of ``cases``: every finding with its place, words and hint, all at once.

``expected.txt`` holds one finding in two lines. ``REWRITE=1 pytest tests/settings/test_findings.py`` writes it anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from deployer.protocol.finding import Finding
from deployer.settings.sink import any_error
from deployer.settings.workspace import Workspace

CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if path.is_dir())


def all_findings(workspace: Workspace) -> tuple[Finding, ...]:
    """Of hosts.toml, of each unit, and of each unit with each host's overrides."""
    findings = list(workspace.hosts().findings)
    for unit in workspace.unit_names():
        hosts = [host for host in workspace.hosts().hosts.values() if unit in host.overrides]
        for host in (None, *hosts):
            loaded = workspace.load_unit(unit, host)
            assert (loaded.settings is None) == any_error(loaded.findings)
            findings += loaded.findings
    return distinct(findings)


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings in the order of their places, each once, though it was found by way of several hosts."""
    seen: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        seen.setdefault((finding.code, str(finding.where), finding.message), finding)
    return tuple(sorted(seen.values(), key=_place))


def _place(finding: Finding) -> tuple[str, int, int]:
    where = finding.where
    return (where.file, where.line or 0, where.column or 0) if where else ("", 0, 0)


def written(finding: Finding, root: Path) -> str:
    place = str(finding.where).removeprefix(f"{root}/")
    return f"{place}: {finding.level.value} [{finding.code}] {finding.message}\n    {finding.hint}".rstrip() + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_findings_of_a_workspace(case: Path) -> None:
    findings = all_findings(Workspace.find(case))
    text = "".join(written(finding, case) for finding in findings)
    expected = case / "expected.txt"
    if os.environ.get("REWRITE"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")
    assert all(finding.where and finding.where.line and finding.where.column for finding in findings)
