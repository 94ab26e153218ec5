"""Finding the workspace, its units by any of their names, and what it costs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from deployer import resources
from deployer.cli.console import finding_lines
from deployer.errors import UsageError
from deployer.protocol.finding import Finding, Level, Where
from deployer.settings.model import Container, Venv
from deployer.settings.workspace import Workspace

UNIT = '[sglang]\nversion = "0.5.9"\npython = "/x"\n'


def write(root: Path, *names: str) -> Workspace:
    (root / "units").mkdir()
    for name in names:
        (root / "units" / f"{name}.toml").write_text(UNIT)
    return Workspace.find(root)


def test_the_workspace_is_the_nearest_folder_upwards(tmp_path: Path) -> None:
    write(tmp_path, "a")
    inner = tmp_path / "inner"
    deep = inner / "x" / "y"
    deep.mkdir(parents=True)
    assert Workspace.find(deep).root == tmp_path
    (inner / "hosts.toml").touch()
    assert Workspace.find(deep).root == inner
    assert Workspace.find(inner).unit_names() == []


def test_without_a_workspace_the_next_command_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        Workspace.find(tmp_path)
    assert "deployer init" in caught.value.hint
    with pytest.raises(UsageError):
        Workspace.find(tmp_path / "absent")


def test_units_by_any_of_their_names(tmp_path: Path) -> None:
    workspace = write(tmp_path, "qwen3.5-397b", "x.toml", ".hidden")
    assert workspace.unit_names() == ["qwen3.5-397b", "x.toml"]
    forms = ("{}", "{}.service", "{}.toml", "units/{}.toml", "./units/{}")
    for form in forms:
        settings = workspace.load_unit(form.format("qwen3.5-397b")).settings
        assert settings and (settings.name, settings.unit) == ("qwen3.5-397b", "qwen3.5-397b.service")
    loaded = workspace.load_unit("x.toml").settings
    assert loaded and loaded.name == "x.toml"


def test_a_unit_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    workspace = write(tmp_path, "kimi-k2.5", "qwen")
    with pytest.raises(UsageError) as caught:
        workspace.load_unit("kimi_k25")
    assert caught.value.hint == "did you mean kimi-k2.5?"
    with pytest.raises(UsageError) as caught:
        workspace.load_unit("zzz")
    assert caught.value.hint == "units are kimi-k2.5, qwen"


def test_names_for_completion_need_no_valid_file(tmp_path: Path) -> None:
    workspace = write(tmp_path, "a")
    assert workspace.destination_names() == ["local"]
    (tmp_path / "hosts.toml").write_text('[hosts.gpu1]\nport = "wrong"\n[groups]\ng = ["gpu1"]\n')
    assert Workspace(tmp_path).destination_names() == ["gpu1", "local", "@g"]
    (tmp_path / "hosts.toml").write_text("hosts = 1\ngroups = 2\n")
    assert Workspace(tmp_path).destination_names() == ["local"]
    (tmp_path / "hosts.toml").write_text("[hosts")
    assert Workspace(tmp_path).destination_names() == ["local"]


def test_templates_only_where_there_are_some(tmp_path: Path) -> None:
    workspace = write(tmp_path, "a")
    assert workspace.templates is None
    (tmp_path / "templates").mkdir()
    assert workspace.templates == tmp_path / "templates"


def test_the_whole_of_the_annotated_example_arrives_in_the_model() -> None:
    settings = Workspace(resources.units().parent).load_unit("annotated").settings
    assert settings
    assert settings.runtime == Venv("/opt/sglang/.venv/bin/python")
    assert settings.wrapper == ("numactl", "--interleave=all")
    assert settings.args["json-model-override-args"] == {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}
    assert settings.args["disable-radix-cache"] is False
    assert settings.secrets["HF_TOKEN"].env == "HF_TOKEN"
    assert settings.directives["Unit"] == {"After": ["mnt-models.mount"]}
    verify = settings.verify
    assert (verify.deadline, verify.stall, verify.settle, verify.drain) == (1200, 300, 10, 120)
    assert (verify.min_total_tokens, verify.min_gpu_memory_free_mib) == (1_200_000, 4096)
    assert verify.gpu_memory_used_mib == 90112
    assert verify.load and verify.load.max_fall == 0.3
    assert settings.watch and settings.watch.timeout == 25
    assert [hook.on_failure for hook in (*settings.hooks.before, *settings.hooks.after)] == ["stop", "warn"]
    assert not isinstance(settings.runtime, Container)


def test_a_thousand_units_are_read_in_a_second_of_cpu_time(tmp_path: Path) -> None:
    text = (resources.units() / "kimi-k2.5.toml").read_text(encoding="utf-8")
    (tmp_path / "units").mkdir()
    for number in range(1000):
        (tmp_path / "units" / f"unit{number}.toml").write_text(text, encoding="utf-8")
    workspace = Workspace.find(tmp_path)
    begun = time.process_time()
    loaded = [workspace.load_unit(name) for name in workspace.unit_names()]
    taken = time.process_time() - begun
    assert all(unit.settings and not unit.findings for unit in loaded)
    assert taken < 1.5, f"{taken:.2f} s"


def test_a_working_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for start in (None, Path("."), Path("x")):
        with pytest.raises(UsageError, match="the folder in which this runs is gone"):
            Workspace.find(start)
    assert Workspace.find(tmp_path).unit_names() == ["a"]
    finding = Finding("x", Level.ERROR, "y", where=Where(str(tmp_path / "units" / "a.toml"), 1, 1))
    assert finding_lines(finding)[0].startswith(str(tmp_path))
