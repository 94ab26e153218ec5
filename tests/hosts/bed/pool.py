"""The hosts of one run: booted on demand, several side by side, used again by test after test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.hosts.bed import machine, slot
from tests.hosts.bed.host import Host
from tests.hosts.bed.image import image
from tests.hosts.bed.keys import Keys


class Pool:
    """``take`` lends pristine hosts, ``give_back`` resets them; ``close`` leaves nothing behind."""

    def __init__(self) -> None:
        machine.enable()
        self._image = image()
        self._slot = slot.take()
        self.keys = Keys(self._slot.folder / "ssh")
        self._hosts: list[Host] = []
        self._free: list[Host] = []

    @property
    def folder(self) -> Path:
        """A folder of the run's own, gone with it."""
        return self._slot.folder

    def take(self, count: int = 1, options: Sequence[str] = ()) -> list[Host]:
        """``count`` hosts, up and as new. ``options`` are nspawn's, for a special host that is not used again."""
        hosts: list[Host] = []
        if not options:
            hosts = [self._free.pop() for _ in range(min(count, len(self._free)))]
        new = [self._make(options) for _ in range(count - len(hosts))]
        for host in new:
            host.start_boot()
        for host in new:
            host.finish_boot()
            host.remember()
        return hosts + new

    def give_back(self, host: Host) -> None:
        """Makes the host as new for the next test; one that cannot be is replaced from its disk up."""
        if host.special:
            self._hosts.remove(host)
            host.delete()
            return
        if not host.reset():
            host.power_cut()
            host.wipe()
            host.boot()
            host.remember()
        self._free.append(host)

    def close(self) -> None:
        for host in self._hosts:
            host.machine.kill()
        self._slot.close()

    def _make(self, options: Sequence[str]) -> Host:
        taken = {host.number for host in self._hosts}
        number = next(number for number in range(1, 250) if number not in taken)
        host = Host(self._slot, number, self._image, self.keys, options)
        self.keys.add(host.name, host.address, number)
        self._hosts.append(host)
        return host
