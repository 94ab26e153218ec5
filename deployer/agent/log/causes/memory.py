"""Memory of the GPUs: what does not fit, and where it failed to."""

from __future__ import annotations

import re
from typing import Optional

from deployer.agent.log.known import Known
from deployer.agent.log.signs import RAISED, Cause, Seen, When, sign
from deployer.protocol import patterns

_OOM = r"out of memory"
_OTHERS = patterns.compile(r"(?<!this )\bprocess (\d+) has ([\d.]+) ([GM])iB memory in use", re.IGNORECASE)
_TOTAL = patterns.compile(r"total capacity of ([\d.]+) GiB")
_TRIED = patterns.compile(r"Tried to allocate ([\d.]+ [GMK]iB)")
_FREE = patterns.compile(r"of which ([\d.]+ [GMK]iB) is free")
_DEVICE = patterns.compile(r"\b(GPU \d+) has a total")


def _others(text: str) -> float:
    """GiB that other processes hold by the text of an out-of-memory error (in a container it can be our own)."""
    return sum(float(size) / (1 if unit == "G" else 1024) for _, size, unit in _OTHERS.findall(text))


def place(known: Known, text: str) -> str:
    """Which cause an out-of-memory error stands for at this moment; "" once the server has its pool and its graphs."""
    line = known.timeline
    total = float(match[1]) if (match := _TOTAL.search(text)) else None
    others = _others(text)
    share = 0.25 if line.pooled else 0.1
    if others and total and others >= share * total:
        free_at_begin = min(line.available.values(), default=None)
        if free_at_begin is None or free_at_begin <= total - 0.9 * others:
            return "gpu-memory-held-by-other"
    if known.pinning and not line.listening and "tried to allocate" not in text.lower():
        return "pinned-memory-failure"
    if line.capacity_seen:
        return ""
    if line.loading or (line.loaded and not line.pooled):
        return "cuda-oom-weights"
    if line.pooled or line.capturing:
        return "cuda-oom-graph-capture"
    return "gpu-memory-held-by-other" if line.current in ("init", "distributed") else "cuda-oom-weights"


def _in(code: str) -> When:
    return lambda known, match: place(known, match.string) == code


def _figures(seen: Seen) -> str:
    found = []
    for pattern, words in ((_TRIED, "{} asked for"), (_FREE, "{} free"), (_DEVICE, "on {}")):
        match = pattern.search(seen.text)
        if match:
            found.append(words.format(match[1]))
    return " ({})".format(", ".join(found)) if found else ""


def _fraction(known: Known) -> str:
    value = known.arg("mem_fraction_static")
    return " (now {})".format(value) if value else ""


def _tp(known: Known) -> str:
    value = known.arg("tp_size")
    return " (--tp-size, now {})".format(value) if value else " (--tp-size)"


def _weights(known: Known, seen: Seen) -> str:
    available = min(known.timeline.available.values(), default=None)
    text = (
        "The weights do not fit{}: use more GPUs{}, a quantised checkpoint or --quantization fp8, or a smaller model."
    ).format(
        _figures(seen), _tp(known))
    if known.timeline.loaded or known.timeline.detail == "draft":
        text += " The pool was already due: a lower --mem-fraction-static{} leaves more room beside it.".format(
            _fraction(known))
    if available is not None:
        text += " {:.2f} GB were free before loading: check with nvidia-smi that the GPUs were empty.".format(available)
    else:
        text += " Check with nvidia-smi that the GPUs were empty."
    return text


def max_bs_flag(known: Known) -> str:
    """The name of the argument for the largest captured batch: another one from 0.5.14 on."""
    new = known.new_graph_flags
    if new is None:
        return "--cuda-graph-max-bs (from 0.5.14 on --cuda-graph-max-bs-decode)"
    return "--cuda-graph-max-bs-decode" if new else "--cuda-graph-max-bs"


def _graphs(known: Known, seen: Seen) -> str:
    prefill = "prefill" in seen.text.lower() or "prefill" in known.timeline.detail
    disable = (
        "--cuda-graph-backend-prefill=disabled" if prefill else "--cuda-graph-backend-decode=disabled"
    ) if known.new_graph_flags else "--disable-cuda-graph"
    if known.new_graph_flags is None:
        disable = "--disable-cuda-graph (from 0.5.14 on --cuda-graph-backend-{}=disabled)".format(
            "prefill" if prefill else "decode")
    batch = max_bs_flag(known)
    if prefill and known.new_graph_flags is not False:
        batch += " and, for the prefill graph, --cuda-graph-max-bs-prefill"
    return (
        "Weights and KV pool fit, the CUDA graphs do not{}: lower --mem-fraction-static{}, lower the largest captured "
        "batch with {}, or as a last resort turn the graph off with {}."
    ).format(_figures(seen), _fraction(known), batch, disable)


def _pool(known: Known, seen: Seen) -> str:
    smallest: Optional[str] = None
    match = re.search(r"Raise --mem-fraction-static above ([\d.]+)", seen.text)
    if match:
        smallest = match[1]
    used = [usage for _, usage in known.loaded.values() if usage]
    text = "Raise --mem-fraction-static{}{}, never lower it, or spread the weights over more GPUs{}".format(
        _fraction(known), " above {}".format(smallest) if smallest else "", _tp(known))
    if used:
        text += "; the weights alone take {:.1f} GB of each".format(max(used))
    if "mamba" in seen.text.lower():
        text += "; --max-running-requests and --mamba-full-memory-ratio decide how much the state cache takes"
    return text + ". Check with nvidia-smi that nothing else held memory of these GPUs."


def _held(known: Known, seen: Seen) -> str:
    others = ", ".join("process {} ({} {}iB)".format(*found) for found in _OTHERS.findall(seen.text))
    low = re.search(r"(?:min_per_gpu_memory|pre_model_load_memory)=([\d.]+)", seen.text)
    text = "Another process holds memory of these GPUs"
    if others:
        text += ": " + others
    elif low:
        text += ": the fullest one has {:.1f} GB free".format(float(low[1]))
    return text + (
        ". Find it with nvidia-smi (or `deployer gpus HOST`), end it (`deployer clean HOST`), and wait until a dying "
        "one has given its memory back. Nothing to see there: it may sit in another container."
    )


CAUSES = (
    Cause("gpu-memory-held-by-other", 30, "another process owns the GPU memory", _held, (
        sign("memory capacity is unbalanced", strength=3),
        sign("out of memory", _OOM, RAISED, 1, _in("gpu-memory-held-by-other")),
    )),
    Cause("kv-pool-too-small", 32, "after the weights the static budget leaves nothing for the KV pool", _pool, (
        sign("Loaded weights leave no GPU memory for the KV cache", strength=3),
        sign("Not enough memory. Please try to increase --mem-fraction-static", strength=3),
        sign("Not enough GPU memory for hybrid", strength=2),
        sign("state cache is too small to serve", strength=2),
    )),
    Cause("cuda-oom-graph-capture", 34, "weights and KV pool fit, the CUDA graphs do not", _graphs, (
        sign("graph failed: ", r"Capture .*failed: .*out of memory", RAISED, 3),
        sign("draft extend failed: ", r"Capture .*failed: .*out of memory", RAISED, 3),
        sign("out of memory", _OOM, RAISED, 1, _in("cuda-oom-graph-capture")),
    )),
    Cause("cuda-oom-weights", 35, "GPU memory runs out while the model is built, read or converted", _weights, (
        sign("out of memory", _OOM, RAISED, 1, _in("cuda-oom-weights")),
    )),
)
