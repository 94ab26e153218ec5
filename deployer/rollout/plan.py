"""What will fit, before anything is pushed: one table of figures for bf16 beside fp8, each with how it was computed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deployer.protocol.codec import Unknown
from deployer.protocol.facts import Facts
from deployer.protocol.finding import Finding
from deployer.protocol.records import dataclass, field
from deployer.rollout.units import argument
from deployer.settings.model import UnitSettings
from deployer.sglang import capacity, checkpoint, fits, fraction, kv_dtype
from deployer.sglang.capacity import NotComputed, Shape
from deployer.sglang.checkpoint import Checkpoint

CONTEXT_GIB = 1.0
"""CUDA context, NCCL buffers and the like, taken before the weights are loaded: about 1 GiB on most GPUs."""
RUNTIME_GIB = 0.6
"""What loading leaves behind beside the weights on a rank: buffers, replicated layers' overhead."""


@dataclass(frozen=True)
class Machine:
    """Memory of one GPU in MiB (the least of those meant), how many, host memory in bytes where known."""

    gpu_mib: float
    gpus: int
    host_bytes: int | None = None


@dataclass(frozen=True)
class Line:
    """One figure: what, its value in words, how it was computed, and the number for JSON."""

    name: str
    text: str
    how: str
    value: float | int | str | None = None


@dataclass(frozen=True)
class Column:
    """One KV dtype: tokens, and for how many requests of ``request_tokens`` they are enough."""

    dtype: str
    lines: tuple[Line, ...]
    tokens: int | None


@dataclass(frozen=True)
class Forecast:
    """``missing`` says in words why there are no numbers, ``hint`` what gives them. ``resolved`` is the dtype that this
    release will use."""

    release: str
    resolved: kv_dtype.Resolved
    common: tuple[Line, ...] = ()
    columns: tuple[Column, ...] = ()
    around: tuple[Line, ...] = ()
    findings: tuple[Finding, ...] = ()
    missing: str = ""
    hint: str = ""
    request_tokens: int = 4096
    notes: tuple[str, ...] = field(default=())


def local_texts(folder: Path) -> tuple[dict[str, str], int | None]:
    """A checkpoint's descriptions in a folder of this machine, and the size of its weight files."""
    names = ("config.json", "hf_quant_config.json", "generation_config.json", "tokenizer_config.json",
             "model.safetensors.index.json")
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in names if (folder / name).is_file()}
    sizes = [file.stat().st_size for file in folder.iterdir() if file.suffix in (".safetensors", ".bin", ".gguf")] \
        if folder.is_dir() else []
    return texts, sum(sizes) or None


def host_texts(facts: Facts) -> tuple[dict[str, str], int | None]:
    """The same as a host's facts give them."""
    texts = {text.path.rpartition("/")[2]: text.text for text in facts.texts if isinstance(text.text, str)}
    return texts, None if isinstance(facts.weights_bytes, Unknown) else facts.weights_bytes


def forecast(settings: UnitSettings, release: str, texts: Mapping[str, str], weight_bytes: int | None,
             machine: Machine, request_tokens: int = 4096) -> Forecast:
    """Pure. What cannot be computed is said, and then there is no number."""
    declared = argument(settings, "kv-cache-dtype")
    try:
        model = checkpoint.read(texts, weight_bytes)
    except checkpoint.NoCheckpoint as error:
        return Forecast(release, kv_dtype.resolve(_word(declared), None, release), missing=str(error),
                        hint="give the checkpoint's folder: --config DIR with its config.json, or --host HOST")
    resolved = kv_dtype.resolve(_word(declared), model, release, _word(argument(settings, "dtype")))
    findings = tuple(finding.at(settings.spans.where(finding.key)) if settings.spans else finding
                     for finding in fits.judge(settings.args, model, release))
    try:
        return _computed(settings, release, model, machine, resolved, findings, request_tokens)
    except NotComputed as error:
        return Forecast(release, resolved, findings=findings, missing=str(error), hint=_hint(model, settings, machine))


