"""Which KV cache dtype a release will use, and whether anybody asked for it."""

from __future__ import annotations

import json

import pytest

from deployer.sglang import fits, kv_dtype
from deployer.sglang.checkpoint import Checkpoint, NoCheckpoint, read

BASE = {"architectures": ["X"], "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "torch_dtype": "bfloat16", "max_position_embeddings": 32768}


def model(modelopt: dict[str, object] | None = None, **changes: object) -> Checkpoint:
    texts = {"config.json": json.dumps({**BASE, **changes})}
    if modelopt is not None:
        texts["hf_quant_config.json"] = json.dumps({"quantization": modelopt})
    return read(texts)


FP8 = model({"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"})
FLAT = model(quantization_config={"quant_algo": "FP8", "kv_cache_scheme": {"type": "float", "num_bits": 8}})
COMPRESSED = model(quantization_config={"quant_method": "compressed-tensors", "kv_cache_scheme": {
    "type": "float", "num_bits": 8, "strategy": "tensor", "symmetric": True, "dynamic": False}})
PLAIN_FP8 = model(quantization_config={"quant_method": "fp8", "kv_cache_quant_algo": "FP8"})
NVFP4_KV = model({"quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"})


@pytest.mark.parametrize(("checkpoint", "release", "expected"), [
    (model(), "0.5.23", "bfloat16"), (FP8, "0.5.2", "bfloat16"), (FP8, "0.5.3", "fp8_e4m3"),
    (FP8, "0.5.23", "fp8_e4m3"),
    (FLAT, "0.5.9", "fp8_e4m3"), (COMPRESSED, "0.5.18", "bfloat16"), (COMPRESSED, "0.5.19", "fp8_e4m3"),
    (PLAIN_FP8, "0.5.17", "bfloat16"), (PLAIN_FP8, "0.5.18", "fp8_e4m3"), (NVFP4_KV, "0.5.23", "bfloat16"),
])
def test_auto_by_release(checkpoint: Checkpoint, release: str, expected: str) -> None:
    assert kv_dtype.resolve(None, checkpoint, release).dtype == expected
    assert kv_dtype.resolve("auto", checkpoint, release).dtype == expected
    assert kv_dtype.resolve("bf16", checkpoint, release) == kv_dtype.Resolved("bf16", "declared")


def test_a_silent_change_is_an_error_with_two_ways_out() -> None:
    found = kv_dtype.judge(None, FP8, "0.5.9")
    assert [(finding.code, finding.level.value) for finding in found] == [("kv-dtype-silent", "error")]
    assert "hf_quant_config.json" in found[0].message
    assert '"bf16"' in found[0].hint and '"fp8_e4m3"' in found[0].hint
    assert kv_dtype.judge("bf16", FP8, "0.5.9") == []
    assert [finding.code for finding in kv_dtype.judge("fp8_e4m3", FP8, "0.5.9")] == ["kv-dtype-fp8"]


def test_the_hint_fits_the_release() -> None:
    assert "0.5.4" in kv_dtype.judge(None, FP8, "0.5.3")[0].hint


def test_sparse_attention_depends_on_the_gpu() -> None:
    dsa = model(kv_lora_rank=512, qk_rope_head_dim=64, index_head_dim=128)
    assert [finding.code for finding in kv_dtype.judge(None, dsa, "0.5.9")] == ["kv-dtype-by-gpu"]
    assert kv_dtype.judge("bf16", dsa, "0.5.9") == []


@pytest.mark.parametrize(("args", "changes", "codes"), [
    ({"tp-size": 8}, {}, []),
    ({"tp-size": 6}, {}, ["tp-heads"]),
    ({"tp_size": 12}, {"num_attention_heads": 48}, ["tp-kv-heads"]),
    ({"context-length": 65536}, {}, ["context-beyond-model"]),
    ({"context-length": "64k"}, {}, ["context-beyond-model"]),
    ({"context-length": 131072}, {"rope_scaling": {"type": "yarn", "factor": 4.0}}, []),
    ({}, {"auto_map": {"AutoModel": "x.Y"}}, ["trust-remote-code-needed"]),
    ({"trust-remote-code": True}, {"auto_map": {"AutoModel": "x.Y"}}, []),
    ({"speculative-algorithm": "NEXTN"}, {}, ["no-draft-layers"]),
    ({"speculative-algorithm": "NEXTN"}, {"num_nextn_predict_layers": 1}, []),
])
def test_arguments_against_the_checkpoint(
    args: dict[str, object], changes: dict[str, object], codes: list[str],
) -> None:
    assert [finding.code for finding in fits.judge(args, model(**changes), "0.5.9")] == codes


def test_no_config() -> None:
    with pytest.raises(NoCheckpoint):
        read({"config.json": "not json"})
