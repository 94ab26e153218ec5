"""The GPUs of a host with memory bars, and below them who holds them."""

from __future__ import annotations

import os
import shutil
import sys

from deployer.cli import console
from deployer.cli.holder_lines import holder_lines
from deployer.protocol.cleaned import Act, Treatment
from deployer.protocol.facts import Gpu
from deployer.protocol.holder import HolderClass
from deployer.rollout.gpus import Gpus, Held, idle

_EIGHTHS = " ▏▎▍▌▋▊▉"
_SCOPES = {"orphans": "ends it with --scope orphans", "all": "ends it only with --scope all, after asking"}


def show(host: str, answer: Gpus) -> None:
    """One host, on stdout; findings on stderr."""
    gpus = answer.reading.gpus
    names = sorted({gpu.name for gpu in gpus if gpu.name})
    driver = next((gpu.driver for gpu in gpus if gpu.driver), None)
    count = f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}" if gpus else "no GPU answers"
    title = [console.paint(host, "1", sys.stdout), count]
    title += names if len(names) == 1 else []
    title += [f"driver {driver}"] if driver else []
    console.result("  ".join(title))
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 60), 140)
    for gpu in gpus:
        console.result(_gpu(gpu, width, many=len(names) > 1))
    treatments = [Treatment(held.holder, Act(held.act), held.reason) for held in answer.holders]
    words = {index: _words(held) for index, held in enumerate(answer.holders)}
    lines = holder_lines(treatments, answer.reading, answer.containers, words, sys.stdout)
    if gpus and not lines:
        lines = ["  nobody holds a GPU"]
    for line in lines:
        console.result(line)
    if not answer.root and gpus:
        console.say("without root, other accounts' processes are not looked into: less is proven than could be")
    console.show_findings(answer.findings)


def bar(used: int, total: int, cells: int, unicode: bool) -> str:
    """``used`` of ``total`` in a bar of that many characters; anything in use shows at least a trace."""
    share = min(max(used / total if total else 0.0, 0.0), 1.0)
    if not unicode:
        full = round(share * cells)
        return "#" * full + "." * (cells - full)
    eighths = max(round(share * cells * 8), 1 if used else 0)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(cells, "░")


def _gpu(gpu: Gpu, width: int, many: bool) -> str:
    used, total = gpu.memory_used_mib, gpu.memory_total_mib
    if used is not None and total:
        figures = f"{used:>7,} / {total:>7,} MiB"
    elif total:
        figures = f"      ? / {total:>7,} MiB"
    else:
        figures = "memory not told by GPU"
    busy = f"{gpu.utilization:>3} % busy" if gpu.utilization is not None else ""
    more = [part for part in (busy, "MIG" if gpu.mig else "", gpu.name if many else "") if part]
    tail = f"  {figures}" + "".join(f"  {part}" for part in more)
    cells = max(10, min(40, width - 10 - len(tail)))
    unicode = (sys.stdout.encoding or "").lower().startswith("utf") and os.environ.get("TERM") != "linux"
    drawn = bar(used, total, cells, unicode) if used is not None and total else ("░" if unicode else ".") * cells
    colour = "2" if idle(used) or used is None else "31" if total and used / total > 0.95 else "32"
    return f"  GPU {gpu.index:<2} {console.paint(drawn, colour, sys.stdout)}{tail}"


def _words(held: Held) -> str:
    """How ``clean`` would treat it, and why: of whom it spares, what would have to be done instead."""
    holder = held.holder
    if holder.holder_class is HolderClass.OWN and holder.live:
        return f"spares it while {holder.unit} runs; --scope all would stop the unit, after asking"
    if holder.holder_class is HolderClass.HIDDEN:
        return f"cannot end it from here: {holder.proof}; deployer clean says what it may be"
    if holder.holder_class is HolderClass.ORPHAN and held.scope:
        return "ends it with --scope orphans"
    if held.scope is None:
        return f"never ends it: {held.reason}"
    if held.scope == "own":
        unit = f" (--unit {holder.unit.removesuffix('.service')})" if holder.unit else ""
        return f"ends it{unit}: left over, its unit does not run"
    return f"{_SCOPES[held.scope]}; spared otherwise: {held.reason}"
