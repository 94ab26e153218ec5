"""Which KV cache dtype a release will use, and whether it would change it by itself.

Facts read from the releases' ``model_executor/model_runner.py``, ``layers/quantization/*.py`` and
``arg_groups/overrides.py``: up to 0.5.2 ``auto`` is the model's dtype whatever the checkpoint says; from 0.5.3 on a
``kv_cache_quant_algo`` of "FP8" turns the FP8 cache on.
"""

from __future__ import annotations

from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.sglang.checkpoint import Checkpoint
from deployer.sglang.version import at_least

KEY = ("args", "kv-cache-dtype")
BF16_SINCE = "0.5.4"
AUTO_FP8_SINCE = "0.5.3"
FP8_CONFIG_SINCE = "0.5.18"
COMPRESSED_TENSORS_SINCE = "0.5.19"
DSA_SINCE = "0.5.5"

BYTES = {
    "bf16": 2.0, "bfloat16": 2.0, "fp16": 2.0, "float16": 2.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0,
    "fp4_e2m1": 0.5 + 1 / 16, "nvfp4": 0.5 + 1 / 16, "fp4_mx_block16": 0.5 + 1 / 16, "mxfp8": 1.0 + 1 / 32,
}
"""Bytes an element, scales of the block formats included."""

OWN_HOOKS = {
    "DeepseekV4ForCausalLM": "DeepSeek-V4", "MiniMaxM3ForCausalLM": "MiniMax-M3", "KimiK3ForCausalLM": "Kimi-K3",
}
"""Architectures whose own hook sets the dtype; what it becomes depends on the GPU."""


@dataclass(frozen=True)
class Resolved:
    """``dtype`` that a release will use; ``by``: declared, model or checkpoint; ``source`` says where it stands."""

    dtype: str
    by: str
    source: str = ""


def resolve(declared: str | None, checkpoint: Checkpoint | None, release: str,
            model_dtype: str | None = None) -> Resolved:
    """What ``--kv-cache-dtype`` (None: not declared) comes to in this release."""
    if declared and declared != "auto":
        return Resolved(declared, "declared")
    model = model_dtype or (checkpoint.dtype if checkpoint else None) or "bfloat16"
    if checkpoint and asks_fp8(checkpoint, release):
        assert checkpoint.quantization is not None
        return Resolved("fp8_e4m3", "checkpoint", checkpoint.quantization.kv_source)
    return Resolved({"half": "float16", "float32": "float32"}.get(model, model), "model")


def asks_fp8(checkpoint: Checkpoint, release: str) -> bool:
    """Whether this release turns the FP8 cache on for this checkpoint when nothing is declared."""
    found = checkpoint.quantization
    if found is None or not at_least(release, AUTO_FP8_SINCE):
        return False
    if found.method.startswith("modelopt"):
        return (found.kv_algorithm or "").upper() == "FP8"
    if found.method == "compressed-tensors":
        scheme = found.kv_scheme or {}
        return at_least(release, COMPRESSED_TENSORS_SINCE) and scheme.get("type") == "float" \
            and scheme.get("num_bits") == 8 and scheme.get("strategy", "tensor") == "tensor" \
            and scheme.get("symmetric", True) is True and not scheme.get("dynamic", False)
    return at_least(release, FP8_CONFIG_SINCE) and found.method == "fp8" \
        and (found.kv_algorithm or "").upper() == "FP8"


def judge(declared: str | None, checkpoint: Checkpoint, release: str) -> list[Finding]:
    """A silent change is an error with the two ways out; a declared FP8 cache a warning."""
    findings = []
    known = declared if declared and declared != "auto" else None
    if known is None and asks_fp8(checkpoint, release):
        source = checkpoint.quantization.kv_source if checkpoint.quantization else ""
        findings.append(Finding(
            "kv-dtype-silent", Level.ERROR,
            f"SGLang {release} would turn the FP8 KV cache on by itself: the checkpoint's {source} says FP8",
            key=KEY, hint=_ways_out(release)))
    elif known is None and _dsa(checkpoint) and at_least(release, DSA_SINCE):
        findings.append(Finding(
            "kv-dtype-by-gpu", Level.WARNING,
            f"SGLang {release} chooses the KV cache dtype of this model (sparse attention) by the GPU: fp8_e4m3 from "
            "compute capability 10.0 on, bfloat16 below", key=KEY, hint='say kv-cache-dtype = "bf16" or "fp8_e4m3"'))
    elif known is None and (hook := next((name for arch, name in OWN_HOOKS.items()
                                          if arch in checkpoint.architectures), None)):
        findings.append(Finding(
            "kv-dtype-by-gpu", Level.WARNING, f"SGLang {release} may set the KV cache dtype of {hook} by itself",
            key=KEY, hint="say kv-cache-dtype; deployer verify shows what runs"))
    if known and known.startswith("fp8"):
        findings.append(_declared_fp8(known, checkpoint))
    return findings


def _declared_fp8(declared: str, checkpoint: Checkpoint) -> Finding:
    scales = checkpoint.quantization is not None and checkpoint.quantization.kv_source != ""
    said = "the checkpoint says that it was calibrated for it" if scales else \
        "the checkpoint says nothing of scaling factors, so 1.0 is used"
    return Finding("kv-dtype-fp8", Level.WARNING,
                   f"{declared} halves the KV cache and costs accuracy, most on long contexts; {said}", key=KEY,
                   hint="compare answers on long contexts with bf16 before it serves")


def _ways_out(release: str) -> str:
    if at_least(release, BF16_SINCE):
        return 'say kv-cache-dtype = "bf16" to keep full precision, or "fp8_e4m3" to take it knowingly'
    return f'"bf16" is accepted from {BF16_SINCE} on: say "fp8_e4m3" knowingly, or use {BF16_SINCE} or newer'


def _dsa(checkpoint: Checkpoint) -> bool:
    """DeepSeek sparse attention: an indexer beside MLA."""
    return checkpoint.index_head_dim is not None and checkpoint.kv_lora_rank is not None