def _computed(settings: UnitSettings, release: str, model: Checkpoint, machine: Machine, resolved: kv_dtype.Resolved,
              findings: tuple[Finding, ...], request_tokens: int) -> Forecast:
    capacity.understood(model)
    shape = shape_of(settings)
    if shape.ranks_here > machine.gpus:
        raise NotComputed(f"{shape.ranks_here} ranks need {shape.ranks_here} GPUs, there are {machine.gpus}")
    speculative = _word(argument(settings, "speculative-algorithm"))
    pinned = argument(settings, "mem-fraction-static")
    f = fraction.Fraction(float(str(pinned)), "declared") if pinned is not None else fraction.default(
        release, machine.gpu_mib, tp=shape.tp, pp=shape.pp, attention_dp=shape.attention_dp, speculative=speculative,
        chunked_prefill=_number(settings, "chunked-prefill-size"),
        graph_max_bs=_number(settings, "cuda-graph-max-bs-decode") or _number(settings, "cuda-graph-max-bs"))
    weights = capacity.weights_per_rank(model, shape)
    before = machine.gpu_mib / 1024 - CONTEXT_GIB
    after = before - weights - RUNTIME_GIB
    common = [
        Line("GPU memory", f"{machine.gpu_mib / 1024:.1f} GiB × {machine.gpus}", "in all", machine.gpu_mib),
        Line("weights", f"{weights:.1f} GiB a GPU", f"{(model.weight_bytes or 0) / capacity.GIB:.1f} GiB of files / "
             f"{shape.tp * shape.pp} ranks", round(weights, 3)),
        Line("mem-fraction-static", f"{f.value:g}", f.how + ("" if f.exact else " (an estimate)"), f.value),
        Line("outside the pool", f"{before * (1 - f.value):.1f} GiB a GPU", "activations, CUDA graphs, runtime: "
             f"{before:.1f} GiB × (1 − {f.value:g})", round(before * (1 - f.value), 3)),
    ]
    common += _states(settings, model, shape)
    common += _hicache(settings, shape, machine)
    wanted = dict.fromkeys(("bf16", "fp8_e4m3", "bf16" if resolved.dtype == "bfloat16" else resolved.dtype))
    inputs = _Inputs(settings, release, model, shape, speculative is not None, before, after)
    columns = tuple(_column(inputs, f.value, dtype, request_tokens) for dtype in wanted)
    steps = [step for step in (-0.03, 0.03) if 0 < f.value + step < 0.98]
    around = tuple(_around(inputs, f.value, step, resolved.dtype) for step in steps)
    notes = () if pinned is not None else ("mem-fraction-static is not declared: pin it, and this forecast holds to "
                                           "about 5 %",)
    return Forecast(release, resolved, tuple(common), columns, around, findings, request_tokens=request_tokens,
                    notes=notes)


def _hint(model: Checkpoint, settings: UnitSettings, machine: Machine) -> str:
    if shape_of(settings).ranks_here > machine.gpus:
        return "declare smaller parallel sizes, or plan for more GPUs: --gpus N"
    if not model.weight_bytes and not model.unknown and model.layers:
        return ("--weights SIZE, or lay the checkpoint's model.safetensors.index.json beside its config.json, or "
                "--host HOST")
    return ""


def chosen(declared: str, installed: str | None) -> tuple[str | None, str]:
    """The release to plan for, and in words why it is that one where the settings leave a choice.

    The one that the host has, where that is known; else the newest that is declared. None where nothing matches.
    """
    from deployer.sglang.catalogue import catalogue
    from deployer.sglang.version import Unreadable, is_release

    if is_release(declared):
        differs = installed and installed != declared
        return installed or declared, f"planned for {installed}, which the host has" if differs else ""
    if installed:
        return installed, f"planned for {installed}, which the host has"
    try:
        matching = catalogue().matching(declared)
    except Unreadable:
        return None, ""
    if not matching:
        return None, ""
    others = f" of {len(matching)} releases in \"{declared}\"" if len(matching) > 1 else f" in \"{declared}\""
    return matching[-1], f"planned for {matching[-1]}, the newest{others}; --sglang V for another"


