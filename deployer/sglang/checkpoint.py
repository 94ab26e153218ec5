"""What a checkpoint's own descriptions say: config.json, hf_quant_config.json, the safetensors index.

Nothing is guessed: what is not written there is None, and ``Checkpoint.unknown`` says in words what keeps a model from
being understood. Keys are those of the transformers configurations; ``text_config`` holds them for multimodal models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deployer.protocol.records import dataclass, field

FULL, MLA, SLIDING, LINEAR = "full", "mla", "sliding", "linear"

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "half": 2, "bf16": 2, "fp16": 2}


@dataclass(frozen=True)
class Quantization:
    """``method``: fp8, compressed-tensors, modelopt, awq, gptq, mxfp4 …; ``kv_algorithm`` e.g. "FP8", as written.

    ``kv_source``: the file and key that say so, for a message.
    """

    method: str
    kv_algorithm: str | None = None
    kv_source: str = ""
    kv_scheme: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Linear:
    """A linear-attention (or Mamba) layer's state, as Qwen3-Next and its relatives declare it."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    state_dtype: str | None = None

    def conv_bytes(self, tp: int) -> int:
        """Bytes of one layer's convolution state for one request and rank; bfloat16 (SGLANG_MAMBA_CONV_DTYPE)."""
        channels = 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
        return channels // tp * (self.kernel - 1) * 2

    def state_bytes(self, tp: int, itemsize: int) -> int:
        """Bytes of one layer's recurrent state for one request and rank."""
        return max(1, self.value_heads // tp) * self.key_dim * self.value_dim * itemsize


@dataclass(frozen=True)
class Checkpoint:
    """One model. ``layers`` holds each layer's kind of attention, in order. Counts are of heads, sizes in elements."""

    architectures: tuple[str, ...]
    layers: tuple[str, ...]
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    v_head_dim: int | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None
    index_head_dim: int | None = None
    sliding_window: int | None = None
    swa_kv_heads: int | None = None
    swa_head_dim: int | None = None
    context_length: int | None = None
    dtype: str | None = None
    quantization: Quantization | None = None
    linear: Linear | None = None
    draft_layers: int = 0
    experts: int | None = None
    remote_code: bool = False
    weight_bytes: int | None = None
    unknown: tuple[str, ...] = field(default=())

    def count(self, kind: str) -> int:
        return sum(layer == kind for layer in self.layers)


class NoCheckpoint(ValueError):
    """There is no config.json, or it is not one."""


def read(texts: Mapping[str, str], weight_bytes: int | None = None) -> Checkpoint:
    """A checkpoint from the texts of its files by name. Raises NoCheckpoint."""
    config = _object(texts, "config.json")
    if config is None:
        raise NoCheckpoint("there is no readable config.json")
    text = {**config, **_dict(config.get("text_config") or config.get("llm_config"))}
    layers, unknown = _layers(text)
    index = _object(texts, "model.safetensors.index.json") or {}
    total = _int(_dict(index.get("metadata")).get("total_size"))
    return Checkpoint(
        architectures=tuple(str(name) for name in config.get("architectures") or ()),
        layers=layers, heads=_int(text.get("num_attention_heads")),
        kv_heads=_int(text.get("num_key_value_heads")) or _int(text.get("num_attention_heads"))
        or _int(text.get("n_head")),
        head_dim=_head_dim(text), v_head_dim=_int(text.get("v_head_dim")), kv_lora_rank=_int(text.get("kv_lora_rank")),
        rope_head_dim=_int(text.get("qk_rope_head_dim")), index_head_dim=_int(text.get("index_head_dim")),
        sliding_window=_int(text.get("sliding_window")), swa_kv_heads=_int(text.get("swa_num_key_value_heads")),
        swa_head_dim=_int(text.get("swa_head_dim")), context_length=_context(text),
        dtype=_text(text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype")),
        quantization=quantization(config, text, _object(texts, "hf_quant_config.json")), linear=_linear(text),
        draft_layers=_int(text.get("num_nextn_predict_layers") or text.get("mtp_num_hidden_layers")) or 0,
        experts=_int(text.get("num_experts") or text.get("n_routed_experts") or text.get("num_local_experts")),
        remote_code="auto_map" in config, weight_bytes=total or weight_bytes, unknown=unknown,
    )


def quantization(config: Mapping[str, Any], text: Mapping[str, Any],
                 modelopt: Mapping[str, Any] | None) -> Quantization | None:
    """The quantization and what it says of the KV cache; hf_quant_config.json (ModelOpt) counts before config.json."""
    if modelopt is not None:
        inner = _dict(modelopt.get("quantization"))
        algorithm = _text(inner.get("kv_cache_quant_algo"))
        return Quantization("modelopt", algorithm, "hf_quant_config.json: quantization.kv_cache_quant_algo"
                            if algorithm else "")
    found = _dict(config.get("quantization_config") or text.get("quantization_config")
                  or config.get("compression_config"))
    if not found:
        return None
    method = str(found.get("quant_method") or ("modelopt" if "quant_algo" in found else "unknown"))
    scheme = found.get("kv_cache_scheme")
    algorithm = _text(found.get("kv_cache_quant_algo"))
    source = "config.json: quantization_config.kv_cache_quant_algo" if algorithm else ""
    scheme_source = "config.json: quantization_config.kv_cache_scheme"
    if isinstance(scheme, str):
        algorithm, source, scheme = algorithm or scheme, source or scheme_source, None
    elif isinstance(scheme, dict) and algorithm is None and _eight_bit_float(scheme) and method.startswith("modelopt"):
        algorithm, source = "FP8", scheme_source
    return Quantization(method, algorithm, source or (scheme_source if scheme else ""), scheme or None)


def _eight_bit_float(scheme: Mapping[str, Any]) -> bool:
    return scheme.get("type") == "float" and scheme.get("num_bits") == 8


def _layers(text: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Each layer's kind, and what could not be understood."""
    count = _int(text.get("num_hidden_layers") or text.get("n_layer"))
    if not count:
        return (), ("config.json does not say how many layers there are",)
    base = MLA if _int(text.get("kv_lora_rank")) else FULL
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == count:
        names = {"full_attention": base, "sliding_attention": SLIDING, "linear_attention": LINEAR, "attention": base,
                 "mamba": LINEAR, "chunked_attention": SLIDING}
        strange = sorted({str(kind) for kind in kinds if kind not in names})
        return tuple(names.get(kind, base) for kind in kinds), tuple(
            f"layers of the kind {kind} are not known" for kind in strange)
    interval = _int(text.get("full_attention_interval"))
    if interval and "linear_num_value_heads" in text:
        return tuple(base if (layer + 1) % interval == 0 else LINEAR for layer in range(count)), ()
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return (), ("its layers are described by hybrid_override_pattern, which is not computed",)
    if "mamba_d_state" in text or "ssm_state_size" in text:
        return (), ("it has Mamba layers that are not computed",)
    every = _int(text.get("sliding_window_pattern"))
    if every and _int(text.get("sliding_window")):
        return tuple(base if (layer + 1) % every == 0 else SLIDING for layer in range(count)), ()
    return (base,) * count, ()


def _linear(text: Mapping[str, Any]) -> Linear | None:
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
             "linear_conv_kernel_dim")
    values = [_int(text.get(name)) for name in names]
    if None in values:
        return None
    keys, heads, key_dim, value_dim, kernel = (value or 0 for value in values)
    return Linear(keys, heads, key_dim, value_dim, kernel, _text(text.get("mamba_ssm_dtype")))


def _head_dim(text: Mapping[str, Any]) -> int | None:
    given = _int(text.get("head_dim"))
    hidden = _int(text.get("hidden_size") or text.get("n_embd"))
    heads = _int(text.get("num_attention_heads") or text.get("n_head"))
    return given or (hidden // heads if hidden and heads else None)


def _context(text: Mapping[str, Any]) -> int | None:
    """The longest context in tokens, as SGLang derives it: the window, times the factor of a RoPE scaling."""
    window = _int(text.get("max_position_embeddings") or text.get("n_positions") or text.get("model_max_length"))
    scaling = _dict(text.get("rope_scaling"))
    kind = scaling.get("rope_type") or scaling.get("type")
    factor = scaling.get("factor")
    if window and isinstance(factor, (int, float)) and kind not in ("llama3", "su", "longrope", "mrope", "default"):
        original = _int(scaling.get("original_max_position_embeddings"))
        return int((original or window) * factor)
    return window


def _object(texts: Mapping[str, str], name: str) -> dict[str, Any] | None:
    try:
        value = json.loads(texts[name])
    except (KeyError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
