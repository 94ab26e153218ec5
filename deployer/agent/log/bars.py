"""Progress bars as tqdm draws them, apart from the log lines that share their physical line."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Tuple

from deployer.protocol import patterns

_BAR = patterns.compile(
    r"(?P<name>[^\r\n%|\[\]]{0,160}?)\s*(?P<percent>\d{1,3})%(?: Completed)?\s*\|"
    r"(?:[^|\r\n]{0,200}\|)?\s*(?P<done>\d+)/(?P<total>\d+) \[(?P<elapsed>\d+(?::\d\d){1,2})<(?P<left>[^\],]*)[^\]]*\]"
)
_PROMPT = "[y/N] "


class Bar(NamedTuple):
    """One state of a progress bar. ``elapsed`` in seconds; ``name`` is its description without figures in brackets."""

    name: str
    percent: int
    done: int
    total: int
    elapsed: int


def cut(text: str) -> Tuple[Optional[Bar], str]:
    """The last bar in ``text`` (None: there is none) and what stands behind it.

    SGLang's processes share one stream: a log line of one rank can follow a bar of another without a line break.
    A question that nobody answered (transformers asks "[y/N] ") leaves the line open in the same way.
    """
    bar, end = None, 0
    if "%" in text and "/" in text:
        match = _BAR.match(text)
        while match:
            bar, end = _bar(match), match.end()
            match = _BAR.match(text, end)
        text = text[end:]
    if _PROMPT in text:
        head, rest = text.split(_PROMPT, 1)
        if rest.strip() and "custom code" in head:
            return bar, rest
    return bar, text


def segments(text: str) -> List[str]:
    """``text`` between carriage returns: what a terminal would have shown one after the other."""
    return [part for part in text.split("\r") if part] if "\r" in text else [text]


def _bar(match: "re.Match[str]") -> Bar:
    seconds = 0
    for part in match["elapsed"].split(":"):
        seconds = seconds * 60 + int(part)
    name = re.sub(r"\s*\(.*\)\s*", "", match["name"]).strip(" :")
    return Bar(name, int(match["percent"]), int(match["done"]), int(match["total"]), seconds)
