"""What is judged an error is what the release's own parser refuses, for random arguments and values."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployer.protocol.finding import Level
from deployer.sglang.catalogue import Catalogue, catalogue
from deployer.sglang.flag import Flag, dashed
from deployer.sglang.flags import judge
from deployer.sglang.values import written

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from wheels import PARSERS, unpack  # noqa: E402

PLAIN = {"str", "int", "float", "bool", "json.loads"}
VALUES: list[Any] = [
    True, False, 0, 1, 8, 2.5, 8.0, "8", "2.5", "x", "", "32k", "auto", "none", "1 2", "1,2", [], [1], [1, 2], ["a"],
    ["1", "x"], {"a": 1}, "{}", "{broken", "fp8_e5m2", "triton", " 7 ",
]


def names(known: Catalogue, release: str, chance: random.Random) -> list[str]:
    """Spellings, abbreviations, names of other releases, and slips."""
    spelled = sorted(known.spellings(release))
    found = [chance.choice(spelled)[2:] for _ in range(450)]
    found += [name[:chance.randrange(1, len(name) + 1)] for name in found[:150]]
    found += [chance.choice(known.names)[2:] for _ in range(120)]
    found += [name.replace("e", "3", 1) for name in found[:40]]
    return [name.replace("-", "_") if chance.random() < 0.2 else name for name in found]


def words(known: Catalogue, release: str, name: str, value: Any) -> list[str]:
    """As an argument is written on the command line, with the name as declared (nothing is spelled out)."""
    flag = known.find(release, known.spelling(release, name) or name)
    option = dashed(name)
    if value is False:
        return []
    if value is True:
        return [option, "true"] if flag and flag.type == "json.loads" else [option]
    return [option, *(written(item) for item in value)] if isinstance(value, list) else [option, written(value)]


def comparable(flag: Flag | None, value: Any) -> bool:
    """Types and choices that are stand-ins in the parser's process take anything there; a LoRA path may be JSON of its
    own; an empty list for a switch is judged an error, though it comes out as the switch alone."""
    if flag is None:
        return True
    switched = flag.nargs == 0 and value == [] and isinstance(value, list)
    return flag.type in PLAIN and not flag.open_choices and flag.action != "LoRAPathAction" and not switched


@pytest.mark.parametrize(("program", "package", "release"), [
    ("sglang", "sglang", "0.4.6"), ("sglang", "sglang", "0.5.9"), ("sglang", "sglang", "0.5.23"),
    ("router", "sglang-router", "0.3.2"),
])
def test_errors_are_refusals(program: str, package: str, release: str, tmp_path: Path) -> None:
    known, chance = catalogue(program), random.Random(release)
    unpack(package, release, tmp_path, PARSERS)
    needed = [flag.name[2:] for flag in known.required(release)]
    cases = []
    for name in names(known, release, chance):
        whole = known.spelling(release, name) or name
        value = chance.choice(VALUES)
        if comparable(known.find(release, whole), value) and known.dest(whole) not in map(known.dest, needed):
            cases.append((name, value))
    base = [word for name in needed for word in (f"--{name}", "/m")]
    lines = [base + words(known, release, name, value) for name, value in cases]
    script = Path(__file__).with_name("own_parser.py")
    ran = subprocess.run([sys.executable, str(script), str(tmp_path), program, "parse"], input=json.dumps(lines),
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    wrong = []
    for (name, value), taken in zip(cases, json.loads(ran.stdout), strict=True):
        args = {**dict.fromkeys(needed, "/m"), name: value}
        found = judge(args, release, program)
        errors = [finding for finding in found if finding.level is Level.ERROR]
        if bool(errors) == taken:
            wrong.append((name, value, taken, [f"{f.code}: {f.message}" for f in errors]))
    assert len(cases) > 400
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:10]}"
