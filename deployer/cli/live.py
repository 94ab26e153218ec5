"""The live view: a checklist a host, what the current step waits for, memory bars, the last log line, the estimate."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from deployer.cli import console
from deployer.cli.board import Board, Row
from deployer.cli.views import summary
from deployer.protocol.codec import from_plain
from deployer.protocol.finding import Finding
from deployer.rollout.view import Report

UNICODE = {"done": "✓", "failed": "✗", "skipped": "–", "begin": "›", "full": "█", "free": "░"}
ASCII = {"done": "+", "failed": "x", "skipped": "-", "begin": ">", "full": "#", "free": "."}
STYLES = {"done": "green", "failed": "bold red", "skipped": "dim", "begin": "cyan"}
LIKE = {"passed": "done", "waiting": "begin"}
"""Gates' states, and the steps' that look the same."""

MIN_WIDTH = 46
"""Columns below which hosts stand under one another instead of side by side."""
PANEL_HEIGHT = 16
"""Lines that a host's panel may need; where they do not all fit, each host gets one line."""


class LiveView:
    """Draws to stderr, several times a second; findings are printed above what moves. Call ``close`` at the end."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._boards = {host: Board(host) for host in hosts}
        self._lock = threading.RLock()
        self._console = Console(stderr=True, highlight=False, no_color=not console.coloured())
        self._marks = UNICODE if _unicode() else ASCII
        self._closed = self._standing = False
        self._live = self._moving()
        self._live.start()

    def _moving(self) -> Live:
        return Live(get_renderable=self._draw, console=self._console, refresh_per_second=6, transient=True,
                    redirect_stdout=False, redirect_stderr=False, vertical_overflow="crop")

    def tell(self, host: str, event: str, data: dict[str, Any]) -> None:
        with self._lock:
            if event == "finding":
                self._finding(host, data)
            elif host in self._boards:
                self._boards[host].take(event, data)

    def close(self) -> None:
        """Takes the moving picture away and leaves the last one standing."""
        with self._lock:
            for board in self._boards.values():
                board.close()
            self._closed = True
        self._live.stop()
        self._standing = True
        self._console.print(self._draw())

    def finish(self, reports: Sequence[Report]) -> None:
        for report in reports:
            summary(report)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While the operator is asked something."""
        self._live.stop()
        try:
            yield
        finally:
            if not self._closed:
                # A new one: it would begin by wiping out as many lines as the old one had, the question's among them.
                self._live = self._moving()
                self._live.start(refresh=True)

    def _finding(self, host: str, data: dict[str, Any]) -> None:
        several = f"{host}: " if len(self._boards) > 1 else ""
        if "where" not in data:
            self._console.print(f"{several}{data.get('level', 'note')}: {data.get('message', '')}", markup=False)
            return
        finding = from_plain(Finding, {key: value for key, value in data.items() if key != "unit"})
        for line in console.finding_lines(finding):
            self._console.print(Text.from_ansi(several + line))
            several = ""

    def _draw(self) -> RenderableType:
        with self._lock:
            boards = list(self._boards.values())
            width, height = self._console.size
            if len(boards) == 1:
                return Group(*self._host(boards[0], width, self._room(height - 1)))
            across = max(1, min(len(boards), width // MIN_WIDTH))
            down = -(-len(boards) // across)
            if down * PANEL_HEIGHT > height:
                names = min(20, max(len(board.host) for board in boards))
                return Group(*(self._brief(board, width, names) for board in boards))
            each, room = width // across, self._room((height - 1) // down - 2)
            shape = box.ROUNDED if self._marks is UNICODE else box.ASCII
            panels = [Panel(Group(*self._host(board, each - 4, room)), shape, title=Text(board.host), width=each,
                            title_align="left") for board in boards]
            return Columns(panels, width=each, padding=0, expand=False)

    def _room(self, lines: int) -> int:
        """The picture that is left standing at the end is whole: it scrolls."""
        return 1000 if self._standing else lines

    def _brief(self, board: Board, width: int, names: int) -> Text:
        """One host in one line, where there is no room for more."""
        row = board.now()
        line = Text(f"{board.host[:names]:<{names}} ")
        if row is None:
            line.append(_before(board), "dim")
        else:
            line.append_text(self._row(row, width - names - 1, ""))
        line.truncate(width, overflow="ellipsis")
        return line

    def _host(self, board: Board, width: int, room: int) -> list[RenderableType]:
        """At most ``room`` lines where that can be: what has passed makes way for what is waited for."""
        around: list[RenderableType] = [_cut(board.title, width, "bold")] if board.title else []
        below: list[RenderableType] = []
        if not board.ended:
            if board.estimate:
                below.append(_cut(f"  {board.estimate}", width, "cyan"))
            below += [self._bar(gpu, width) for gpu in board.memory if gpu.get("total")]
            if board.line:
                below.append(_cut(f"  {board.line}", width, "dim"))
        below += [_cut(note, width, "yellow") for note in board.notes]
        rows = [*around, *(self._row(row, width, indent) for indent, row in board.shown(room - len(around + below)))]
        return [*rows, *below] or [Text(_before(board), style="dim")]

    def _row(self, row: Row, width: int, indent: str) -> Text:
        seconds = row.seconds if row.seconds is not None else time.monotonic() - row.begun
        time_text = f"{seconds:6.1f} s" if seconds >= 0.05 or row.running else " " * 8
        name, name_width = row.name, 21 - len(indent)
        if width < 60:
            name, name_width = name.replace("roll back: ", "back: "), 16 - len(indent)
        line, state = Text(indent), LIKE.get(row.state, row.state)
        line.append(self._marks.get(state, " "), STYLES.get(state, ""))
        line.append(f" {name[:name_width]:<{name_width}} ", "bold" if row.running else "")
        line.append(time_text, "dim")
        if row.text:
            line.append("  " + row.text, "red" if row.state == "failed" else "dim" if not row.running else "")
        line.truncate(width, overflow="ellipsis")
        return line

    def _bar(self, gpu: dict[str, Any], width: int) -> Text:
        total, used = float(gpu["total"]), float(gpu.get("used") or 0.0)
        text = f" {used / 1024:6.1f} / {total / 1024:.1f} GiB"
        length = max(8, min(40, width - len(text) - 12))
        filled = min(length, round(length * used / total)) if total else 0
        bar = Text(f"  GPU {gpu.get('gpu')!s:>2} ")
        bar.append(self._marks["full"] * filled, "green" if used / total < 0.97 else "yellow")
        bar.append(self._marks["free"] * (length - filled), "dim")
        bar.append(text if gpu.get("used") is not None else " memory not known", "dim")
        return bar


def _before(board: Board) -> str:
    """Of a host that nothing was done with yet: with several, the first to be changed goes alone."""
    return "not begun" if board.ended else "waits for its turn"


def _cut(text: str, width: int, style: str) -> Text:
    line = Text(" ".join(text.split("\n")), style=style)
    line.truncate(max(10, width), overflow="ellipsis")
    return line


def _unicode() -> bool:
    encoding = (getattr(sys.stderr, "encoding", "") or "").lower()
    return "utf" in encoding and os.environ.get("TERM") != "linux"
