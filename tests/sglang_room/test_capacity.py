"""Tokens that fit, against figures that real servers logged."""

from __future__ import annotations

import json

import pytest

from deployer.sglang.capacity import GIB, NotComputed, Shape, cell, pool, state_bytes
from deployer.sglang.checkpoint import Checkpoint, read

KIMI = {"architectures": ["KimiK25ForConditionalGeneration"], "text_config": {
    "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "hidden_size": 7168, "max_position_embeddings": 262144}}

QWEN = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "text_config": {
    "num_hidden_layers": 60, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 256,
    "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 64,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "hidden_size": 4096}}

GQA = {"num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
       "hidden_size": 4096}


def model(config: dict[str, object]) -> Checkpoint:
    return read({"config.json": json.dumps(config)})


def test_kimi_k25_one_pair_gives_both_figures() -> None:
    kimi, shape = model(KIMI), Shape(tp=8)
    each = cell(kimi, shape, "bf16", "0.5.9")
    assert each.bytes == 70_272
    before, after = 94.4, 21.752
    assert pool(before, after, 0.88, each, kimi, shape).tokens == pytest.approx(159_277, rel=1e-3)
    assert pool(before, after, 0.85, each, kimi, shape).tokens == pytest.approx(116_000, rel=2e-3)


def test_kimi_k25_logged_elsewhere() -> None:
    kimi, shape = model(KIMI), Shape(tp=8)
    found = pool(283.53, 209.96, 0.826, cell(kimi, shape, "bfloat16", "0.5.9"), kimi, shape)
    assert found.tokens == pytest.approx(2_454_421, rel=1e-3)
    assert found.gib == pytest.approx(160.63, rel=1e-3)


def test_mla_is_the_same_on_every_rank_and_fp8_halves_it() -> None:
    kimi = model(KIMI)
    assert {cell(kimi, Shape(tp=tp), "bf16", "0.5.9").bytes for tp in (1, 4, 8)} == {70_272}
    assert cell(kimi, Shape(tp=8), "fp8_e4m3", "0.5.9").bytes == 35_136


def test_qwen35_counts_only_full_attention_layers() -> None:
    qwen, shape = model(QWEN), Shape(tp=8)
    assert (qwen.count("full"), qwen.count("linear")) == (15, 45)
    each = cell(qwen, shape, "bf16", "0.5.9")
    assert each.bytes == 15_360
    assert 1_280_000 * each.bytes / GIB == pytest.approx(18.3, abs=0.05)


def test_qwen3_235b_logged() -> None:
    each = cell(model(GQA), Shape(tp=4), "bf16", "0.5.9")
    assert 367_404 * each.bytes / GIB == pytest.approx(2 * 8.23, rel=1e-3)


def test_linear_attention_states_take_their_share_first() -> None:
    qwen, shape = model(QWEN), Shape(tp=8)
    each = cell(qwen, shape, "bf16", "0.5.9")
    found = pool(90.0, 60.0, 0.85, each, qwen, shape)
    rest = 60.0 - 90.0 * 0.15
    assert found.state_gib == pytest.approx(rest * 0.9 / 1.9, rel=0.01)
    assert found.gib == pytest.approx(rest / 1.9, rel=0.01)
    assert found.slots == int(rest * 0.9 / 1.9 * GIB // state_bytes(qwen, shape))


def test_state_of_one_request() -> None:
    """conv 3,072 · 2 B · 6 and ssm 32,768 · 4 B · 6 for each of 26,652 slots: 0.92 and 19.5 GB were logged."""
    from deployer.sglang.checkpoint import Linear

    linear = Linear(key_heads=2, value_heads=2, key_dim=128, value_dim=128, kernel=4)
    per_layer = 26_652 * linear.state_bytes(1, 4) * 6 / GIB
    assert per_layer == pytest.approx(19.5, rel=5e-3)


def test_draft_layers_are_in_the_cell_from_0_5_14_on() -> None:
    config = {**KIMI["text_config"], "num_nextn_predict_layers": 1}  # type: ignore[dict-item]
    mtp = model(config)
    assert cell(mtp, Shape(tp=8), "bf16", "0.5.13", draft=True).bytes == 70_272
    assert cell(mtp, Shape(tp=8), "bf16", "0.5.14", draft=True).bytes == 70_272 + 70_272 // 61


def test_pages_are_whole_and_a_limit_holds() -> None:
    kimi, shape = model(KIMI), Shape(tp=8)
    each = cell(kimi, shape, "bf16", "0.5.9")
    assert pool(94.4, 21.75, 0.88, each, kimi, shape, page=64).tokens % 64 == 0
    assert pool(94.4, 21.75, 0.88, each, kimi, shape, limit=4096).tokens == 4096


def test_nothing_left_names_the_fraction_that_is_needed() -> None:
    kimi, shape = model(KIMI), Shape(tp=8)
    with pytest.raises(NotComputed, match=r"more than 0\.895 is needed"):
        pool(95.0, 10.0, 0.85, cell(kimi, shape, "bf16", "0.5.9"), kimi, shape)


def test_what_is_not_understood_gives_no_number() -> None:
    strange = model({"num_hidden_layers": 4, "layer_types": ["full_attention", "quantum", "quantum", "quantum"],
                     "num_key_value_heads": 4, "head_dim": 64})
    with pytest.raises(NotComputed, match="layers of the kind quantum are not known"):
        cell(strange, Shape(), "bf16", "0.5.9")
    with pytest.raises(NotComputed, match="hybrid_override_pattern"):
        cell(model({"num_hidden_layers": 4, "hybrid_override_pattern": "M-*M"}), Shape(), "bf16", "0.5.9")
