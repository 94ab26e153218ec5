"""What in a checkpoint speaks against declared arguments: tensor parallel size, context, remote code, draft, KV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployer.protocol.finding import Finding, Level
from deployer.sglang import kv_dtype
from deployer.sglang.checkpoint import Checkpoint
from deployer.sglang.values import convert, written


def judge(args: Mapping[str, Any], checkpoint: Checkpoint, release: str) -> list[Finding]:
    """``args`` by dest name of the settings, dashes or underscores. All findings at once."""
    given = {name.replace("-", "_"): value for name, value in args.items()}
    declared = given.get("kv_cache_dtype")
    return [
        *kv_dtype.judge(str(declared) if declared else None, checkpoint, release),
        *_heads(given, checkpoint), *_context(given, checkpoint), *_remote_code(given, checkpoint),
        *_draft(given, checkpoint),
    ]


def whole_number(value: Any) -> int | None:
    """A declared integer, "32k" too; None where none is declared or it cannot be read."""
    if value is None or isinstance(value, bool):
        return None
    try:
        return int(convert("human_readable_int", written(value)))
    except ValueError:
        return None


def size(given: Mapping[str, Any], *names: str, default: int = 1) -> int:
    """A declared whole number by any of its names."""
    for name in names:
        if name in given:
            number = whole_number(given[name])
            return default if number is None else number
    return default


def _heads(given: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[Finding]:
    tp = size(given, "tp_size", "tensor_parallel_size")
    dp = size(given, "dp_size", "data_parallel_size") if given.get("enable_dp_attention") else \
        size(given, "attn_dp_size")
    ranks, heads = max(1, tp // max(dp, 1)), checkpoint.heads
    if heads and heads % ranks:
        fitting = [number for number in (1, 2, 4, 8, 16, 32) if heads % number == 0]
        yield Finding("tp-heads", Level.ERROR,
                      f"tp-size {tp} does not divide the model's {heads} attention heads"
                      + (f" (attention runs on {ranks} ranks)" if ranks != tp else ""),
                      key=("args", "tp-size"), hint=f"of the usual sizes {', '.join(map(str, fitting))} do")
    kv = checkpoint.kv_heads
    if kv and not checkpoint.kv_lora_rank and ranks > kv and ranks % kv:
        yield Finding("tp-kv-heads", Level.ERROR,
                      f"the model's {kv} KV heads cannot be shared out among {ranks} ranks", key=("args", "tp-size"))


def _context(given: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[Finding]:
    wanted = whole_number(given.get("context_length"))
    limit = checkpoint.context_length
    if wanted and limit and wanted > limit and not given.get("json_model_override_args"):
        yield Finding("context-beyond-model", Level.ERROR,
                      f"context-length {wanted} is beyond the model's {limit}: SGLang refuses it, or answers noise",
                      key=("args", "context-length"),
                      hint=f"at most {limit}, or a RoPE scaling in json-model-override-args")


def _remote_code(given: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[Finding]:
    if checkpoint.remote_code and not given.get("trust_remote_code"):
        yield Finding("trust-remote-code-needed", Level.WARNING,
                      "the checkpoint's config.json has an auto_map: it brings code of its own, which SGLang may need",
                      key=("args", "trust-remote-code"), hint="read that code, then say trust-remote-code = true")


def _draft(given: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[Finding]:
    algorithm = str(given.get("speculative_algorithm") or "").upper()
    draft = given.get("speculative_draft_model_path") or given.get("speculative_draft_model")
    if algorithm in ("EAGLE", "NEXTN") and not draft and checkpoint.layers and not checkpoint.draft_layers:
        yield Finding("no-draft-layers", Level.ERROR,
                      f"speculative-algorithm {algorithm} needs draft layers, and the checkpoint has none",
                      key=("args", "speculative-algorithm"), hint="declare speculative-draft-model-path")
