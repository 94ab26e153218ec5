"""Holders as lines for people, those alike together: who, how much, what proves it, what clean does."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deployer.cli import console
from deployer.protocol.cleaned import Act, Treatment
from deployer.protocol.facts import GpuReading
from deployer.protocol.holder import Holder, HolderClass
from deployer.rollout.gpus import whose

COLOURS = {HolderClass.OWN: "32;1", HolderClass.ORPHAN: "33;1", HolderClass.FOREIGN: "36;1", HolderClass.SYSTEM: "2",
           HolderClass.HIDDEN: "31;1"}
SHOWN = 12
"""Processes shown of one group; of more, the rest is counted."""


def holder_lines(treatments: Sequence[Treatment], reading: GpuReading, containers: Mapping[str, str] | None = None,
                 words: Mapping[int, str] | None = None, stream: Any = None) -> list[str]:
    """``words``: what clean does, by place in ``treatments``, where that is more than the treatment's own act."""
    groups: dict[tuple[str, str, str, str], list[Treatment]] = {}
    for index, one in enumerate(treatments):
        said = (words or {}).get(index) or act_words(one)
        proof = one.holder.proof if one.holder.proof not in said else ""
        key = one.holder.holder_class.value, whose(one.holder, containers), said, _general(proof)
        groups.setdefault(key, []).append(one)
    lines: list[str] = []
    for (kind, who, said, proof), members in groups.items():
        lines += _group(kind, who, said, proof, [one.holder for one in members], reading, stream)
    return lines


def act_words(treatment: Treatment) -> str:
    """What is done with one holder, and why."""
    if treatment.act is Act.END:
        return f"ends it: {treatment.reason}"
    if treatment.act is Act.STOP_UNIT:
        return f"stops {treatment.target}: {treatment.reason}"
    if treatment.act is Act.STOP_CONTAINER:
        return f"stops {treatment.target} as a container: {treatment.reason}"
    return f"spares it: {treatment.reason}"


def _group(kind: str, who: str, said: str, proof: str, holders: list[Holder], reading: GpuReading,
           stream: Any) -> list[str]:
    width = _width(stream or sys.stderr)
    total = _total(holders)
    begun = min((holder.since for holder in holders if holder.since), default=None)
    head = [f"{len(holders)} processes" if len(holders) > 1 else "", total, f"since {ago(begun)}" if begun else ""]
    colour = COLOURS[HolderClass(kind)]
    label = console.paint(f"{kind:<8}", colour, stream)
    lines = [f"  {label} {console.paint(who, '1', stream)}" + "".join(f"  {part}" for part in head if part)]
    for holder in holders[:SHOWN]:
        lines.append(_fit(f"    {_row(holder, reading)}", width))
    if len(holders) > SHOWN:
        lines.append(f"    … and {len(holders) - SHOWN} more")
    if proof and kind != "hidden":
        lines += _wrapped("    proof  ", proof, width)
    lines += _wrapped("    clean  ", said, width)
    return lines


def _row(holder: Holder, reading: GpuReading) -> str:
    pid = f"pid {holder.pid}" if holder.pid else "no pid"
    if len(holder.ns_pids) > 1:
        pid += f" ({holder.ns_pids[-1]} inside)"
    state = {"D": " [D: waits in the kernel]", "Z": " [zombie]"}.get(holder.state, "")
    held = memory(holder, reading) or ", ".join(device.rpartition("/")[2] for device in holder.devices)
    parts = [pid, held, holder.user, " ".join(holder.argv)]
    return "  ".join(part for part in parts if part) + state


def memory(holder: Holder, reading: GpuReading) -> str:
    """Memory by GPU index: ``GPU 0 71,178 MiB``; several alike together."""
    indices = {gpu.uuid: gpu.index for gpu in reading.gpus}
    amounts: dict[int | None, list[str]] = {}
    for uuid, mib in holder.memory.items():
        amounts.setdefault(mib, []).append(str(indices.get(uuid, "?")))
    return ", ".join(f"GPU {','.join(places)}" + (f" {mib:,} MiB" if mib is not None else " open")
                     for mib, places in amounts.items())


def ago(since: float) -> str:
    """``2 h 5 min``."""
    seconds = max(0, int(time.time() - since))
    days, hours, minutes = seconds // 86400, seconds % 86400 // 3600, seconds % 3600 // 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds} s"


def _total(holders: Iterable[Holder]) -> str:
    known = [mib for holder in holders for mib in holder.memory.values() if mib is not None]
    return f"{sum(known):,} MiB" if known else ""


def _general(proof: str) -> str:
    """A proof without the pid it names, so that alike holders come together."""
    return "descends from a process of the unit" if proof.startswith("descends from") else proof


def _width(stream: Any) -> int:
    """Lines in a file or a pipe are whole."""
    if not stream.isatty():
        return 10_000
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 140)


def _fit(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _wrapped(head: str, text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)
