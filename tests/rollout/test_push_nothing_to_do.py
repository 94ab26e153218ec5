"""A push without changes: what it does with a unit that is good, that is not, or that only cannot be reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployer.protocol.codec import to_plain
from deployer.protocol.facts import Facts, GpuReading, HostFacts, InstalledFile, UnitFacts
from deployer.protocol.outcome import Outcome
from deployer.rollout.contact import Contact
from deployer.rollout.push import Options, push
from deployer.rollout.secrets import Secrets
from deployer.rollout.units import Declared, declare
from deployer.settings.model import Host
from deployer.settings.workspace import Workspace

UNIT = """\
[sglang]
version = "0.5.9"
python = "/opt/sglang/.venv/bin/python"

[args]
model-path = "org/model"
port = 30000

[gpu]
devices = "none"

[verify]
"""
BAD = {"passed": False, "verdicts": [{"gate": "health", "state": "failed", "text": "answers 503"}]}
WELL = {"passed": True, "verdicts": [{"gate": "health", "state": "passed", "text": "200"}]}


class Session:
    """Answers as a host on which everything is as declared; writes down what it was asked. Staging ends the test."""

    def __init__(self, declared: Declared, verified: dict[str, Any]) -> None:
        unit = declared.settings.unit
        files = tuple(InstalledFile(file.path, "x", file.mode, file.owner, str(file.text))
                      for file in declared.release.files)
        host = HostFacts("gpu1", "b", "6", "Debian", 252, "3.11", 64 << 30, 60 << 30)
        facts = Facts(host, UnitFacts(unit, {}, files, 1, declared.release.digest, (), ({"number": 1},)), GpuReading(),
                      (), (), sglang="0.5.9")
        self.asked: list[str] = []
        self._replies = {"facts": {"facts": to_plain(facts)}, "verify": verified, "examine": {"findings": []}}

    def call(self, op: str, data: dict[str, Any], on_event: Callable[[Any], None]) -> dict[str, Any]:
        self.asked.append(op)
        if op == "stage":
            raise Staged
        return self._replies[op]


class Staged(Exception):
    """It went on to a push."""


class Quiet:
    def tell(self, host: str, event: str, data: dict[str, Any]) -> None:
        return None


def prepared(space: Path, verify: str, verified: dict[str, Any]) -> tuple[Contact, Declared, Session]:
    (space / "units").mkdir()
    (space / "units" / "q.toml").write_text(UNIT + verify)
    host = Host("gpu1", "127.0.0.1")
    declared = declare(Workspace(space), host, "q")
    session = Session(declared, verified)
    return Contact(host, lambda: session, Quiet(), session), declared, session


def test_a_good_unit_is_left_alone(tmp_path: Path) -> None:
    contact, declared, session = prepared(tmp_path, "", WELL)
    assert push(contact, declared, Secrets(), Options()).outcome is Outcome.NOTHING_TO_DO
    assert session.asked == ["facts", "verify"]


@pytest.mark.parametrize("verify", ["", "restart = true\n"])
def test_one_that_is_not_good_is_started_anew(tmp_path: Path, verify: str) -> None:
    contact, declared, session = prepared(tmp_path, verify, BAD)
    with pytest.raises(Staged):
        push(contact, declared, Secrets(), Options())
    assert session.asked == ["facts", "verify", "examine", "stage"]


def test_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    contact, declared, session = prepared(tmp_path, "restart = false\n", BAD)
    report = push(contact, declared, Secrets(), Options())
    assert (report.outcome, report.next) == (
        Outcome.VERIFY_FAILED, "deployer push gpu1 -u q --restart starts it anew")
    assert session.asked == ["facts", "verify"]


def test_a_server_that_only_cannot_be_reached_from_here_is_left_alone(tmp_path: Path) -> None:
    contact, declared, session = prepared(tmp_path, 'outside = "http://127.0.0.1:9/health"\n', WELL)
    report = push(contact, declared, Secrets(), Options())
    assert report.outcome is Outcome.VERIFY_FAILED and str(report.data["code"]).startswith("outside-")
    assert session.asked == ["facts", "verify"]
