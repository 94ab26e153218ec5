"""``deployer flags`` as an admin runs it."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deployer.cli.flags import command

KEYS = ["name", "aliases", "type", "choices", "nargs", "default", "required", "since", "removed", "deprecated",
        "successor"]


def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "deployer", "flags", *words], cwd=cwd, capture_output=True, text=True)


def flags(*words: str) -> list[dict[str, Any]]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        command.main([*words, "--json"], standalone_mode=False)
    told = json.loads(output.getvalue())
    assert list(told) == ["flags"]
    for flag in told["flags"]:
        assert list(flag) == KEYS
    return list(told["flags"])


def test_one_flag() -> None:
    assert flags("cuda_graph_max_bs") == [{
        "name": "--cuda-graph-max-bs", "aliases": [], "type": "int", "choices": None, "nargs": None, "default": None,
        "required": False, "since": "0.4.0", "removed": "0.5.20", "deprecated": "0.5.14",
        "successor": "--cuda-graph-max-bs-decode",
    }]


def test_one_flag_of_one_release() -> None:
    [flag] = flags("kv-cache-dtype", "--sglang", "0.4.6")
    assert flag["choices"] == ["auto", "fp8_e5m2", "fp8_e4m3"]
    [flag] = flags("tp-size", "--sglang", "0.5.9")
    assert (flag["name"], flag["aliases"]) == ("--tensor-parallel-size", ["--tp-size"])
    [flag] = flags("--tensor-parallel-size", "--sglang", "0.5.23")
    assert (flag["name"], flag["aliases"]) == ("--tp-size", ["--tensor-parallel-size"])
    [flag] = flags("cuda-graph-max-bs", "--sglang", "0.5.9")
    assert flag["deprecated"] is None


def test_all_of_a_release_and_of_the_router() -> None:
    assert len(flags("--sglang", "0.5.9")) == 331
    assert len(flags("--router", "--sglang", "0.3.2")) == 98
    names = {flag["name"] for flag in flags("--router")}
    assert {"--worker-urls", "--policy", "--verbose"} <= names
    assert not any(name.startswith("--router-") for name in names)


def test_a_specifier_means_its_newest_release() -> None:
    assert flags("--sglang", ">=0.5.4,<0.5.10") == flags("--sglang", "0.5.9")


def test_in_words() -> None:
    ran = run("kv-cache-dtype")
    assert ran.returncode == 0
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert lines[0] == "--kv-cache-dtype"
    assert "0.5.4 + bf16, bfloat16" in lines
    assert "0.5.21 − fp4_e2m1" in lines
    assert ran.stderr == ""


def test_the_table_says_what_to_write_in_words() -> None:
    rows = {line.split()[0]: line for line in run("--sglang", "0.5.23").stdout.splitlines()}
    for name, words in (("--port", "whole number"), ("--model-path", "text"), ("--mem-fraction-static", "number"),
                        ("--trust-remote-code", "switch"), ("--json-model-override-args", "text"),
                        ("--grammar-backend", "xgrammar, outlines"), ("--bucket-e2e-request-latency", "numbers")):
        assert rows[name].split(None, 1)[1].startswith(words), name


def test_no_type_of_pythons_is_named() -> None:
    for words in ((), ("--router",)):
        table = run(*words).stdout.splitlines()
        begin, end = table[0].index("TAKES"), table[0].index("DEFAULT")
        takes = {row[begin:end].strip() for row in table[1:]}
        assert takes and not takes & {"str", "int", "float", "bool", "json.loads", "nullable_str", "json_list_type"}
        assert not any(word.startswith(("parse_", "human_")) for word in takes)


def test_the_table_names_what_is_gone() -> None:
    ran = run()
    assert ran.returncode == 0
    row = next(line for line in ran.stdout.splitlines() if line.startswith("--enable-ep-moe "))
    assert row.split()[1:3] == ["switch", "0.4.0.post1"]
    assert row.endswith("removed in 0.5.4.post1, now --ep-size")


def test_unknown_names_end_with_what_is_near() -> None:
    ran = run("kv-cache-dtpye")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--kv-cache-dtpye is no argument of SGLang" in ran.stderr
    assert "--kv-cache-dtype" in ran.stderr


def test_a_release_without_it() -> None:
    ran = run("cuda-graph-max-bs", "--sglang", "0.5.23")
    assert ran.returncode == 2
    assert "--cuda-graph-max-bs is no argument of SGLang 0.5.23: it was removed in 0.5.20" in ran.stderr
    assert "deployer flags cuda-graph-max-bs-decode" in ran.stderr
    ran = run("config", "--sglang", "0.4.0")
    assert ran.returncode == 2
    assert "it came in 0.5.3" in ran.stderr


def test_releases_that_are_none() -> None:
    for release in ("0.5.0", "newest", ">0.9,<0.8"):
        ran = run("port", "--sglang", release)
        assert ran.returncode == 2, release
        assert "internal error" not in ran.stderr
    ran = run("port", "--sglang", "99.1", "--json")
    assert ran.returncode == 0
    assert "newer than what is known" in ran.stderr
    assert json.loads(ran.stdout)["flags"][0]["name"] == "--port"


def test_no_workspace_is_needed(tmp_path: Path) -> None:
    assert run("port", cwd=tmp_path).returncode == 0
