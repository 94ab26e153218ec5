"""From a raw line of any origin to the lines that SGLang, systemd and the kernel wrote."""

from __future__ import annotations

import functools
from typing import Iterator, List, NamedTuple, Optional

from deployer.agent.log import bars
from deployer.agent.log.bars import Bar
from deployer.agent.log.journal import Entry, Json, docker, short, utc
from deployer.protocol import patterns

# utils/common.py configure_logger: "[%(asctime)s%(prefix)s] %(message)s", milliseconds with SGLANG_LOG_MS (0.5.6+);
# the prefix names the rank by each parallel dimension above 1.
_STAMP = patterns.compile(
    r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)([.,]\d{1,6})?((?: [A-Z][A-Z_]{0,9}\d{1,5}){0,8})\] ?"
)
_OTHER_STAMP = patterns.compile(r"^\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)([.,]\d{1,6})?\]?[ :,-]*")
_ANSI = patterns.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What torch puts before the lines of a rank: its exception hook, and glog's head.
_TORCH = patterns.compile(r"^(?:\[rank\d+\]:\s?)?(?:\[([EWIF])\d{3,4} [^\]]{1,80}\]\s*|\[([EWIF]) \w+\.cpp:\d+\]\s*)?")
_GROUP = patterns.compile(r"^\s*\| ")
_WHOLE = 1 << 20


class Line(NamedTuple):
    """One line. ``text`` has SGLang's stamp, ``body`` has not. ``stamp``: seconds by it, ``at`` by the journal.

    ``warned``: torch itself calls it a warning. ``own``: the stamp is of SGLang's own format.
    """

    text: str
    body: str
    stamp: Optional[float]
    at: Optional[float]
    rank: str
    source: str
    bar: Optional[Bar]
    unit: str
    invocation: str
    lost: str
    warned: bool
    own: bool


class Splitter:
    """Raw lines in, lines out; remembers what a journal's line leaves open."""

    def __init__(self) -> None:
        self._json = Json()
        self._width = 0
        self.journal = False

    @property
    def indented(self) -> bool:
        """The journal's prefix was seen: further lines of one message are indented by its width."""
        return self._width > 0

    def split(self, raw: str) -> Iterator[Line]:
        """The lines in ``raw``, in order; ``raw`` may end in a line break."""
        raw = raw.rstrip("\n")
        for entry in self._entries(raw):
            if entry.text is None:
                yield Line("", "", None, entry.at, "", entry.source, None, entry.unit, entry.invocation, entry.lost,
                           False, False)
                continue
            yield from self._lines(entry)

    def _entries(self, raw: str) -> List[Entry]:
        head = raw[:1]
        if head in "{\x1ed" and '"' in raw[:400]:
            found = self._json.entries(raw.lstrip("\x1e")[6 if raw.startswith("data: {") else 0:])
            if found is not None:
                self.journal = True
                return found
        if (head and head != "[") or raw[1:2].isspace() or raw[1:2].isdigit():
            entry = short(raw)
            if entry:
                self.journal, self._width = True, entry.width
                return [entry]
        if self._width and head == " " and raw.startswith(" " * self._width):
            return [Entry(raw[self._width:], None, "")]
        if head and head != " ":
            self._width = 0
        return [Entry(docker(raw) if head.isalnum() and ("| " in raw[:60] or raw[10:11] == "T") else raw, None, "")]

    def _lines(self, entry: Entry) -> Iterator[Line]:
        text = entry.text or ""
        if len(text) > _WHOLE:
            text = text[:_WHOLE] + "\r" + text[-65536:]
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        for part in bars.segments(text):
            bar, rest = bars.cut(part)
            if bar:
                yield _line(part[: len(part) - len(rest)] if rest else part, entry, bar)
                if not rest.strip():
                    continue
            elif not rest.strip():
                continue
            elif len(rest) < len(part):
                yield _line(part[: len(part) - len(rest)], entry, None)
            yield _line(rest, entry, None)


def _line(text: str, entry: Entry, bar: Optional[Bar]) -> Line:
    body, stamp, rank, warned, own = text, None, "", False, False
    if bar is None:
        match = _STAMP.match(text)
        if match:
            body, stamp, rank, own = text[match.end():], seconds(match[1], match[2]), match[3].strip(), True
        elif text[:1] == "[" or text[:4].isdigit():
            other = _OTHER_STAMP.match(text)
            if other:
                body, stamp = text[other.end():], seconds(other[1], other[2])
        if body[:1] in "[ ":
            torch = _TORCH.match(body)
            if torch and torch.end():
                body, warned = body[torch.end():], (torch[1] or torch[2]) in ("W", "I")
            if "| " in body[:12]:
                body = _GROUP.sub("", body)
    return Line(text, body, stamp, entry.at, rank, entry.source, bar, entry.unit, entry.invocation, "", warned, own)


def seconds(stamp: str, fraction: Optional[str] = None) -> Optional[float]:
    """``YYYY-mm-dd HH:MM:SS`` as seconds; only differences mean anything, since the zone is not known."""
    whole = _seconds(stamp.replace("T", " "))
    return None if whole is None else whole + (float("." + fraction[1:]) if fraction else 0.0)


@functools.lru_cache(maxsize=1024)
def _seconds(stamp: str) -> Optional[float]:
    try:
        return utc(stamp)
    except ValueError:
        return None
