"""The forecast from total memory and checkpoint size alone."""

from __future__ import annotations

import json

import pytest

from deployer.rollout.plan import Machine, chosen, forecast
from deployer.settings.model import UnitSettings, Venv
from deployer.sglang.catalogue import catalogue

KIMI = {"architectures": ["K"], "text_config": {
    "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "hidden_size": 7168, "max_position_embeddings": 262144}}
WEIGHTS = int((94.4 - 21.75 - 0.6) * (1 << 30) * 8)


def unit(**args: object) -> UnitSettings:
    return UnitSettings("k", Venv("/p"), "0.5.9", args={"tp-size": 8, "mem-fraction-static": 0.88, **args})  # type: ignore[dict-item]


def texts(config: dict[str, object], **more: object) -> dict[str, str]:
    return {"config.json": json.dumps(config), **{f"{name}.json": json.dumps(value) for name, value in more.items()}}


def test_kimi_within_five_per_cent_of_what_was_logged() -> None:
    found = forecast(unit(), "0.5.9", texts(KIMI), WEIGHTS, Machine(95.59 * 1024, 8))
    assert found.missing == ""
    tokens = {column.dtype: column.tokens for column in found.columns}
    assert tokens["bf16"] == pytest.approx(159_277, rel=0.05)
    assert tokens["fp8_e4m3"] == pytest.approx(318_554, rel=0.05)
    assert [line.value for line in found.columns[0].lines][-1] == (tokens["bf16"] or 0) // 4096


def test_the_dtype_that_the_release_would_choose_is_said_with_its_source() -> None:
    quant = {"quantization": {"kv_cache_quant_algo": "FP8"}}
    found = forecast(unit(), "0.5.9", texts(KIMI, hf_quant_config=quant), WEIGHTS, Machine(97887, 8))
    assert (found.resolved.dtype, found.resolved.by) == ("fp8_e4m3", "checkpoint")
    assert [finding.code for finding in found.findings] == ["kv-dtype-silent"]


def test_hicache_of_all_ranks() -> None:
    found = forecast(unit(**{"hicache-size": 48}), "0.5.9", texts(KIMI), WEIGHTS, Machine(97887, 8, int(512e9)))
    line = next(line for line in found.common if line.name == "host memory pinned")
    assert (line.value, line.how) == (384.0, "hicache-size 48 GB × 8 ranks, the host has 512 GB")


def test_more_and_less_memory_fraction() -> None:
    found = forecast(unit(), "0.5.9", texts(KIMI), WEIGHTS, Machine(95.59 * 1024, 8))
    less, more = (int(str(line.value)) for line in found.around)
    assert less < (found.columns[0].tokens or 0) < more


@pytest.mark.parametrize(("given", "size", "machine", "words", "hint"), [
    ({}, WEIGHTS, Machine(97887, 8), "no readable config.json", "--config DIR"),
    (texts(KIMI), None, Machine(97887, 8), "the size of the checkpoint's weights is not known", "--weights SIZE"),
    (texts(KIMI), WEIGHTS, Machine(97887, 4), "8 ranks need 8 GPUs, there are 4", "--gpus N"),
    (texts({"num_hidden_layers": 2, "mamba_d_state": 16}), WEIGHTS, Machine(97887, 8), "Mamba layers", ""),
])
def test_no_number_where_something_is_missing(
    given: dict[str, str], size: int | None, machine: Machine, words: str, hint: str,
) -> None:
    found = forecast(unit(), "0.5.9", given, size, machine)
    assert words in found.missing
    assert hint in found.hint and bool(hint) is bool(found.hint)
    assert found.columns == ()


@pytest.mark.parametrize(("declared", "installed", "release", "words"), [
    ("0.5.9", None, "0.5.9", ""),
    ("0.5.9", "0.5.9", "0.5.9", ""),
    ("0.5.9", "0.5.8", "0.5.8", "planned for 0.5.8, which the host has"),
    (">=0.5.4,<0.5.10", "0.5.6", "0.5.6", "planned for 0.5.6, which the host has"),
    ("==0.5.9", None, "0.5.9", "planned for 0.5.9, the newest in \"==0.5.9\"; --sglang V for another"),
    (">=99", None, None, ""),
    ("nonsense", None, None, ""),
])
def test_the_release_that_is_planned_for_is_said(
    declared: str, installed: str | None, release: str | None, words: str,
) -> None:
    assert chosen(declared, installed) == (release, words)


def test_of_a_specifier_the_newest_release_counts() -> None:
    release, words = chosen(">=0.5.4", None)
    assert release == catalogue().newest
    assert words.startswith(f"planned for {release}, the newest of ") and '">=0.5.4"' in words
