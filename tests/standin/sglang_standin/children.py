"""The processes beside the main one: schedulers that hold the GPUs, the detokenizer, the resource tracker.

Each is a fork with the title that the real one has, ended by the main process's death once it has its title (the real
ones ask the kernel for that late in their start: an early end of the main process leaves orphans).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
SPAWNED = ("{} -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=8, pipe_handle=10) "
           "--multiprocessing-fork")
libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """One child, told what to do in lines over a pipe: ``title``, ``hold GPU MIB``, ``exit CODE``, ``log ...``."""

    def __init__(self, name: str, title: str, orphan: bool, gpu: int | None = None, rank: str = "") -> None:
        self.name = name
        self.title = title
        self.gpu = gpu
        self.rank = rank
        reading, self._writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                # Nothing of the main process's stays open in a child: not the control socket, not its siblings' pipes.
                for handle in [int(name) for name in os.listdir("/proc/self/fd")]:
                    if handle > 2 and handle != reading:
                        with contextlib.suppress(OSError):
                            os.close(handle)
                status = _live(reading, title, orphan, gpu)
            finally:
                os._exit(status)
        os.close(reading)

    def tell(self, text: str) -> None:
        try:
            os.write(self._writing, (text + "\n").encode())
        except BrokenPipeError:
            pass

    def kill(self, number: int = signal.SIGKILL) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass


def _live(reading: int, title: str, orphan: bool, gpu: int | None) -> int:
    """A child's whole life; returns its exit status."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    set_title(SPAWNED.format(sys.executable))
    if gpu is not None:
        os.open(f"/dev/nvidia{gpu}", os.O_RDWR)
    declared = -1
    with os.fdopen(reading) as orders:
        for line in orders:
            word, _, rest = line.strip().partition(" ")
            if word == "title":
                set_title(title)
                if not orphan:
                    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            elif word == "hold":
                previous, declared = declared, os.memfd_create(f"gpu{gpu}={int(rest)}MiB")
                if previous >= 0:
                    os.close(previous)
            elif word == "exit":
                return int(rest)
    while True:
        # The main process is gone: what lives on now is an orphan, until somebody ends it.
        signal.pause()


def set_title(title: str) -> None:
    """Overwrites argv in place, as the setproctitle package does, and the environment behind it unless $SPT_NOENV."""
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    begin, end, environment_end = int(fields[45]), int(fields[46]), int(fields[48])
    if not os.environ.get("SPT_NOENV"):
        end = max(end, environment_end)
    text = title.encode()[: end - begin - 1]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, text, len(text))
    libc.prctl(PR_SET_NAME, title.encode()[:15])


def gpu_of_rank(rank: int, base: int) -> int:
    """The GPU that a rank takes, by CUDA_VISIBLE_DEVICES (indices or UUIDs) and --base-gpu-id. Raises LookupError."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        present = sorted(int(match.group(1)) for name in os.listdir("/dev")
                         if (match := re.fullmatch(r"nvidia(\d+)", name)))
        return present[rank + base]
    word = visible.split(",")[rank + base].strip()
    if word.isdigit():
        if not os.path.exists(f"/dev/nvidia{word}"):
            raise LookupError(word)
        return int(word)
    with open("/etc/gpu.json") as inventory:
        uuids = [gpu["uuid"] for gpu in json.load(inventory)["gpus"]]
    return next(index for index, uuid in enumerate(uuids) if uuid.startswith(word))


def on_child_end(callback: Callable[[int, int], None]) -> None:
    """Calls ``callback(pid, status)`` for each child that ends; the status as os.waitstatus_to_exitcode gives it."""

    def reap(*_: object) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            callback(pid, os.waitstatus_to_exitcode(status))

    signal.signal(signal.SIGCHLD, reap)
