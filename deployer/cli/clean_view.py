"""A clean as seen by people: the preview, each process as it ends, the wait for the memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from deployer.cli import console
from deployer.cli.holder_lines import holder_lines
from deployer.cli.views import WORDS
from deployer.protocol.cleaned import Treatment
from deployer.protocol.codec import from_plain
from deployer.protocol.facts import GpuReading
from deployer.protocol.outcome import Outcome
from deployer.rollout.view import Report


class CleanView:
    """Lines to stderr; on a terminal the wait is one moving line."""

    def __init__(self) -> None:
        self._moving = False

    def tell(self, host: str, event: str, data: dict[str, Any]) -> None:
        if event == "progress":
            self._move(str(data.get("text", "")))
            return
        self._settle()
        if event == "preview" and "here" in data:
            self._preview(host, data)
        elif event == "signal":
            console.say(f"  {data['signal']} to pid {data['pid']}")
        elif event == "ended":
            who = f"pid {data['pid']}" if data["pid"] else f"all in the group of {data.get('unit')}"
            console.say(f"  {who} ended ({data['how']}, {data['seconds']:.1f} s)")
        elif event == "free":
            console.say(f"  the memory is free ({data['seconds']:.1f} s after the last process)")
        elif event == "finding":
            console.say(f"{host}: {data.get('level', 'note')}: {data.get('message', '')}")

    def finish(self, reports: Sequence[Report]) -> None:
        self._settle()
        for report in reports:
            good = report.outcome in (Outcome.DONE, Outcome.NOTHING_TO_DO)
            word = "cleaned" if report.outcome is Outcome.DONE else WORDS[report.outcome]
            word = "dry run" if good and report.data.get("dry_run") else word
            console.paragraph(f"{report.host}: {word}: {report.text}", 2, word, "32;1" if good else "31;1")
            if report.state_now and not good:
                console.paragraph(f"  now:  {report.state_now}", 8)
            if report.next:
                console.say(f"  next: {report.next}")

    def _preview(self, host: str, data: dict[str, Any]) -> None:
        reading = from_plain(GpuReading, data["reading"]) if data.get("reading") else GpuReading()
        for error in data.get("errors", ()):
            console.say(f"{host}: {error}")
        console.say(console.paint(host, "1"))
        here = [from_plain(Treatment, one) for one in data["here"]]
        for line in holder_lines(here, reading):
            console.say(line)
        if not here:
            console.say("  nobody holds a GPU")
        above = [from_plain(Treatment, one) for one in data["above"]]
        if above:
            console.say(console.paint(f"{data['above_host']} (hypervisor)", "1"))
            for line in holder_lines(above, reading):
                console.say(line)
        if data.get("note"):
            console.say(f"  {data['note']}")

    def _move(self, text: str) -> None:
        if console.coloured():
            print(f"\r\x1b[2K  {text} …", end="", file=sys.stderr, flush=True)
            self._moving = True
        else:
            console.say(f"  {text}")

    def _settle(self) -> None:
        if self._moving:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
            self._moving = False
