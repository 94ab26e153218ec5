"""A host inside a host, as a container on Proxmox: the outer one sees its processes, never the reverse."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hosts.bed import cgroups
from tests.hosts.bed.boot import Machine
from tests.hosts.bed.gpu import inventory
from tests.hosts.bed.host import Host
from tests.hosts.bed.slot import Slot

IMAGE = Path("/srv/bed/image")
FOLDER = Path("/srv/bed/container")
NUMBER = 101
"""What the hypervisor calls the container."""

DRIVER = "/run/gpu/proc"
"""Where the simulated driver sees processes outside the container: memory in use is the whole machine's."""


class Inner(Machine):
    """Boots from within another machine, in a control group that is named as LXC names it."""

    outer: Host

    def command(self) -> list[str]:
        self.group = f"{self.outer.root_group}/lxc/{NUMBER}"
        enter = " && ".join(f"echo $$ > {entry}" for entry in cgroups.make(self.group))
        begin = ["/bin/sh", "-euc", f'{enter}; exec "$@"', "boot", "setpriv", "--pdeathsig", "KILL"]
        inside = ["nsenter", f"--target={self.outer.machine.leader}", "--all", "unshare", "--mount"]
        return [*begin, *inside, *self.nspawn(IMAGE, FOLDER)]


class Container(Host):
    """``gpu`` is the hypervisor's: the same devices, the same memory."""

    machine: Inner

    def _make_machine(self, options: list[str]) -> Machine:
        binds = ["--bind-ro=/usr/local/lib/bed", "--bind-ro=/usr/local/lib/standin", f"--bind-ro=/proc:{DRIVER}"]
        return Inner(self.name, self.folder, self.image, self.network, self.group, [*binds, *options])


class Hypervisor(Host):
    """A host with all capabilities that runs one container; ``container`` is a host of its own, up with it."""

    def __init__(self, slot: Slot, number: int, container: Container) -> None:
        options = [
            "--capability=all", f"--bind-ro={container.image}:{IMAGE}", f"--bind={container.folder}:{FOLDER}",
            f"--bind={container.network.path}:{container.network.path}",
        ]
        super().__init__(slot, number, container.image, container.keys, options)
        self.container = container
        container.machine.outer = self
        container.gpu.seed = self.gpu.seed
        gpus = container.folder / "upper" / "etc" / "gpu.json"
        gpus.write_text(json.dumps(inventory(2, seed=self.gpu.seed)))

    def finish_boot(self) -> None:
        super().finish_boot()
        self.container.boot()

    def delete(self) -> None:
        self.container.machine.kill()
        super().delete()
        self.container.network.delete()
