"""The JSON Schema takes what the loader takes, and refuses what it refuses: both come from the same kinds."""

from __future__ import annotations

import copy
import datetime
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer import resources
from deployer.protocol.finding import Level
from deployer.settings import document, schema
from deployer.settings.host import load_hosts
from deployer.settings.sink import Sink, any_error
from deployer.settings.spans import Places
from deployer.settings.unit_keys import UNIT as UNIT_KEYS
from deployer.settings.workspace import Workspace

UNIT = jsonschema.Draft202012Validator(schema.unit_schema())
HOSTS = jsonschema.Draft202012Validator(schema.hosts_schema())
BASE = '[sglang]\nversion = "0.5.9"\npython = "/x"\n'


def test_the_schemas_are_schemas() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.unit_schema())
    jsonschema.Draft202012Validator.check_schema(schema.hosts_schema())


def test_every_key_has_a_description() -> None:
    def walk(part: Any, path: str) -> None:
        if isinstance(part, dict):
            for name, below in part.get("properties", {}).items():
                assert below.get("description"), f"{path}.{name}"
            for name, below in part.items():
                walk(below, f"{path}.{name}")
        elif isinstance(part, list):
            for below in part:
                walk(below, path)

    walk(schema.unit_schema(), "unit")
    walk(schema.hosts_schema(), "hosts")


GOOD = [
    'description = "x"',
    'template = "own.service"',
    "[args]",
    "[args]\nx = 1",
    "[args]\nx = 1.5",
    "[args]\nx = true",
    '[args]\nx = ["a", 1, 1.5, { a = 1 }]',
    "[args]\nx = { a = [1, { b = true }] }",
    '[env]\nA = "x"\nB = 1',
    '[secrets]\na = { file = "x" }\nB = { env = "Y" }\nc = { command = ["x", ""] }',
    "[watch]",
    '[watch]\ninterval = "1h 5min"',
    '[service]\nUser = "x"\nX-Own = 1\nEnvironment = ["A=1", 2, true, 1.5]',
    "[gpu]\ndevices = []",
    '[gpu]\ndevices = "none"',
    '[gpu]\ndevices = [0, "GPU-5f1c", "MIG-ab/1/2"]',
    "[verify]\ndeadline = 90",
    "[verify]\nsettle = 0",
    "[verify]\nstall = 0.5",
    "[verify]\nmin_total_tokens = 1",
    '[verify]\nmin-gpu-memory-free = "1.5 GiB"',
    '[verify]\noutside = "https://x/y"',
    "[verify]\nload = { requests = 1, max_fall = 0.1 }",
    '[[hooks.before]]\ncommand = ["x"]\non_failure = "warn"',
]

BAD = [
    "description = 1",
    'description = ""',
    'template = "x.service.j2"',
    'template = "a/b.service"',
    "nothing = 1",
    "args = 1",
    "[args]\n-x = 1",
    "[args]\nx = 2024-01-01",
    "[args]\nx = [true]",
    "[args]\nx = [[1]]",
    "[env]\nA = true",
    "[env]\nA = 1.5",
    '[env]\nA-B = "x"',
    '[secrets]\na = "x"',
    "[secrets]\na = {}",
    '[secrets]\na = { file = "x", env = "Y" }',
    '[secrets]\na = { env = "a-b" }',
    "[secrets]\na = { command = [] }",
    '[service]\nuser = "x"',
    "[service]\nUser = { a = 1 }",
    '[gpu]\ndevices = "some"',
    "[gpu]\ndevices = 0",
    "[gpu]\ndevices = [-1]",
    "[gpu]\ndevices = [0, 0]",
    '[gpu]\nclean = "x"',
    '[verify]\ndeadline = "20"\nstall = "20 Min"',
    "[verify]\ndeadline = 0",
    "[verify]\nsettle = -1",
    '[verify]\ndrain = "never"',
    "[verify]\nmin-total-tokens = 1.5",
    "[verify]\nmin-total-tokens = 0",
    "[verify]\nmin-gpu-memory-free = 4096",
    '[verify]\nmin-gpu-memory-free = "4GB"',
    '[verify]\noutside = "gpu1:1"',
    "[verify]\nload = {}",
    "[verify]\nprompt = {}",
    "[verify]\nload = { requests = 1, max-fall = 2 }",
    "[verify.load]\nrequests = true",
    "[hooks]\nbefore = { command = ['x'] }",
    "[[hooks.after]]\ncommand = ['x']\non-failure = 'stop'",
    "[[hooks.before]]",
    "[watch]\nmisses = 0",
    '[watch]\ninterval = "0x"',
]


