"""``deployer explain``: a start-up log from a file or a pipe, read and told to people or as JSON."""

from __future__ import annotations

import json
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from deployer.agent.log.explanation import FAILED, FOREIGN, READY, STARTING, Explanation
from deployer.agent.log.read import LogReader
from deployer.errors import UsageError
from deployer.protocol.codec import to_plain
from deployer.protocol.records import dataclass, replace
from deployer.protocol.redact import Redactor

_LONGEST = 8 << 20
_SHORT = 4 << 20
# Enough starts from the end: by their arguments, and by their ends where none came as far as its arguments.
_ARGUMENTS = (b" server_args=", 6)
_ENDS = (b": Main process exited, code=", 64)
_WHAT_TO_GIVE = (
    "Give the start-up log of the server: `journalctl -u UNIT -b -a | deployer explain -`, or the file to which SGLang "
    "wrote."
)
_FIRST = (
    "outcome", "cause", "evidence", "sglang_version", "phases", "max_total_num_tokens", "kv_cache_dtype", "findings",
        "remedy",
)
_PHASES = {
    "init": "Python, arguments, processes", "distributed": "ranks find each other", "weights": "weights are read",
    "kv-cache": "KV pool is laid out", "cuda-graph": "CUDA graphs are captured", "warmup": "first request",
        "ready": "in all",
}


@dataclass(frozen=True)
class Told:
    """An explanation with the redactor that knows the secrets the log itself shows.

    ``skipped``: bytes at the head of a long log that were not read, since many starts follow.
    """

    explanation: Explanation
    redactor: Redactor
    skipped: int = 0


def explain_file(name: str, state_file: str | None = None) -> Told:
    """Reads the log ``name`` ("-": standard input); raises ``UsageError`` where a file cannot be read."""
    state = read_state(state_file) if state_file else None
    reader = LogReader()
    try:
        if name == "-":
            skipped = _read(reader, sys.stdin.buffer.read())
        else:
            with Path(name).open("rb") as stream:
                skipped = _read(reader, _mapped(stream))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}", hint="deployer explain -h") from None
    found = reader.explanation(state)
    if found.outcome == STARTING and state is None and not reader.heard:
        found = replace(found, outcome=FOREIGN, evidence="", remedy=_WHAT_TO_GIVE)
    return Told(found, Redactor(reader.secrets), skipped)


def _mapped(stream: IO[bytes]) -> bytes | mmap.mmap:
    """The file without a copy in memory; what cannot be mapped (a pipe, an empty file) is read."""
    try:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (ValueError, OSError):
        return stream.read()


def _read(reader: LogReader, data: bytes | mmap.mmap) -> int:
    """Feeds ``data`` from where it matters on; gives the number of bytes before that.

    A line ends at a line feed only: carriage returns belong to progress bars.
    """
    begin = _where_to_begin(data)
    at, size = begin, len(data)
    while at < size:
        end = data.find(b"\n", at, at + _LONGEST)
        end = min(at + _LONGEST, size) if end < 0 else end + 1
        reader.feed(data[at:end].decode("utf-8", "replace"))
        at = end
    return begin


def _where_to_begin(data: bytes | mmap.mmap) -> int:
    """The start of the line from which on the last few starts of the server are in ``data``: 0 in a short log.

    Only the last start counts, and the one before where they are alike. A server that crashes in a loop for days
    leaves thousands of them.
    """
    if len(data) <= _SHORT:
        return 0
    arguments = _nth_last(data, *_ARGUMENTS)
    if arguments is None and data.find(_ARGUMENTS[0]) >= 0:
        return 0
    ends = _nth_last(data, *_ENDS)
    place = min(at for at in (arguments, ends, len(data)) if at is not None)
    return data.rfind(b"\n", 0, place) + 1 if place < len(data) else 0


def _nth_last(data: bytes | mmap.mmap, mark: bytes, number: int) -> int | None:
    at = len(data)
    for _ in range(number):
        at = data.rfind(mark, 0, at)
        if at < 0:
            return None
    return at


def read_state(name: str) -> dict[str, Any]:
    """Properties of ``systemctl show``, as a JSON object or as it prints them (``Name=value`` lines)."""
    try:
        text = Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
    try:
        data = json.loads(text)
    except ValueError:
        data = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    if not isinstance(data, dict) or not data:
        raise UsageError(
            f"{name} holds no properties of a unit",
            hint="systemctl show UNIT -p ActiveState,Result,ExecMainCode,ExecMainStatus,NRestarts > FILE",
        )
    return data


def as_json(told: Told) -> dict[str, Any]:
    """The shape of DESIGN section 6, then what else is known. Redacted."""
    plain = told.redactor.plain(to_plain(told.explanation))
    assert isinstance(plain, dict)
    rest = {key: value for key, value in plain.items() if key not in _FIRST}
    return {**{key: plain[key] for key in _FIRST}, **rest, "skipped_bytes": told.skipped}


