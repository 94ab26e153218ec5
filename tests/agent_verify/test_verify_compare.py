"""Declared = running: what counts as the same value, and where a difference comes from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployer.agent.verify.compare import canonical, compare, flat, same, shown

SAME: list[tuple[str, Any, Any]] = [
    ("tp_size", 8, 8), ("tp_size", "8", 8), ("mem_fraction_static", 0.9, "0.90"), ("port", 30000, 30000.0),
    ("trust_remote_code", True, True), ("trust_remote_code", False, None), ("api", "", None), ("x", "None", None),
    ("context_length", "32k", 32000), ("context_length", "32K", 32768), ("max_total_tokens", "1.5m", 1500000),
    ("kv_cache_dtype", "bf16", "bfloat16"), ("dtype", "half", "float16"),
    ("kv_cache_dtype", "fp8_e4m3", "torch.float8_e4m3fn"),
    ("kv_cache_dtype", "auto", "fp8_e4m3"), ("attention_backend", "auto", "fa3"),
    ("model_path", "/m/a/", "/m/a"), ("lora_paths", "a", ["a"]), ("cuda_graph_bs", [1, 2], [1, 2]),
    ("cuda_graph_bs", [1, "2"], [1.0, 2]), ("json_model_override_args", {"a": {"b": 1}}, '{"a": {"b": 1.0}}'),
    ("speculative_algorithm", "NEXTN", "EAGLE"), ("warmups", ["a", "b"], "a,b"), ("served_model_name", "q", "q"),
    ("enable_x", "true", True),
]
OTHER: list[tuple[str, Any, Any]] = [
    ("tp_size", 8, 4), ("tp_size", 8, None), ("trust_remote_code", True, False), ("trust_remote_code", False, True),
    ("kv_cache_dtype", "bf16", "fp8_e4m3"), ("kv_cache_dtype", "bf16", "auto"), ("model_path", "/m/a", "/m/ab"),
    ("cuda_graph_bs", [1, 2], [2, 1]), ("cuda_graph_bs", [1, 2], [1]), ("served_model_name", "Q", "q"),
    ("port", 1, True), ("a", 0, None), ("json_model_override_args", {"a": 1}, "{}"), ("chunked_prefill_size", -1, 8192),
    ("attention_backend", "auto", None),
]


@pytest.mark.parametrize(("key", "declared", "running"), SAME)
def test_same(key: str, declared: Any, running: Any) -> None:
    assert same(key, declared, running)


@pytest.mark.parametrize(("key", "declared", "running"), OTHER)
def test_other(key: str, declared: Any, running: Any) -> None:
    assert not same(key, declared, running)


def test_every_argument_is_accounted_for() -> None:
    found = compare({"tensor-parallel-size": 8, "port": 1, "novel": 3, "off": None}, {"tp_size": 8, "port": 2})
    assert (found.equal, [item.name for item in found.differences], found.unknown) == (1, ["port"], ("novel",))


@pytest.mark.parametrize(("argv", "passed"), [
    (["--mem-fraction-static", "0.9"], True), (["--mem-fraction-static=0.9"], True),
    (["--mem-fraction-static", "0.5"], False),
    (["--mem-fraction-static"], False), ([], False), (["0.9"], False),
])
def test_who_changed_it(argv: list[str], passed: bool) -> None:
    found = compare({"mem_fraction_static": 0.9}, {"mem_fraction_static": 0.8}, argv)
    assert found.differences[0].passed is passed


@pytest.mark.parametrize(("name", "value", "argv"), [
    ("tp_size", 8, ["--tensor-parallel-size", "8", "--x"]), ("disable_y", True, ["--disable-y"]),
    ("bs", [1, 2], ["--bs", "1", "2", "--z", "3"]), ("off", False, ["--other"]),
])
def test_passed_in_any_form(name: str, value: Any, argv: list[str]) -> None:
    assert compare({name: value}, {canonical(name): "else"}, argv).differences[0].passed


def test_a_declared_key_is_never_shown() -> None:
    found = compare({"api_key": "canary"}, {"api_key": True}, secret=("api-key",))
    assert (found.equal, found.differences) == (1, ())
    missing = compare({"api_key": "canary"}, {"api_key": False})
    assert "canary" not in missing.differences[0].text and "api-key" in missing.differences[0].text


def test_groups_are_looked_into_and_the_top_wins() -> None:
    info = {"port": 1, "parallel": {"tp_size": 8, "a": 1, "b": 2, "c": 3}, "internal_states": [{"port": 9}]}
    assert (flat(info)["tp_size"], flat(info)["port"]) == (8, 1)
    assert "internal_states" not in flat(info)


scalars = st.one_of(st.integers(-10**9, 10**9), st.booleans(), st.text("abc/._- 019KkeE", max_size=12),
                    st.floats(-1e6, 1e6, allow_nan=False))


tables = st.dictionaries(st.text("ab", min_size=1), scalars, max_size=3)


@given(st.one_of(scalars, st.lists(scalars, max_size=4), tables))
def test_a_value_is_the_same_as_itself(value: Any) -> None:
    assert same("x", value, value)
    assert len(shown(value)) <= 80
