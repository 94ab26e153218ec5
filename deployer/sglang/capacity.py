"""What will fit: weights, KV cache, tokens, concurrent requests. Pure arithmetic, each figure with how it was computed.

The formula (``model_executor/model_runner.py``, ``mem_cache/memory_pool.py``, the same in every release from 0.4.0 on):
tokens = floor(((A − P·(1 − f) − M)·2^30) / cell), rounded down to whole pages, where P is the *free* GPU memory before
the weights are loaded and A after it (GiB, the least of all ranks), f is mem-fraction-static, M the memory of linear
attention's states, and cell the bytes that one token takes on one rank.
"""

from __future__ import annotations

import math

from deployer.protocol.records import dataclass
from deployer.sglang.checkpoint import DTYPE_BYTES, FULL, LINEAR, MLA, SLIDING, Checkpoint
from deployer.sglang.kv_dtype import BYTES
from deployer.sglang.version import at_least

GIB = 1 << 30
DRAFT_IN_CELL_SINCE = "0.5.14"
MAMBA_RATIO = 0.9
"""mamba_full_memory_ratio where none is declared."""
SWA_RATIO = 0.8
"""swa_full_tokens_ratio where none is declared."""


class NotComputed(ValueError):
    """What is missing to compute it, in words: there is no number then."""


