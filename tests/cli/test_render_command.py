"""``deployer render`` and ``deployer templates`` as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.cli.failure import guarded
from deployer.cli.program import program

TOML = """\
[sglang]
version = "0.5.9"
python = "/opt/sglang/bin/python"

[args]
model-path = "/models/x"
port = 30000

[secrets]
api-key = { env = "KEY" }
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "units").mkdir()
    (tmp_path / "units/a.toml").write_text(TOML)
    (tmp_path / "units/b.toml").write_text(TOML.replace("[secrets]\napi-key = { env = \"KEY\" }\n", ""))
    (tmp_path / "hosts.toml").write_text(
        '[hosts.gpu1]\naddress = "192.0.2.1"\nunits = ["b"]\n[hosts.gpu1.overrides.b.args]\nport = 30001\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> int:
    return guarded(lambda: program.main(args=list(words), prog_name="deployer", standalone_mode=False))


def test_json_has_the_agreed_shape(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("render", "a", "--json") == 0
    (unit,) = json.loads(capsys.readouterr().out)["units"]
    assert list(unit) == ["name", "argv", "env", "digest", "files"]
    assert unit["name"] == "a"
    assert unit["argv"][-2:] == ["--config", "/run/credentials/a.service/sglang.yaml"]
    assert [(file["path"], file["mode"]) for file in unit["files"]] == [
        ("/etc/systemd/system/a.service", "0644"), ("/etc/deployer/a/sglang.yaml", "0600")]
    assert unit["files"][0]["text"].startswith("# a.service: rendered by deployer from units/a.toml.\n")
    assert unit["files"][1]["text"] is None
    assert len(unit["digest"]) == 64


def test_all_units_without_a_name(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("render", "--json") == 0
    assert [unit["name"] for unit in json.loads(capsys.readouterr().out)["units"]] == ["a", "b"]


def test_a_hosts_units_with_its_overrides(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("render", "--host", "gpu1", "--json") == 0
    (unit,) = json.loads(capsys.readouterr().out)["units"]
    assert (unit["name"], unit["argv"][-1]) == ("b", "30001")


def test_one_file_is_printed_bare_and_several_with_their_places(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("render", "b") == 0
    assert capsys.readouterr().out.startswith("# b.service: rendered")
    assert run("render", "a") == 0
    out = capsys.readouterr().out
    assert "#### /etc/deployer/a/sglang.yaml (0600 root:root)\napi-key: <from variable KEY>\n" in out


def test_files_are_written_to_a_folder(workspace: Path) -> None:
    assert run("render", "-o", "out") == 0
    folder = workspace / "out"
    written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert written == ["a.service", "a/sglang.yaml", "b.service"]
    assert (workspace / "out/a/sglang.yaml").read_text() == "api-key: <from variable KEY>\n"


def test_findings_of_all_units_at_their_places(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (workspace / f"units/{name}.toml").write_text(TOML.replace("port = 30000", 'x = ["a", "-b"]'))
    assert run("render") == 2
    err = capsys.readouterr().err
    assert "units/a.toml:7:1: error: x: a list cannot hold" in err
    assert "units/b.toml:7:1: error: x: a list cannot hold" in err


def test_a_template_fault_shows_its_line(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("templates", "eject", "sglang.service") == 0
    place = workspace / "templates/sglang.service.j2"
    assert capsys.readouterr().out.strip() == str(place)
    place.write_text("# fine\n{{ nothing }}\n")
    assert run("render", "b") == 2
    err = capsys.readouterr().err
    assert "templates/sglang.service.j2:2:1: error: 'nothing' is undefined" in err
    assert "    2 | {{ nothing }}" in err


def test_eject_overwrites_only_by_force(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("templates", "eject", "macros") == 0
    (workspace / "templates/macros.j2").write_text("mine")
    assert run("templates", "eject", "macros") == 2
    assert (workspace / "templates/macros.j2").read_text() == "mine"
    assert run("templates", "eject", "macros", "--force") == 0
    assert (workspace / "templates/macros.j2").read_text() != "mine"
    assert run("templates", "eject", "nonsense") == 2
    assert "there is no packaged template nonsense" in capsys.readouterr().err


def test_list_shows_where_each_template_comes_from(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("templates", "eject", "watch.sh")
    capsys.readouterr()
    assert run("templates") == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["watch.sh"] == str(workspace / "templates/watch.sh.j2")
    assert {"sglang.service", "sglang-router.service", "watch.timer"} <= set(lines)
