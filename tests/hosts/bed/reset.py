"""Bringing a running host back to what it was just after its boot: disk, units, processes, mounts, journal."""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hosts.bed import cgroups
from tests.hosts.bed.disk import Disk

if TYPE_CHECKING:
    from tests.hosts.bed.host import Host

VOLATILE = ("run", "tmp", "dev/shm", "var/tmp", "run/systemd/system", "run/systemd/transient",
            "run/systemd/system.control")
"""Folders in memory; what was not there before is removed."""

KEPT = {"run/user", "run/log", "run/systemd", "run/lock", "run/sudo"}
LIMIT = 5.0
"""Seconds after which a host is given up and made anew."""


class Baseline:
    """What a host was when it had just booted."""

    def __init__(self, host: Host, image: Path, folder: Path) -> None:
        self._host = host
        self._folder = folder
        self._disk = Disk(image, folder / "upper", folder / "baseline")
        self._disk.remember()
        self._pids = set(self._processes())
        self._mounts = self._mounted()
        self._volatile = {path: self._names(path) for path in VOLATILE}
        self._units = self._listed()

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self._host.machine.leader}/root")

    def restore(self) -> bool:
        """True: the host is as new. False: something of it is lost, and only a new boot helps."""
        if not self._host.machine.running or not self._pids <= set(self._processes()):
            return False
        self._host.network.restore()
        self._unmount()
        stray = set(self._processes()) - self._pids
        changed = self._disk.restore(self.root) + self._empty_volatile()
        if any("systemd" in path for path in changed) or stray:
            self._host.run(["systemctl", "daemon-reload"])
        self._end_strays()
        self._stop_units()
        self._empty_journal()
        self._disk.restore(self.root)
        self._empty_volatile()
        if any(path == "etc/gpu.json" for path in changed):
            self._host.run(["/usr/local/lib/bed/nodes"])
        return set(self._processes()) == self._pids

    def _processes(self) -> list[int]:
        return cgroups.members(self._host.group)

    def _end_strays(self) -> None:
        deadline = time.monotonic() + LIMIT
        while strays := set(self._processes()) - self._pids:
            for pid in strays:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def _listed(self) -> set[str]:
        words = ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", "--full"]
        return {line.split()[0] for line in self._host.run(words).out.splitlines() if line.strip()}

    def _stop_units(self) -> None:
        extra = [unit for unit in self._listed() - self._units if not unit.endswith((".slice", ".device"))]
        if extra:
            quoted = " ".join(shlex.quote(unit) for unit in sorted(extra))
            self._host.run(f"systemctl stop -- {quoted} 2>/dev/null; systemctl reset-failed; true", timeout=LIMIT * 4)

    def _mounted(self) -> list[str]:
        text = Path(f"/proc/{self._host.machine.leader}/mountinfo").read_text()
        return [line.split(" ")[4] for line in text.splitlines()]

    def _unmount(self) -> None:
        extra = self._mounted()
        for place in self._mounts:
            if place in extra:
                extra.remove(place)
        for place in reversed(extra):
            if not place.startswith(("/run/user", "/run/credentials")):
                self._host.run(["umount", "--lazy", place], check=False)

    def _names(self, path: str) -> set[str]:
        folder = self.root / path
        return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()

    def _empty_volatile(self) -> list[str]:
        removed = []
        for path, names in self._volatile.items():
            removed += [f"{path}/{name}" for name in self._names(path) - names if f"{path}/{name}" not in KEPT]
        if removed:
            self._host.run(["rm", "-rf", "--", *(f"/{path}" for path in removed)])
        return removed

    def _empty_journal(self) -> None:
        self._host.run("journalctl --rotate --quiet; find /var/log/journal -name '*@*' -delete")
