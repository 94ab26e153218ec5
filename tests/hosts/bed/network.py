"""A host's network: a namespace of its own, one cable to the run's bridge, no way anywhere else."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.hosts.bed.machine import Unable
from tests.hosts.bed.slot import Slot, ip

PORT_STATES = {"disabled": "0", "forwarding": "3"}


class Network:
    """The cable between the test and one host: ``cut`` loses packets silently, as a dead line does."""

    def __init__(self, slot: Slot, number: int) -> None:
        self.address = slot.address(number)
        self.space = f"{slot.name}-{number}"
        self.path = Path("/run/netns") / self.space
        self._cable = f"{slot.name}h{number}"
        subprocess.run(["ip", "netns", "add", self.space], check=True, capture_output=True)
        hardware = f"02:db:00:{slot.number:02x}:00:{number:02x}"
        ip(f"link add {self._cable} type veth peer name eth0 address {hardware} netns {self.space}",
           f"link set {self._cable} master {slot.name}", f"link set {self._cable} up",
           f"neigh replace {self.address} lladdr {hardware} dev {slot.name} nud permanent")
        # Fixed neighbours: a cut line then loses packets silently, as one beyond a router does, with no "no route".
        inside = (f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up",
                  f"neigh replace {slot.gateway} lladdr {slot.hardware} dev eth0 nud permanent")
        subprocess.run(["ip", "-netns", self.space, "-batch", "-"], input="\n".join(inside), text=True, check=True)

    def cut(self) -> None:
        """From now on every packet to and from the host is lost; neither side is told."""
        self._port("disabled")

    def restore(self) -> None:
        ip(f"link set {self._cable} up")
        self._port("forwarding")

    def unplug(self) -> None:
        """The link goes down: the host sees it, until ``restore``."""
        ip(f"link set {self._cable} down")

    def _port(self, state: str) -> None:
        """A bridge port that is not forwarding drops what it gets, with its link still up.

        The kernel refuses while the carrier of a link that was just set up is not there yet.
        """
        words = ["bridge", "link", "set", "dev", self._cable, "state", PORT_STATES[state]]
        until = time.monotonic() + 5.0
        while True:
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode == 0:
                return
            if time.monotonic() > until:
                raise Unable(f"{' '.join(words)}: {done.stderr.strip()}")
            time.sleep(0.005)

    def delete(self) -> None:
        ip(f"link delete {self._cable}")
        subprocess.run(["ip", "netns", "delete", self.space], check=True)
