"""An import, rendered again, gives the process the same arguments and environment."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from deployer.intake.arguments import read as read_arguments
from deployer.intake.bring import How, Result, bring_file, bring_text
from deployer.intake.files import Files
from deployer.intake.found import server
from deployer.protocol.redact import is_secret_name
from deployer.render.model import Release
from deployer.render.release import render
from deployer.settings.workspace import Workspace
from deployer.sglang.catalogue import catalogue

CASES = Path(__file__).parent / "cases"
FILES = sorted([*(CASES / "commands").glob("*/input.sh"), *(CASES / "units").glob("*/input.[sc]*[er]")])
NAMES = {"05-user-unit-continuation": How(name="puffin.service", home="/home/pia"),
         "08-template-instance": How(name="sgl@kite-7b.service")}


def rendered(result: Result, index: int, folder: Path) -> Release:
    """The release of one imported server; what only the admin can fill in is filled in."""
    unit = result.units[index]
    (folder / "units").mkdir(exist_ok=True)
    text = unit.settings.replace('# version = "…"', 'version = "0.5.9"').replace('# python = "/', 'python = "/')
    (folder / "units" / f"{unit.name}.toml").write_text(text, encoding="utf-8")
    loaded = Workspace(folder).load_unit(unit.name)
    assert loaded.settings, [finding.message for finding in loaded.findings] + [text]
    return render(loaded.settings, None)


def arguments(argv: list[str]) -> dict[str, Any]:
    started = server(argv) or server(["python3", *argv[1:]])
    assert started
    return read_arguments(argv[started[1]:], started[0]).args


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.parent.name)
def test_cases(file: Path, tmp_path: Path) -> None:
    result = bring_file(file, NAMES.get(file.parent.name, How()))
    for index, unit in enumerate(result.units):
        release = rendered(result, index, tmp_path)
        launch = unit.launch
        if launch is None:
            assert file.parent.name == "11-refused"
            continue
        unknown = launch.opaque
        want = {name: value for name, value in arguments(launch.argv).items()
                if value not in unknown and not (isinstance(value, list) and set(value) & set(unknown))
                and name.isascii() and " " not in name and "\xa0" not in name
                and not (is_secret_name(name) and value)}
        argv = list(release.argv)
        got = arguments(argv[argv.index("-m") - 1:])
        assert want.items() <= got.items()
        assert set(got) - set(want) <= {"config"}
        inside = (launch.container or {}).get("env", launch.env)
        for name, value in inside.items():
            if value not in unknown and not (is_secret_name(name) and value[:1] != "$"):
                assert release.env[name] == value
        if not launch.container and result.kind != "quadlet":
            assert argv[:len(launch.wrapper)] == launch.wrapper


def _value(flag: Any) -> st.SearchStrategy[list[str]]:
    text = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cn", "Co")), max_size=12).filter(
        lambda value: not value.startswith("-"))
    one = st.integers(0, 10**6).map(str) if flag.type in ("int", "human_readable_int") else (
        st.floats(0, 100, allow_nan=False).map(lambda value: f"{value:.3f}") if flag.type == "float" else
        st.sampled_from(['{"a": 1}', '{"a":[1,2],"b":{"c":"d e"}}', "{}"]) if flag.type == "json.loads" else
        st.sampled_from([str(item) for item in flag.choices]) if flag.choices else text)
    if flag.nargs == 0:
        return st.just([])
    if flag.nargs in ("*", "+"):
        return st.lists(one, min_size=1, max_size=3)
    return st.lists(one, min_size=int(flag.nargs or 1) if flag.nargs != "?" else 1, max_size=int(flag.nargs or 1)
                    if flag.nargs != "?" else 1)


USABLE = [flag for flag in catalogue().flags("0.5.9").values() if not flag.positional and not is_secret_name(flag.name)
          and flag.name != "--config" and not flag.refused and catalogue().find(catalogue().newest, flag.name)
          and flag.action in ("store", "store_true")]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    flags = draw(st.lists(st.sampled_from(USABLE), unique_by=lambda flag: flag.dest, min_size=1, max_size=8))
    return [word for flag in flags for word in (flag.name, *draw(_value(flag)))]


@given(command_lines(), st.dictionaries(st.from_regex(r"[A-Z]{3,8}_X", fullmatch=True), st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cn", "Co")), max_size=10), max_size=3))
@hypothesis_settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture,
                                                                          HealthCheck.too_slow])
def test_random_command_lines(tmp_path: Path, words: list[str], env: dict[str, str]) -> None:
    argv = ["/opt/sglang/bin/python", "-m", "sglang.launch_server", *words]
    text = shlex.join(["env", *(f"{name}={value}" for name, value in env.items()), *argv])
    result = bring_text(text.encode(), "random", "shell", Files(None), How())
    assert [unit.launch.argv for unit in result.units if unit.launch] == [argv]
    release = rendered(result, 0, tmp_path)
    assert arguments(list(release.argv)) == arguments(argv)
    assert env.items() <= release.env.items()