@dataclass(frozen=True)
class _Inputs:
    settings: UnitSettings
    release: str
    model: Checkpoint
    shape: Shape
    draft: bool
    before: float
    after: float

    def pool(self, f: float, dtype: str) -> tuple[capacity.Cell, capacity.Pool]:
        each = capacity.cell(self.model, self.shape, dtype, self.release, self.draft)
        return each, capacity.pool(
            self.before, self.after, f, each, self.model, self.shape, page=_number(self.settings, "page-size") or 1,
            mamba_ratio=_real(self.settings, "mamba-full-memory-ratio", capacity.MAMBA_RATIO),
            swa_ratio=_real(self.settings, "swa-full-tokens-ratio", capacity.SWA_RATIO),
            max_slots=_number(self.settings, "max-mamba-cache-size"), limit=_number(self.settings, "max-total-tokens"))


def _column(inputs: _Inputs, f: float, dtype: str, request_tokens: int) -> Column:
    try:
        each, pool = inputs.pool(f, dtype)
    except NotComputed as error:
        return Column(dtype, (Line("tokens", "none", str(error)),), None)
    return Column(dtype, (
        Line("bytes a token", f"{each.bytes:,}", each.how, each.bytes),
        Line("KV cache", f"{pool.gib:.1f} GiB a GPU", pool.how, round(pool.gib, 3)),
        Line("tokens", f"{pool.tokens:,}", "KV cache / bytes a token, whole pages", pool.tokens),
        Line(f"requests of {request_tokens:,}", f"{pool.tokens // request_tokens:,}",
             f"{pool.tokens:,} / {request_tokens:,}", pool.tokens // request_tokens),
    ), pool.tokens)


def _around(inputs: _Inputs, f: float, step: float, dtype: str) -> Line:
    value = round(f + step, 3)
    name = f"with mem-fraction-static {value:g}"
    try:
        _, pool = inputs.pool(value, dtype)
        return Line(name, f"{pool.tokens:,} tokens", pool.how, pool.tokens)
    except NotComputed as error:
        return Line(name, "does not fit", str(error))


def _states(settings: UnitSettings, model: Checkpoint, shape: Shape) -> list[Line]:
    if not model.count(checkpoint.LINEAR):
        return []
    one = capacity.state_bytes(model, shape)
    return [Line("linear-attention state", f"{one / (1 << 20):.1f} MiB a request",
                 f"{model.count(checkpoint.LINEAR)} layers, convolution and recurrent state", one)]


def _hicache(settings: UnitSettings, shape: Shape, machine: Machine) -> list[Line]:
    size = argument(settings, "hicache-size")
    if size is None:
        return []
    whole = float(str(size)) * shape.ranks_here
    have = f", the host has {machine.host_bytes / 1e9:.0f} GB" if machine.host_bytes else ""
    how = f"hicache-size {size} GB × {shape.ranks_here} ranks{have}"
    return [Line("host memory pinned", f"{whole:.0f} GB", how, whole)]


def shape_of(settings: UnitSettings) -> Shape:
    """The declared parallel sizes."""
    tp, dp = _number(settings, "tp-size") or 1, _number(settings, "dp-size") or 1
    attention = dp if argument(settings, "enable-dp-attention") else _number(settings, "attn-dp-size") or 1
    return Shape(tp, _number(settings, "pp-size") or 1, attention, _number(settings, "nnodes") or 1)


def _number(settings: UnitSettings, name: str) -> int | None:
    return fits.whole_number(argument(settings, name))


def _real(settings: UnitSettings, name: str, default: float) -> float:
    value: Any = argument(settings, name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else default


def _word(value: Any) -> str | None:
    return str(value) if value is not None else None
