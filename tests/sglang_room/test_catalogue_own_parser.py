"""The catalogue against each release's own parser, run with its other imports replaced (own_parser.py).

Needs the published wheels: what is missing in .cache/wheels is downloaded by name. By default three releases of
each shape are compared; DEPLOYER_ALL_RELEASES=1 compares every one (``make catalogue-check``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployer.sglang.catalogue import catalogue
from deployer.sglang.flag import Flag

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from wheels import PARSERS, unpack  # noqa: E402

PACKAGES = {"sglang": "sglang", "router": "sglang-router"}
SOME = {"sglang": ("0.4.6", "0.5.9", "0.5.16", "0.5.23"), "router": ("0.1.9", "0.3.2")}
ACTIONS = {
    "_StoreAction": "store", "_StoreTrueAction": "store_true", "_StoreFalseAction": "store_false",
    "_AppendAction": "append", "BooleanOptionalAction": "boolean_optional",
}
STAND_IN = {"stand-in": True}


def releases() -> list[tuple[str, str]]:
    every = bool(os.environ.get("DEPLOYER_ALL_RELEASES"))
    chosen = {program: catalogue(program).releases if every else SOME[program] for program in PACKAGES}
    return [(program, release) for program, some in chosen.items() for release in some]


def own(program: str, release: str, folder: Path) -> list[dict[str, Any]]:
    """What the release's parser registers, from a process of its own."""
    unpack(PACKAGES[program], release, folder, PARSERS)
    script = Path(__file__).with_name("own_parser.py")
    ran = subprocess.run([sys.executable, str(script), str(folder), program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return list(json.loads(ran.stdout))


def shape(flag: Flag) -> dict[str, Any]:
    return {
        "spellings": list(flag.spellings), "dest": flag.dest, "action": flag.action, "nargs": flag.nargs,
        "default": flag.default, "required": flag.required,
    }


def same(flag: Flag, choices: list[Any] | None) -> None:
    """A registry of parsers is a stand-in there, and empty: of those only what the parser names itself is compared."""
    if choices is None or flag.choices is None:
        assert flag.choices is None and choices is None, flag.name
    elif flag.open_choices and len(choices) < 2:
        assert set(choices) <= set(flag.choices), flag.name
    else:
        assert set(choices) == set(flag.choices), flag.name


@pytest.mark.parametrize(("program", "release"), releases())
def test_the_catalogue_is_what_the_release_registers(program: str, release: str, tmp_path: Path) -> None:
    registered = own(program, release, tmp_path)
    known = catalogue(program).flags(release)
    assert len(registered) == len(known)
    for action in registered:
        flag = known[action["spellings"][0]]
        action["action"] = ACTIONS.get(action["action"], action["action"])
        assert action["default"] != STAND_IN, action
        assert shape(flag) == {key: action[key] for key in shape(flag)}
        if action["choices"] not in (STAND_IN, []):
            same(flag, action["choices"])
        if action["type"] not in (None, "stand-in"):
            assert flag.type.removeprefix("json.") == action["type"], flag.name


def test_choices_are_known_where_the_release_names_them() -> None:
    """Only what the router's compiled part lists cannot be read; the stand-ins hide nothing else."""
    for program in PACKAGES:
        known = catalogue(program)
        unknown = {flag.name for release in known.releases for flag in known.flags(release).values()
                   if flag.open_choices and flag.choices is None}
        assert unknown <= ({"--tool-call-parser"} if program == "router" else set())