def for_people(told: Told) -> Iterator[tuple[str, str]]:
    """Lines with a style each ("bad", "good", "head", "warn", ""): the cause first, then evidence, remedy, the rest."""
    found = told.explanation
    mask = told.redactor.text
    style = {READY: "good", FAILED: "bad"}.get(found.outcome, "warn")
    yield style, _headline(found)
    if found.evidence:
        yield "", f"  evidence  {_cut(mask(found.evidence))}"
    if found.remedy:
        yield from _block("  next      " if found.outcome == FOREIGN else "  remedy    ", mask(found.remedy))
    for note in found.notes:
        yield "warn", f"  finding   {note.code}"
        if note.line:
            yield "", f"            {_cut(mask(note.line))}"
        if note.advice not in found.remedy:
            yield from _block("            ", note.advice)
    for gap in found.gaps:
        yield "warn", f"  gap       {_cut(mask(gap))}"
    if found.phases:
        yield "", ""
        yield "head", "timeline"
        yield from _timeline(found)
    rows = list(_capacity(found))
    if rows:
        yield "", ""
        yield "head", "capacity"
        yield from (("", row) for row in rows)
    if found.attempts or told.skipped:
        yield "", ""
        yield "head", "earlier starts in this log"
        if told.skipped:
            yield "", f"  (many: the first {told.skipped / 1e6:.0f} MB were passed over)"
        for attempt in found.attempts:
            cause = f" ({attempt['cause']})" if attempt["cause"] else ""
            yield "", f"  {attempt['count']} x {attempt['outcome']}{cause}"
    if found.outcome != READY and found.last_lines:
        yield "", ""
        yield "head", "last lines"
        yield from (("", f"  {_cut(mask(line))}") for line in found.last_lines[-6:])


def _headline(found: Explanation) -> str:
    unit = f"{found.unit}: " if found.unit else ""
    if found.outcome == FAILED:
        if found.cause == "unknown":
            return f"{unit}failed, cause unknown"
        return f"{unit}failed: {found.meaning} [{found.cause}]"
    if found.outcome == FOREIGN:
        what = "no line of it comes from SGLang or systemd" if found.last_lines else "there is no line in it"
        return f"not a start-up log: {what}"
    if found.outcome == READY:
        seconds = next((phase.seconds for phase in found.phases if phase.name == "ready"), None)
        return f"{unit}ready" + (f" after {_seconds(seconds)}" if seconds is not None else "")
    if found.outcome == STARTING:
        where = f" ({found.phase}{f', {found.detail}' if found.detail else ''})" if found.phase else ""
        percent = f", {found.percent} %" if found.percent is not None else ""
        return f"{unit}still starting{where}{percent}"
    return f"{unit}was ready, then stopped"


def _timeline(found: Explanation) -> Iterator[tuple[str, str]]:
    total = max((phase.seconds or 0.0 for phase in found.phases if phase.name != "ready"), default=0.0)
    for phase in found.phases:
        took = "?" if found.outcome == READY else "not finished"
        if phase.seconds is not None:
            took = _seconds(phase.seconds)
        width = round(24 * (phase.seconds or 0.0) / total) if total and phase.name != "ready" else 0
        yield "", f"  {phase.name:<12}{took:>13}  {'#' * width:<24}  {_PHASES.get(phase.name, '')}".rstrip()
    if len(found.loads) > 1:
        yield "", "  weights: " + ", ".join(
            f"{'model' if not index else 'draft model'} {_seconds(seconds) if seconds is not None else 'not finished'}"
            for index, seconds in enumerate(found.loads))
    if len(found.graphs) > 1:
        yield "", "  graphs:  " + ", ".join(
            f"{graph.name} {_seconds(graph.seconds) if graph.seconds is not None else 'not finished'}"
            for graph in found.graphs)


def _capacity(found: Explanation) -> Iterator[str]:
    capacity = found.capacity
    if found.max_total_num_tokens is not None:
        yield f"  KV cache tokens      {found.max_total_num_tokens:,}"
    if found.kv_cache_dtype:
        yield f"  KV cache dtype       {found.kv_cache_dtype}"
    for name, words, unit in (
        ("max_running_requests", "running requests", ""), ("context_len", "context length", ""),
        ("weights_gb", "weights per GPU", " GB"), ("available_before_weights_gb", "free before weights", " GB"),
        ("available_mem_gb", "free when ready", " GB"), ("host_pool_gb", "host pool per rank", " GB"),
        ("mem_fraction_static", "memory fraction", ""),
    ):
        value = capacity.get(name)
        if value is not None:
            shown = f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if unit else f"{value:g}"
            yield f"  {words:<21}{shown}{unit}"


def _seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def _cut(text: str, width: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def _block(head: str, text: str, width: int = 110) -> Iterator[tuple[str, str]]:
    line = head
    for word in text.split():
        if len(line) + len(word) + 1 > width and line.strip() and line != head:
            yield "", line
            line = " " * len(head)
        line += word if line.endswith("  ") or line == " " * len(head) else f" {word}"
    yield "", line
