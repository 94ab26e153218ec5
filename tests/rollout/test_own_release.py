"""A release on the host that the catalogue does not have: its arguments are read from its own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.agent.door import Refusal
from deployer.agent.facts.sources import sources
from deployer.errors import OperationError
from deployer.protocol.codec import Unknown
from deployer.protocol.facts import Facts, GpuReading, HostFacts, UnitFacts
from deployer.rollout.own_release import judge, unpack
from deployer.settings.model import UnitSettings, Venv
from deployer.sglang.catalogue import catalogue
from deployer.sglang.flag import Flag
from deployer.sglang.flags import judge as judge_flags

SERVER_ARGS = '''
class ServerArgs:
    port: int = 30000

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", required=True)
        parser.add_argument("--port", type=int, default=ServerArgs.port)
        parser.add_argument("--brand-new", choices=["a", "b"])
'''


@pytest.fixture
def python(tmp_path: Path) -> str:
    folder = tmp_path / "venv/lib/python3.12/site-packages/sglang/srt"
    folder.mkdir(parents=True)
    (folder / "server_args.py").write_text(SERVER_ARGS, "utf-8")
    (folder / "arg_groups").mkdir()
    (folder / "arg_groups" / "more.py").write_text("X = 1\n", "utf-8")
    (folder / "arg_groups" / "broken.py").write_bytes(b"\xff\xfe")
    return str(tmp_path / "venv/bin/python")


class Host:
    """The agent's own operation, without a connection."""

    def call(self, op: str, data: dict[str, Any]) -> dict[str, Any]:
        assert op == "sources"
        try:
            return sources(data, lambda event, told: None)
        except Refusal as refusal:
            raise OperationError("h", refusal.code, refusal.message, refusal.data) from None


def facts(release: str | Unknown) -> Facts:
    host = HostFacts("gpu1", "b", "6", "Debian", 252, "3.11", 1, 1)
    return Facts(host, UnitFacts("q.service", {}), GpuReading(), (), (), sglang=release)


def settings(python: str, **args: Any) -> UnitSettings:
    return UnitSettings("q", Venv(python), "99.1", args={"model-path": "/m", **args})


def test_its_files_come_over_as_they_are(python: str) -> None:
    files = unpack(sources({"python": python}, lambda event, told: None))
    assert files == {"sglang/srt/server_args.py": SERVER_ARGS, "sglang/srt/arg_groups/more.py": "X = 1\n"}


def test_arguments_are_judged_by_it(python: str) -> None:
    assert judge(Host(), settings(python, **{"brand-new": "a"}), facts("99.1")) == []
    found = judge(Host(), settings(python, **{"brand-new": "c", "tp-size": 8}), facts("99.1"))
    assert [(f.code, f.key) for f in found] == [
        ("unknown-choice", ("args", "brand-new")), ("removed-argument", ("args", "tp-size"))]
    assert "SGLang 99.1" in found[0].message


def test_a_known_release_is_not_asked_for(python: str) -> None:
    class Nobody:
        def call(self, op: str, data: dict[str, Any]) -> dict[str, Any]:
            raise AssertionError(op)

    for release in ("0.5.9", "0.5.9+cu129", Unknown("no venv")):
        assert judge(Nobody(), settings(python, nonsense=1), facts(release)) == []


def test_files_that_tell_nothing_are_said(tmp_path: Path, python: str) -> None:
    found = judge(Host(), settings(str(tmp_path / "nowhere/bin/python")), facts("99.1"))
    assert [(f.code, f.level.value) for f in found] == [("arguments-unchecked", "warning")]
    (tmp_path / "venv/lib/python3.12/site-packages/sglang/srt/server_args.py").write_text("x = 1\n", "utf-8")
    found = judge(Host(), settings(python), facts("99.1"))
    assert [f.code for f in found] == ["arguments-unchecked"]


def test_a_release_between_known_ones() -> None:
    known = catalogue().beside("0.5.9.post7", [Flag("--model-path", dest="model_path", required=True)])
    assert known.releases.index("0.5.9.post7") == known.releases.index("0.5.9") + 1
    assert list(known.flags("0.5.9.post7")) == ["--model-path"]
    assert known.flags("0.5.9").keys() == catalogue().flags("0.5.9").keys()
    assert known.flags("0.5.10").keys() == catalogue().flags("0.5.10").keys()
    assert judge_flags({"model-path": "m", "port": 1}, "0.5.9.post7", known=known)[0].key == ("args", "port")
