"""The hosts of one run: booted on demand, several side by side, used again by test after test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.hosts.bed import machine, slot
from tests.hosts.bed.container import Container, Hypervisor
from tests.hosts.bed.furnish import lend
from tests.hosts.bed.host import Host
from tests.hosts.bed.image import image
from tests.hosts.bed.keys import Keys


class Pool:
    """``take`` lends pristine hosts, ``give_back`` resets them; ``close`` leaves nothing behind."""

    def __init__(self) -> None:
        machine.enable()
        self._image = image()
        self._slot = slot.take()
        lend(self._slot.folder, self._image)
        self.keys = Keys(self._slot.folder / "ssh")
        self._hosts: list[Host] = []
        self._free: list[Host] = []
        self._last = 0

    @property
    def folder(self) -> Path:
        """A folder of the run's own, gone with it."""
        return self._slot.folder

    def take(self, count: int = 1, options: Sequence[str] = ()) -> list[Host]:
        """``count`` hosts, up and as new. ``options`` are nspawn's, for a special host that is not used again."""
        hosts = [] if options else [self._free.pop() for _ in range(min(count, len(self._free)))]
        new = [Host(self._slot, self._number(), self._image, self.keys, options) for _ in range(count - len(hosts))]
        for host in new:
            self._begin(host)
        for host in new:
            host.finish_boot()
            host.remember()
        return hosts + new

    def take_hypervisor(self) -> Hypervisor:
        """A host that runs a container, both up; not used again after ``give_back``."""
        container = Container(self._slot, self._number(), self._image, self.keys)
        self.keys.add(container.name, container.address, container.number)
        host = Hypervisor(self._slot, self._number(), container)
        self._begin(host)
        host.finish_boot()
        return host

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

    def _number(self) -> int:
        """A number that no host of this run has, or had: a name is never used for two machines."""
        self._last += 1
        return self._last

    def _begin(self, host: Host) -> None:
        self.keys.add(host.name, host.address, host.number)
        self._hosts.append(host)
        host.start_boot()
