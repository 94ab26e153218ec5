"""Declared arguments as words: every kind of value, and what cannot be one."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.settings.model import WrittenFloat
from tests.render.declared import codes, rendered


def words(args: dict[str, Any], **changes: Any) -> list[str]:
    return list(rendered(args=args, **changes).argv[3:])


@pytest.mark.parametrize(("value", "expected"), [
    (True, ["--x"]), (False, []), (5, ["--x", "5"]), (-5, ["--x", "-5"]), (10**30, ["--x", "1" + "0" * 30]),
    (0.88, ["--x", "0.88"]), (WrittenFloat("1e-3"), ["--x", "1e-3"]), (WrittenFloat("1_0.50"), ["--x", "10.50"]),
    ("a b", ["--x", "a b"]), ("", ["--x", ""]), ("line\nbreak", ["--x", "line\nbreak"]), ("-v", ["--x=-v"]),
    ("--a b", ["--x=--a b"]), ("-", ["--x", "-"]), ("-1.5", ["--x", "-1.5"]), ("$HOME %n", ["--x", "$HOME %n"]),
    ([1, 2, 4], ["--x", "1", "2", "4"]), (["a b", "c\nd", ""], ["--x", "a b", "c\nd", ""]), ([], ["--x"]),
    ([-1, 0], ["--x", "-1", "0"]), ([{"a": 1}], ["--x", '{"a":1}']),
    ({"a": {"b": [1, 2.5, True, None, "é"]}}, ["--x", '{"a":{"b":[1,2.5,true,null,"é"]}}']),
    ({"big": 12345678901234567890}, ["--x", '{"big":12345678901234567890}']),
])
def test_values(value: Any, expected: list[str]) -> None:
    assert words({"x": value}) == expected


def test_order_is_the_declared_one() -> None:
    assert words({"b": 1, "a": 2, "c": True}) == ["--b", "1", "--a", "2", "--c"]


@pytest.mark.parametrize(("release", "declared", "written"), [
    ("0.5.9", "tensor_parallel_size", "--tp-size"), ("0.5.23", "tensor-parallel-size", "--tp-size"),
    ("0.5.9", "tp", "--tp-size"), ("0.5.9", "model", "--model-path"), ("0.4.6", "model-path", "--model-path"),
    (">=0.5.4,<0.6", "dp_size", "--dp-size"), ("0.5.9", "not-known-to-anybody", "--not-known-to-anybody"),
    ("9.9.9", "tp_size", "--tp-size"),
])
def test_spelling_is_valid_in_the_declared_release(release: str, declared: str, written: str) -> None:
    assert words({declared: 2}, sglang=release)[0] == written


def test_false_says_no_where_the_release_has_a_word_for_it() -> None:
    assert words({"lora-strict-loading": False}, sglang="0.5.23") == ["--no-lora-strict-loading"]
    assert words({"trust-remote-code": False}, sglang="0.5.23") == []


def test_config_table_becomes_arguments_and_yields_to_declared_ones() -> None:
    config = {"port": 1, "trust-remote-code": True, "log_level": "info"}
    assert words({"port": 2, "config": config}) == ["--port", "2", "--trust-remote-code", "--log-level", "info"]
    assert words({"config": "/etc/x.yaml"}) == ["--config", "/etc/x.yaml"]


@pytest.mark.parametrize(("args", "code", "name"), [
    ({"x": "a\0b"}, "nul-byte", "x"), ({"x": "y" * 131_072}, "argument-too-long", "x"),
    ({"x": "\ud800"}, "not-text", "x"),
    ({"x": ["ok", "--not"]}, "bad-argument", "x"), ({"a b": 1}, "bad-argument", "a b"), ({"": 1}, "bad-argument", ""),
    ({"tp-size": 1, "tp_size": 2}, "declared-twice", "tp_size"), ({"x": {"y" * 140_000: 1}}, "argument-too-long", "x"),
])
def test_what_cannot_be_an_argument(args: dict[str, Any], code: str, name: str) -> None:
    assert codes(args=args) == [(code, ("args", name))]


def test_all_findings_come_at_once() -> None:
    found = codes(args={"a": "\0", "b": "\ud800"}, env={"1X": "y", "Y": "\0"}, wrapper=("bin/x",))
    assert found == [
        ("nul-byte", ("args", "a")), ("not-text", ("args", "b")), ("bad-program", ("sglang", "wrapper")),
        ("bad-variable-name", ("env", "1X")), ("nul-byte", ("env", "Y")),
    ]


def test_a_command_beyond_systemds_limit() -> None:
    assert codes(args={f"x-{number}": "y" * 120_000 for number in range(9)}) == [("command-too-long", ("args",))]