@pytest.mark.parametrize("text", GOOD)
def test_both_take(text: str, tmp_path: Path) -> None:
    assert not UNIT.is_valid(tomllib.loads(text)), "no [sglang]"
    whole = text + "\n" + BASE if not text.startswith("[") else BASE + text
    assert [error.message for error in UNIT.iter_errors(tomllib.loads(whole))] == []
    assert codes(whole, tmp_path) == []


@pytest.mark.parametrize("text", BAD)
def test_both_refuse(text: str, tmp_path: Path) -> None:
    whole = text + "\n" + BASE if not text.startswith("[") else BASE + text
    assert not UNIT.is_valid(tomllib.loads(whole))
    assert codes(whole, tmp_path) != []


def codes(text: str, folder: Path) -> list[str]:
    (folder / "units").mkdir(exist_ok=True)
    (folder / "units" / "x.toml").write_text(text, encoding="utf-8")
    return [finding.code for finding in Workspace.find(folder).load_unit("x").findings]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ('[hosts.a]\naddress = "x"', True),
        ("[hosts.a.overrides.u.args]\nport = 1", True),
        (
            "[hosts.a.overrides.u]\nwatch = false\nverify = { prompt = false, deadline = '1min' }\nenv = { A = false }",
            True,
        ),
        ('[hosts.a.overrides.u.verify.prompt]\nexpect = "x"', True),
        ("[hosts.a]\nhypervisor = { host = 'p', container = 1 }", True),
        ('[groups]\na = ["b", "@c"]\nc = []', True),
        ("[hosts.a.overrides.u]\nnothing = 1", False),
        ("[hosts.a]\nport = 0", False),
        ("[hosts.a.overrides.u.verify]\ndeadline = true", False),
        ("[hosts.a]\nhypervisor = { host = 'p' }", False),
        ("[defaults]\nunits = ['u']", False),
        ("[hosts.a]\nbecome = 'su'", False),
        ("[groups]\na = 'b'", False),
    ],
)
def test_hosts(text: str, good: bool) -> None:
    loaded = load_hosts(document.parse(Path("hosts.toml"), text), Path("/w"), ["u"])
    assert any_error(loaded.findings) == (not good)
    assert HOSTS.is_valid(tomllib.loads(text)) == good


VALUES = st.recursive(
    st.sampled_from(["", "x", "all", "none", "20min", "4GiB", "1_000", "/x", "../x", "a b", "GPU-1", "http://x", "-x"])
    | st.integers(-2, 2)
    | st.sampled_from([True, False, 0.5, 1.5, datetime.date(2024, 1, 1)]),
    lambda items: (
        st.lists(items, max_size=2) | st.dictionaries(st.sampled_from(["a", "file", "A_B", "x-y"]), items, max_size=2)
    ),
    max_leaves=4,
)
ANNOTATED = tomllib.loads((resources.units() / "annotated.toml").read_text(encoding="utf-8"))
BEYOND_SCHEMA = {"conflict", "container-not-supported", "secret-in-settings", "duplicate-key"}


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(below for name, item in items for below in paths(item, (*path, name)))]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(paths(ANNOTATED)), VALUES)
def test_any_value_in_any_place_is_taken_by_both_or_by_none(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(ANNOTATED)
    table = data
    for name in path[:-1]:
        table = table[name]
    table[path[-1]] = value
    sink = Sink(Places("f", ""), UNIT_KEYS)
    UNIT_KEYS.read(data, (), sink)
    errors = {finding.code for finding in sink.findings if finding.level is Level.ERROR}
    if not errors & BEYOND_SCHEMA:
        assert UNIT.is_valid(data) == (not errors), (path, value, sink.findings)