@dataclass(frozen=True)
class Shape:
    """How a model is spread: sizes of the parallel groups, as declared."""

    tp: int = 1
    pp: int = 1
    attention_dp: int = 1
    nodes: int = 1

    @property
    def attention_tp(self) -> int:
        return max(1, self.tp // max(1, self.attention_dp))

    @property
    def ranks_here(self) -> int:
        return max(1, self.tp * self.pp // max(1, self.nodes))


@dataclass(frozen=True)
class Cell:
    """``bytes`` a token and rank; for a sliding-window model ``full`` and ``sliding`` apart (bytes a token each)."""

    bytes: int
    how: str
    full: int = 0
    sliding: int = 0


def cell(checkpoint: Checkpoint, shape: Shape, kv_dtype: str, release: str, draft: bool = False) -> Cell:
    """Bytes that one token takes on one rank. Raises NotComputed."""
    understood(checkpoint)
    if kv_dtype not in BYTES:
        raise NotComputed(f"the size of a {kv_dtype} KV cache is not known")
    item = BYTES[kv_dtype]
    layers = checkpoint.count(FULL) + checkpoint.count(MLA)
    layers = math.ceil(layers / shape.pp)
    if checkpoint.count(MLA):
        return _mla(checkpoint, layers, item, kv_dtype, release, draft)
    heads, dims, words = _heads(checkpoint, shape)
    full = heads * dims * layers * item
    text = f"{words} × {layers} layers × {item:g} B"
    sliding = checkpoint.count(SLIDING)
    if sliding and checkpoint.sliding_window:
        swa_heads = max(1, (checkpoint.swa_kv_heads or checkpoint.kv_heads or 1) // shape.attention_tp)
        swa_dims = 2 * (checkpoint.swa_head_dim or checkpoint.head_dim or 0)
        small = swa_heads * swa_dims * math.ceil(sliding / shape.pp) * item
        return Cell(int(full + small), f"{text}, and {sliding} sliding-window layers", int(full), int(small))
    return Cell(_with_draft(int(full), checkpoint, layers, release, draft), text)


def _mla(checkpoint: Checkpoint, layers: int, item: float, kv_dtype: str, release: str, draft: bool) -> Cell:
    rank, rope = checkpoint.kv_lora_rank or 0, checkpoint.rope_head_dim or 0
    if checkpoint.index_head_dim:
        # DeepSeek sparse attention: the FP8 layout keeps a scale a block of 128 and the RoPE part in bf16.
        one = rank + rank // 128 * 4 + rope * 2 if kv_dtype.startswith("fp8") else (rank + rope) * item
        one += checkpoint.index_head_dim + checkpoint.index_head_dim // 128 * 4
        return Cell(_with_draft(int(one * layers), checkpoint, layers, release, draft),
                    f"{one:g} B (MLA with indexer) × {layers} layers, the same on every rank")
    whole = int((rank + rope) * layers * item)
    return Cell(_with_draft(whole, checkpoint, layers, release, draft),
                f"({rank} + {rope}) × {layers} layers × {item:g} B (MLA, the same on every rank)")


def _heads(checkpoint: Checkpoint, shape: Shape) -> tuple[int, int, str]:
    if not checkpoint.kv_heads or not checkpoint.head_dim:
        raise NotComputed("config.json names neither KV heads nor a head size")
    heads = max(1, checkpoint.kv_heads // shape.attention_tp)
    value = checkpoint.v_head_dim or checkpoint.head_dim
    replicated = " (replicated)" if checkpoint.kv_heads < shape.attention_tp else ""
    return heads, checkpoint.head_dim + value, \
        f"{heads} KV head{'' if heads == 1 else 's'}{replicated} × ({checkpoint.head_dim} + {value})"


def _with_draft(plain: int, checkpoint: Checkpoint, layers: int, release: str, draft: bool) -> int:
    """From 0.5.14 on the draft model's layers are part of the cell."""
    if not draft or not at_least(release, DRAFT_IN_CELL_SINCE) or not layers:
        return plain
    return plain + plain * max(1, checkpoint.draft_layers) // layers


@dataclass(frozen=True)
class Pool:
    """``tokens`` that fit, ``gib`` they take on one rank; ``state_gib`` of linear attention for ``slots`` requests."""

    tokens: int
    gib: float
    state_gib: float = 0.0
    slots: int | None = None
    how: str = ""


def pool(free_before: float, free_after: float, fraction: float, each: Cell, checkpoint: Checkpoint, shape: Shape, *,
         page: int = 1, mamba_ratio: float = MAMBA_RATIO, swa_ratio: float = SWA_RATIO, state_itemsize: int = 4,
         max_slots: int | None = None, limit: int | None = None) -> Pool:
    """Tokens from the free memory before and after loading (GiB). Raises NotComputed when nothing is left.

    ``max_slots``: declared max-mamba-cache-size; ``limit``: declared max-total-tokens.
    """
    rest = free_after - free_before * (1 - fraction)
    if rest <= 0:
        need = 1 - free_after / free_before
        raise NotComputed(f"the weights leave nothing under mem-fraction-static {fraction:g}: "
                          f"more than {need:.3f} is needed")
    how = f"({free_after:.2f} − {free_before:.2f} × (1 − {fraction:g})) GiB / {each.bytes:,} B"
    state, slots = 0.0, None
    if checkpoint.count(LINEAR):
        state, slots = _states(rest, checkpoint, shape, mamba_ratio, state_itemsize, max_slots)
        how += f", less {state:.2f} GiB of linear-attention states"
    budget = (rest - state) * GIB
    if each.sliding:
        # Full and window layers share the budget: the window layers keep ``swa_ratio`` tokens for each full one.
        tokens = int(budget / (each.full + swa_ratio * each.sliding))
    else:
        tokens = int(budget // each.bytes)
    tokens = min(tokens, limit) if limit else tokens
    tokens = tokens // page * page
    used = tokens * (each.full + swa_ratio * each.sliding if each.sliding else each.bytes)
    return Pool(tokens, used / GIB, state, slots, how)


def _states(rest: float, checkpoint: Checkpoint, shape: Shape, ratio: float, itemsize: int,
            max_slots: int | None) -> tuple[float, int]:
    """GiB for the states of linear attention, and for how many requests."""
    one = state_bytes(checkpoint, shape, itemsize)
    slots = max_slots if max_slots is not None else int(rest * ratio / (1 + ratio) * GIB // one)
    return slots * one / GIB, slots


def state_bytes(checkpoint: Checkpoint, shape: Shape, itemsize: int = 4) -> int:
    """Bytes of one request's states over all linear-attention layers on one rank. Raises NotComputed."""
    if checkpoint.linear is None:
        raise NotComputed("the sizes of its linear-attention layers are not in config.json")
    layers = math.ceil(checkpoint.count(LINEAR) / shape.pp)
    tp = shape.attention_tp
    return layers * (checkpoint.linear.conv_bytes(tp) + checkpoint.linear.state_bytes(tp, itemsize))


def weights_per_rank(checkpoint: Checkpoint, shape: Shape) -> float:
    """GiB of weights on one rank, from the checkpoint's size alone: exact to a few per cent. Raises NotComputed."""
    if not checkpoint.weight_bytes:
        raise NotComputed("the size of the checkpoint's weights is not known")
    return checkpoint.weight_bytes / (shape.tp * shape.pp) / GIB


def model_bytes(dtype: str | None) -> int:
    """Bytes an element of the model's own dtype."""
    return DTYPE_BYTES.get(dtype or "bfloat16", 2)


def understood(checkpoint: Checkpoint) -> None:
    """Raises NotComputed for a model whose layers are not known."""
    if checkpoint.unknown:
        raise NotComputed("; ".join(checkpoint.unknown))
    if not checkpoint.layers:
        raise NotComputed("config.json does not describe its layers")
