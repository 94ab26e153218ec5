"""The one door to the terminal: words to stderr, results to stdout, plain without a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deployer.cli.source import marked
from deployer.protocol.codec import to_plain
from deployer.protocol.finding import Finding, Level, in_order

_COLOURS = {Level.ERROR: "31;1", Level.WARNING: "33;1", Level.NOTE: "36;1"}


def coloured(stream: Any = None) -> bool:
    """Whether ``stream`` (stderr) takes colour: a terminal, and NO_COLOR not set."""
    stream = stream or sys.stderr
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, code: str, stream: Any = None) -> str:
    """``text`` in an SGR colour where the stream takes it."""
    return f"\x1b[{code}m{text}\x1b[0m" if coloured(stream) else text


def say(text: str = "") -> None:
    """Words for people: stderr."""
    print(text, file=sys.stderr, flush=True)


def paragraph(text: str, indent: int, word: str = "", colour: str = "0") -> None:
    """Words for people, folded between words where stderr is a terminal; ``word`` of it is painted.

    Not for commands: one that was folded cannot be copied.
    """
    lines = [text]
    if sys.stderr.isatty():
        import shutil
        import textwrap

        width = min(max(shutil.get_terminal_size((120, 24)).columns, 40), 140)
        lines = textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False,
                              break_long_words=False) or [text]
    for number, line in enumerate(lines):
        say(line.replace(word, paint(word, colour), 1) if word and not number else line)


def result(text: str) -> None:
    """The result: stdout."""
    print(text, flush=True)


def result_json(value: Any, *, stream: bool = False) -> None:
    """A JSON result on stdout: one line when part of a stream, indented otherwise."""
    plain = to_plain(value)
    print(json.dumps(plain, separators=(",", ":")) if stream else json.dumps(plain, indent=2), flush=True)


def show_findings(findings: Sequence[Finding]) -> None:
    """Findings as a good compiler prints them: place, level, what is wrong, the source line marked, what to write.

    In the order of their places.
    """
    for finding in in_order(findings):
        for line in finding_lines(finding):
            say(line)


def finding_lines(finding: Finding) -> list[str]:
    """The lines of one finding, coloured where stderr takes it."""
    place = f"{_relative(finding.where.file)}" if finding.where else ""
    if finding.where and finding.where.line:
        place += f":{finding.where.line}:{finding.where.column or 1}"
    level = paint(finding.level.value, _COLOURS[finding.level])
    lines = [f"{place + ': ' if place else ''}{level}: {finding.message} [{finding.code}]"]
    source, *mark = marked(finding) or [""]
    lines += [source] if source else []
    lines += [re.sub(r"\^+", lambda found: paint(found[0], "31;1"), line) for line in mark]
    if finding.hint:
        lines.append(f"    {paint('help', '32;1')}: {finding.hint}")
    return lines


def _relative(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):
        return file


def finding_json(finding: Finding) -> dict[str, Any]:
    """The shape of DESIGN section 6: code, level, message, file, line, column, hint."""
    where = finding.where
    return {
        "code": finding.code,
        "level": finding.level.value,
        "message": finding.message,
        "file": where.file if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "hint": finding.hint,
    }


def live() -> bool:
    """Whether a view that moves makes sense: stderr is a terminal that understands it."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
