"""Whatever is declared comes back when the rendered unit is read as systemd reads it, or is a finding."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from deployer.protocol.records import replace
from deployer.render.release import render
from deployer.systemd.lint import lint
from deployer.systemd.parse import merge, parse
from tests.render.declared import PYTHON, text, unit

ANY = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)
TRICKY = st.text(st.sampled_from("%$\"'\\;#={}[] \n\t\r-@:+!abnx0é\x7f\x01`"), max_size=12)
TEXT = st.one_of(ANY, TRICKY)
PLAIN = TEXT.filter(
    lambda text: all(ord(char) & 0xFFFE != 0xFFFE and not "\ufdd0" <= char <= "\ufdef" for char in text))
NAME = st.from_regex(r"[a-z][a-z0-9]{2,8}(-[a-z0-9]{1,5})?", fullmatch=True).map(lambda name: f"zz-{name}")
VALUE: st.SearchStrategy[Any] = st.one_of(
    TEXT, st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.lists(TEXT.filter(lambda text: not text.startswith("-")), min_size=1, max_size=3),
    st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.booleans(), st.lists(TEXT, max_size=2)), max_size=3),
)


def flat(name: str, value: Any) -> list[str]:
    """The words that a declared argument stands for, said independently."""
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    if isinstance(value, list):
        return [f"--{name}", *value]
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value, separators=(",", ":"), ensure_ascii=False)]
    written = str(value)
    number = isinstance(value, (int, float)) or _is_number(written)
    if written.startswith("-") and len(written) > 1 and not (number and "e" not in written):
        return [f"--{name}={written}"]
    return [f"--{name}", written]


def _is_number(text: str) -> bool:
    """As argparse tells a negative number from a flag."""
    head, _, tail = text.removeprefix("-").partition(".")
    return text.isascii() and (head + tail).isdigit() and (bool(tail) or "." not in text)


@settings(deadline=None, max_examples=200)
@given(args=st.dictionaries(NAME, VALUE, max_size=5),
       env=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True), PLAIN, max_size=4),
       wrapper=st.lists(TEXT, max_size=3), description=TEXT)
@example(args={"zz-a": "\\", "zz-b": "# x", "zz-c": ";"}, env={"A": "\\"}, wrapper=["#", "\\"], description="x \\")
@example(args={"zz-a": "-5"}, env={"HOME": "/x", "PATH": ""}, wrapper=[], description="%")
def test_declared_is_executed(args: dict[str, Any], env: dict[str, str], wrapper: list[str], description: str) -> None:
    env = {name: value for name, value in env.items() if name != "DEPLOYER_UNIT"}
    front = ("/usr/bin/env", *wrapper) if wrapper else ()
    declared = unit(args=args, env=env, wrapper=front, description=description)
    release = render(declared, None)
    words = [word for name, value in args.items() for word in flat(name, value)]
    assert list(release.argv) == [*front, PYTHON, "-m", "sglang.launch_server", *words]
    assert {name: release.env[name] for name in env} == env
    assert release.env["DEPLOYER_UNIT"] == "x.service"
    read = merge(parse(text(release)))
    assert [problem.code for problem in lint(read) if problem.code != "remark-behind-value"] == []
    assert render(declared, None) == release


def test_a_thousand_units_are_quick() -> None:
    """At most 3 s on two quiet cores; by processor time, and against what this machine does just now."""
    declared = unit(args={"model-path": "/models/x", "tp-size": 8, "port": 30000, "kv-cache-dtype": "bf16",
                          "served-model-name": "a b", "cuda-graph-bs": [1, 2, 4]}, env={"A": "b c"})
    render(declared, None)
    begun = time.process_time()
    sum(range(20_000_000))
    unit_of_work = time.process_time() - begun
    begun = time.process_time()
    for number in range(200):
        render(replace(declared, name=f"x{number}"), None)
    assert time.process_time() - begun < 4 * unit_of_work
