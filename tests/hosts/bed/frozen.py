"""Processes that cannot be ended, as one that waits for a hung driver: in uninterruptible sleep, deaf even to SIGKILL.

The freezer of control groups v1 makes such a process; where the kernel has only v2, whose frozen processes do die, this
cannot be shown and ``Unable`` is raised.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hosts.bed import cgroups
from tests.hosts.bed.machine import Unable

if TYPE_CHECKING:
    from tests.hosts.bed.host import Host

FREEZER = Path("/sys/fs/cgroup/freezer")


@contextmanager
def frozen(host: Host, pid: int) -> Iterator[None]:
    """The process ``pid``, as numbered inside the host, is in state D and cannot be ended while the block lasts."""
    group = _freeze(host, pid)
    try:
        yield
    finally:
        thaw(group)


@contextmanager
def freezing(host: Host, folder: str) -> Iterator[None]:
    """Freezes every process whose number appears as a file's name in ``folder`` of the host while the block lasts."""
    groups: list[Path] = []
    over = threading.Event()
    if not FREEZER.is_dir():
        raise Unable("no freezer of control groups v1")

    def watch() -> None:
        place = Path(f"/proc/{host.machine.leader}/root") / folder.lstrip("/")
        seen: set[str] = set()
        while not over.wait(0.02):
            with contextlib.suppress(OSError):
                for name in {entry.name for entry in place.iterdir()} - seen:
                    seen.add(name)
                    groups.append(_freeze(host, int(name)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for group in groups:
            thaw(group)


def thaw(group: Path) -> None:
    """Lets the group's processes go on, or end as they were told meanwhile, and removes the group."""
    (group / "freezer.state").write_text("THAWED")
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (FREEZER / "cgroup.procs").write_text(pid)
    with contextlib.suppress(OSError):
        group.rmdir()


def leftovers(slot: str) -> list[Path]:
    """The freezer groups that a run of this slot made."""
    return list(FREEZER.glob(f"{slot}-h*-*"))


def _freeze(host: Host, pid: int) -> Path:
    if not FREEZER.is_dir():
        raise Unable("no freezer of control groups v1")
    group = FREEZER / f"{host.name}-{pid}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(cgroups.number_outside(host.group, pid)))
    (group / "freezer.state").write_text("FROZEN")
    return group
