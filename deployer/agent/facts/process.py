"""Processes as /proc tells them (proc(5)), in one pass.

A process is its pid and start time together. What may not be read (another user's environment) is left out, and
``readable`` says so. Times are in clock ticks since boot.
"""

from __future__ import annotations

import os
import re
import time
from typing import Dict, List, Optional, Tuple

from deployer.protocol import patterns, records

MARKER = "DEPLOYER_UNIT"
INVOCATION = "INVOCATION_ID"
_KERNEL_THREAD = 0x00200000
_DEVICE = patterns.compile(r"/dev/(?:nvidia(?:\d+|ctl|-uvm|-modeset|-caps/\S+)|dxg)(?: \(deleted\))?$")
_UID = patterns.compile(r"^Uid:\s+(\d+)", re.MULTILINE)
_NS_PIDS = patterns.compile(r"^NSpid:\s+(.+)", re.MULTILINE)
TICKS = os.sysconf("SC_CLK_TCK")


@records.dataclass(frozen=True)
class Process:
    """``marker`` and ``invocation`` are DEPLOYER_UNIT and INVOCATION_ID of its environment at its last exec.

    ``ns_pids`` are its pids from this PID namespace inwards; ``pidns`` the inode of its own (0: not readable).
    ``tty`` is the number of its controlling terminal (0: none).
    ``devices`` are the /dev/nvidia* it has open, ``sockets`` the inodes of its sockets.
    """

    pid: int
    start: int
    ppid: int
    state: str
    comm: str
    uid: int = 0
    argv: Tuple[str, ...] = ()
    cgroup: str = ""
    pidns: int = 0
    ns_pids: Tuple[int, ...] = ()
    marker: Optional[str] = None
    invocation: Optional[str] = None
    threads: int = 1
    tty: int = 0
    exe: str = ""
    devices: Tuple[str, ...] = ()
    sockets: Tuple[int, ...] = ()
    readable: bool = True

    @property
    def key(self) -> Tuple[int, int]:
        return self.pid, self.start

    @property
    def dead(self) -> bool:
        """A zombie without threads, or gone: it holds nothing any more, only its parent can take it away."""
        return self.state in "XZ" and self.threads <= 1

    @property
    def command(self) -> str:
        return " ".join(self.argv) or "[{}]".format(self.comm)


def snapshot(proc: str = "/proc") -> Dict[int, Process]:
    """Every process that is no kernel thread, by pid; without what ``completed`` adds, which costs most."""
    found = {}
    for name in os.listdir(proc):
        if name.isdigit():
            process = _light(int(name), proc)
            if process:
                found[process.pid] = process
    return found


def read(pid: int, proc: str = "/proc") -> Optional[Process]:
    """One process with all that is known; None where it is not there (any more) or a kernel thread."""
    process = _light(pid, proc)
    return completed(process, proc) if process else None


def completed(process: Process, proc: str = "/proc") -> Process:
    """The process with its account, program and PID namespaces."""
    folder = "{}/{}".format(proc, process.pid)
    status = _read(folder + "/status").decode("utf-8", "replace")
    uid, inner = _UID.search(status), _NS_PIDS.search(status)
    return records.replace(
        process, uid=int(uid.group(1)) if uid else 0, pidns=_inode(folder + "/ns/pid"), exe=_link(folder + "/exe"),
        ns_pids=tuple(int(word) for word in inner.group(1).split()) if inner else (),
    )


def _light(pid: int, proc: str) -> Optional[Process]:
    folder = "{}/{}".format(proc, pid)
    stat = _stat(folder)
    if not stat or stat[5] & _KERNEL_THREAD:
        return None
    comm, state, ppid, start, threads, _, tty = stat
    environment = _read_all(folder + "/environ")
    links = _links(folder, state, threads)
    return Process(
        pid=pid, start=start, ppid=ppid, state=state, comm=comm, threads=threads, tty=tty,
        argv=_words(_read_all(folder + "/cmdline")),
        cgroup=_read(folder + "/cgroup").decode("utf-8", "replace"),
        marker=_variable(environment, MARKER), invocation=_variable(environment, INVOCATION),
        devices=tuple(sorted({link.replace(" (deleted)", "") for link in links or () if _DEVICE.match(link)})),
        sockets=tuple(int(link[8:-1]) for link in links or () if link.startswith("socket:[")),
        readable=links is not None,
    )


def start_of(pid: int, proc: str = "/proc") -> Optional[Tuple[int, str]]:
    """Start time and state of a process, or None where it is gone: the check just before a signal."""
    stat = _stat("{}/{}".format(proc, pid))
    if not stat:
        return None
    # A leader that has ended while its threads go on is shown as a zombie, and is none.
    return stat[3], "S" if stat[1] == "Z" and stat[4] > 1 else stat[1]


def lives(pid: int, start: int) -> bool:
    """Whether the process of this pid and start time is there and no zombie; only its parent can take that away."""
    now = start_of(pid)
    return now is not None and now[0] == start and now[1] not in "ZX"


def pidfd(pid: int) -> int:
    """A descriptor that can be polled for the process's end, pidfd_open(2); -1 where there is none to be had."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def since(start: int) -> float:
    """When a process began, in epoch seconds, from its start time in ticks since boot."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + start / TICKS


def user_name(uid: int) -> str:
    """The account's name, or its number where it has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _stat(folder: str) -> Optional[Tuple[str, str, int, int, int, int, int]]:
    """comm, state, ppid, start, threads, flags, controlling terminal (0: none).

    The comm may hold blanks and brackets: the last ``)`` ends it.
    """
    text = _read(folder + "/stat").decode("utf-8", "replace")
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    ppid, tty, flags, threads, start = (int(fields[place]) for place in (1, 4, 6, 17, 19))
    return head.partition("(")[2], fields[0], ppid, start, threads, flags, tty


def _links(folder: str, state: str, threads: int) -> Optional[List[str]]:
    """Targets of the open descriptors; those of a living thread where the leader alone has ended."""
    places = [folder + "/fd"]
    if state == "Z" and threads > 1:
        try:
            places = ["{}/task/{}/fd".format(folder, task) for task in os.listdir(folder + "/task")]
        except OSError:
            return None
    found: List[str] = []
    seen = False
    for place in places:
        try:
            names = os.listdir(place)
        except OSError:
            continue
        seen = True
        found += [_link("{}/{}".format(place, name)) for name in names]
    return found if seen else None


def _words(raw: bytes) -> Tuple[str, ...]:
    """A title that was set over argv (setproctitle) ends in many NULs, which are no empty words."""
    text = raw.decode("utf-8", "replace")
    words = text.split("\0")
    while words and not words[-1]:
        words.pop()
    return tuple(words)


def _variable(environment: bytes, name: str) -> Optional[str]:
    prefix = name.encode() + b"="
    if prefix not in environment:
        return None
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix):].decode("utf-8", "replace")
    return None


def _inode(path: str) -> int:
    match = re.search(r"\[(\d+)\]", _link(path))
    return int(match.group(1)) if match else 0


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 65536)
    except OSError:
        return b""
    finally:
        os.close(file)


def _read_all(path: str) -> bytes:
    """A file that may be longer than one page; the kernel gives these a page or so at a time."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
