"""The examples of ``units/``: they pass every check, and the annotated one shows every key there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from deployer import resources
from deployer.settings import schema
from deployer.settings.workspace import Workspace

WORKSPACE = Workspace(resources.units().parent)
NAMES = WORKSPACE.unit_names()
ANNOTATED = (resources.units() / "annotated.toml").read_text(encoding="utf-8")


def test_both_stories_and_the_small_ones_are_there() -> None:
    assert {"annotated", "kimi-k2.5", "qwen3.5-397b", "tiny-gpt2", "sglang-router"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_loads_without_findings_and_passes_the_schema(name: str) -> None:
    loaded = WORKSPACE.load_unit(name)
    assert loaded.findings == ()
    assert loaded.settings
    data = tomllib.loads((resources.units() / f"{name}.toml").read_text(encoding="utf-8"))
    assert [error.message for error in jsonschema.Draft202012Validator(schema.unit_schema()).iter_errors(data)] == []


def test_the_hosts_of_the_examples() -> None:
    loaded = WORKSPACE.hosts()
    assert loaded.findings == ()
    assert list(loaded.hosts), "hosts.toml lies beside units/"
    for host in loaded.hosts.values():
        for name in host.units:
            assert WORKSPACE.load_unit(name, host).findings == ()
    data = tomllib.loads((WORKSPACE.root / "hosts.toml").read_text(encoding="utf-8"))
    assert [error.message for error in jsonschema.Draft202012Validator(schema.hosts_schema()).iter_errors(data)] == []


def keys_of(part: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Every key that the schema names, by its path; arrays of tables and maps count as the tables in them."""
    found = set()
    for name, below in part.get("properties", {}).items():
        found |= {(*path, name), *keys_of(below, (*path, name))}
    for inner in ("items", "additionalProperties"):
        if isinstance(part.get(inner), dict):
            found |= keys_of(part[inner], path)
    return found


def keys_shown(text: str) -> set[tuple[str, ...]]:
    """The keys of a file, and those of its comments that read `# key = value` or `# [table]`, in their table."""
    shown: set[tuple[str, ...]] = set()
    table: tuple[str, ...] = ()
    for line in text.splitlines():
        bare = line.removeprefix("# ")
        header = re.match(r"\[\[?([a-z.-]+)\]\]?", bare)
        if header:
            table = tuple(header[1].split("."))
            shown |= {table[:length] for length in range(1, len(table) + 1)}
            continue
        try:
            data = tomllib.loads(bare)
        except tomllib.TOMLDecodeError:
            continue
        for name, value in data.items():
            place = table if table == ("secrets",) else (*table, name)
            shown.add(place)
            shown |= {(*place, key) for key in value} if isinstance(value, dict) else set()
    return shown


def test_every_key_of_the_schema_stands_in_the_annotated_example() -> None:
    assert keys_of(schema.unit_schema()) - keys_shown(ANNOTATED) == set()


def test_the_router_of_the_annotated_example_holds_when_its_comments_are_taken_off(tmp_path: Path) -> None:
    before, rest = ANNOTATED.split("[sglang]\n", 1)
    _, router = rest.split("# [router]\n", 1)
    lines = router.splitlines()
    swapped = ["[router]", *(line.removeprefix("# ") for line in lines[:4]), *lines[4:]]
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "r.toml").write_text(before + "\n".join(swapped), encoding="utf-8")
    loaded = Workspace.find(tmp_path).load_unit("r")
    assert loaded.findings == ()
    assert loaded.settings and loaded.settings.program == "router"


def test_the_two_stories_as_they_were_told() -> None:
    kimi, qwen = (WORKSPACE.load_unit(name).settings for name in ("kimi-k2.5", "qwen3.5-397b"))
    assert kimi and qwen
    told = {"mem-fraction-static": 0.88, "hicache-size": 48, "tp-size": 8, "port": 8000, "kv-cache-dtype": "bf16"}
    assert {**kimi.args, **told, "enable-hierarchical-cache": True} == kimi.args
    assert any(name.startswith("NCCL_") for name in kimi.env)
    assert kimi.verify.min_total_tokens and 116_000 < kimi.verify.min_total_tokens <= 159_277
    assert (qwen.args["kv-cache-dtype"], qwen.args["tp-size"], qwen.args["port"]) == ("bf16", 8, 30000)
    assert qwen.verify.min_total_tokens == 1_200_000
    host = WORKSPACE.hosts().hosts["gpu2"]
    assert host.units == ("qwen3.5-397b",)
    assert host.hypervisor and host.hypervisor.container == "129"
