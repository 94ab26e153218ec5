"""A slot: the number under which one run of tests keeps its hosts apart from every other run's on this machine.

Everything that a run makes outside its own processes carries the slot's number in its name (control groups, network
namespaces, bridge, mount). The slot is a kernel lock held by the run, so that what lies under a slot that nobody holds
provably was left by a run that died, and may be cleaned.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.hosts.bed import cgroups, frozen
from tests.hosts.bed.machine import Unable

BASE = Path("/run/deployer-bed")
SLOTS = range(1, 200)
SUBNET = "10.213.{slot}"


class Slot:
    """One run's share of the machine; ``close`` gives it back with nothing left behind."""

    def __init__(self, number: int, lock: int) -> None:
        self.number = number
        self._lock = lock
        self.name = f"dbed{number}"
        self.folder = BASE / str(number)
        self.gateway = f"{SUBNET.format(slot=number)}.1"
        self.hardware = f"02:db:00:{number:02x}:ff:01"
        self.folder.mkdir(exist_ok=True)
        _command("mount", "-t", "tmpfs", "-o", "mode=0755,size=75%", self.name, str(self.folder))
        ip(f"link add {self.name} address {self.hardware} type bridge", f"addr add {self.gateway}/24 dev {self.name}",
           f"link set {self.name} up")

    def address(self, host: int) -> str:
        return f"{SUBNET.format(slot=self.number)}.{host + 1}"

    def close(self) -> None:
        clean(self.number)
        os.close(self._lock)


def take() -> Slot:
    """The first slot that no living run holds, cleaned; leftovers of other dead runs go with it."""
    BASE.mkdir(exist_ok=True)
    sweep()
    routes = subprocess.run(["ip", "-4", "route"], capture_output=True, text=True).stdout
    for number in SLOTS:
        if f"{SUBNET.format(slot=number)}." in routes:
            continue
        lock = _try_lock(number)
        if lock is not None:
            clean(number)
            return Slot(number, lock)
    raise Unable("every slot for test hosts is taken")


def sweep() -> None:
    """Cleans what runs left that died before they could."""
    for folder in BASE.iterdir() if BASE.exists() else ():
        if folder.name.isdigit():
            lock = _try_lock(int(folder.name))
            if lock is not None:
                clean(int(folder.name))
                os.close(lock)


def clean(number: int) -> None:
    """Ends and removes all that carries this slot's number; the caller holds its lock."""
    name = f"dbed{number}"
    for group in frozen.leftovers(name):
        frozen.thaw(group)
    deadline = time.monotonic() + 10
    while pids := cgroups.members(name):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            raise Unable(f"processes of an earlier run of test hosts cannot be ended: {pids}")
        time.sleep(0.01)
    cgroups.remove(name)
    spaces = [space.name for space in Path("/run/netns").glob(f"{name}-*")]
    for space in spaces:
        subprocess.run(["ip", "netns", "delete", space], check=True)
    if Path("/sys/class/net", name).exists():
        ip(f"link delete {name}")
    for left in Path("/run/systemd/nspawn/propagate").glob(f"{name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = BASE / str(number)
    if folder.exists():
        while folder.is_mount():
            _command("umount", "--lazy", str(folder))
        folder.rmdir()


def ip(*lines: str) -> None:
    """Runs several ip commands in one process."""
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"ip: {done.stderr.strip()} in: {'; '.join(lines)}")


def _try_lock(number: int) -> int | None:
    handle = os.open(BASE / f"{number}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"{' '.join(words)}: {done.stderr.strip()}")
