"""``deployer status``: what the table says of hosts without units, without systemd, and of none at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.agent.transact.status import status
from deployer.cli.status import _table

UNIT: dict[str, Any] = {"unit": "q.service", "active": "unknown", "result": "", "since": "", "drift": []}


def table(capsys: pytest.CaptureFixture[str], *answers: tuple[str, dict[str, Any]]) -> tuple[list[str], list[str]]:
    _table(list(answers))
    said = capsys.readouterr()
    return said.out.splitlines(), said.err.splitlines()


def test_no_host_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert table(capsys) == ([], [])


def test_hosts_without_units(capsys: pytest.CaptureFixture[str]) -> None:
    rows, notes = table(capsys, ("a", {"units": [], "systemd": True}), ("b", {"units": [], "systemd": False}))
    assert rows[0].startswith("HOST")
    assert [row.split(None, 2)[2] for row in rows[1:]] == ["no units of this tool", "systemd does not run there"]
    assert notes == []


def test_units_of_a_machine_that_systemd_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    rows, notes = table(capsys, ("a", {"units": [UNIT], "systemd": False}))
    assert len(rows) == 2
    assert notes == ["a: systemd does not run there"]


def test_the_host_says_whether_systemd_runs_it() -> None:
    assert status({}, lambda event, data: None)["systemd"] is Path("/run/systemd/system").is_dir()
