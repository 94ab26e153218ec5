"""A host's simulated GPUs, from the test's side: how many, who holds them, and what the driver does wrong."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.hosts.bed.frozen import freezing

if TYPE_CHECKING:
    from tests.hosts.bed.host import Host

SWITCHES = "/run/gpu/switches.json"
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
TOTAL_MIB = 97887


def inventory(count: int, name: str = NAME, total_mib: int = TOTAL_MIB, seed: str = "bed") -> dict[str, Any]:
    """What /etc/gpu.json holds: ``count`` GPUs alike, their UUIDs derived from ``seed``."""
    uuids = [f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{seed}-{index}')}" for index in range(count)]
    return {"driver": "580.95.05", "gpus": [{"uuid": each, "name": name, "total": total_mib} for each in uuids]}


@dataclass
class Holding:
    """A running process that holds GPU memory on the host; ``pid`` is as numbered inside the host."""

    pid: int
    process: subprocess.Popen[str]


class Gpus:
    """The GPUs of one host. Two are there from the start; ``configure`` changes that."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.seed = host.name

    def configure(self, count: int, name: str = NAME, total_mib: int = TOTAL_MIB) -> None:
        self._host.write("/etc/gpu.json", json.dumps(inventory(count, name, total_mib, self.seed)))
        self._host.run(["/usr/local/lib/bed/nodes"])

    def uuids(self) -> list[str]:
        return [gpu["uuid"] for gpu in json.loads(self._host.read("/etc/gpu.json"))["gpus"]]

    def switch(self, **switches: Any) -> None:
        """Sets the driver's switches, replacing all of them; none: the driver is well.

        ``hang`` (True, or the queries that hang), ``deaf`` (a hung one ignores SIGTERM), ``delay`` (seconds),
        ``answers`` (``{"query-gpu" | "query-compute-apps" | "plain": {"out", "err", "code"}}``: word for word),
        ``fields`` (``{"0": {"memory.used": "[N/A]"}}``), ``apps`` (``{"used_memory": "[Insufficient Permissions]"}``),
        ``lost`` (indices), ``hidden`` (``{"0": 83501}``: MiB held by nobody to be seen), ``no_processes`` (True),
        ``teardown`` (``{"queries": 3}`` or ``{"seconds": 1.5}``: memory stays in use that long after its holder).
        """
        self._host.write(SWITCHES, json.dumps(switches))

    def answer(self, out: str, code: int) -> None:
        """Every query is answered so, e.g. the mismatch line with exit code 18."""
        said = {"out": out, "code": code}
        self.switch(answers={"query-gpu": said, "query-compute-apps": said, "plain": said})

    @contextmanager
    def hang_in_the_kernel(self) -> Iterator[None]:
        """Every nvidia-smi hangs, and cannot be ended while the block lasts. May raise ``Unable``."""
        with freezing(self._host, "/run/gpu/hung"):
            self.switch(hang=True)
            try:
                yield
            finally:
                self.switch()

    @contextmanager
    def hold(self, memory_mib: dict[int, int], *options: str, prefix: str = "") -> Iterator[Holding]:
        """A foreign process holds memory (MiB by GPU index) until the block ends."""
        words = " ".join(["exec", prefix, "gpu-hold", *(f"{gpu}={mib}" for gpu, mib in memory_mib.items()), *options])
        process = self._host.popen(f"echo $$; {words}")
        assert process.stdout is not None
        try:
            pid = int(process.stdout.readline())
            if process.stdout.readline().strip() != "holding":
                raise AssertionError(f"gpu-hold failed: {process.communicate()[1]}")
            yield Holding(pid, process)
        finally:
            process.kill()
            self._host.run(["kill", "-9", str(pid)], check=False)
            process.communicate()

    def used_mib(self) -> list[int]:
        """Memory in use by GPU, as nvidia-smi says."""
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        return [int(line) for line in self._host.run(query).out.split()]

    def processes(self) -> list[tuple[int, str, int]]:
        """Compute processes as nvidia-smi lists them: pid, name, MiB."""
        query = ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"]
        rows = [line.split(", ") for line in self._host.run(query).out.splitlines()]
        return [(int(pid), name, int(mib)) for pid, name, mib in rows]
