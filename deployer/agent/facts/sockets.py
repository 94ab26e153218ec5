"""Listening TCP sockets and who owns them, matched to processes by inode.

The kernel is asked over netlink; where it does not answer so, /proc/net/tcp and tcp6 (proc(5)) say the same.
"""

from __future__ import annotations

import socket
import struct
from typing import List, Mapping, Optional, Tuple

from deployer.agent.facts.cgroup import place, root_of
from deployer.agent.facts.process import Process, read, snapshot
from deployer.agent.facts.sockdiag import Listener, listeners
from deployer.protocol.facts import Socket
from deployer.protocol.redact import Redactor

_LISTEN = "0A"


def listening(processes: Optional[Mapping[int, Process]] = None, proc: str = "/proc") -> Tuple[Socket, ...]:
    """Every listening TCP socket of this network namespace, by port. Owners that may not be read are None."""
    try:
        found = listeners() if proc == "/proc" else tables(proc)
    except OSError:
        found = tables(proc)
    everyone = snapshot(proc) if processes is None else processes
    owners = {inode: process for process in everyone.values() for inode in process.sockets}
    init = read(1, proc)
    root = root_of(init.cgroup) if init else ""
    redact = Redactor().text
    sockets = []
    for address, port, inode in found:
        owner = owners.get(inode)
        sockets.append(Socket(
            address, port, owner.pid if owner else None, place(owner.cgroup, root).unit if owner else None,
            redact(owner.command) if owner else "",
        ))
    return tuple(sorted(sockets, key=lambda one: (one.port, one.address)))


def tables(proc: str = "/proc") -> List[Listener]:
    """The same from the two files; empty where they are not readable."""
    return _table(proc + "/net/tcp", socket.AF_INET) + _table(proc + "/net/tcp6", socket.AF_INET6)


def _table(path: str, family: int) -> List[Listener]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()[1:]
    except OSError:
        return []
    rows = [line.split() for line in lines]
    return [(*_address(row[1], family), int(row[9])) for row in rows if len(row) > 9 and row[3] == _LISTEN]


def _address(text: str, family: int) -> Tuple[str, int]:
    """``0100007F:1F90`` to 127.0.0.1 and 8080: words of 32 bits in the machine's byte order."""
    address, _, port = text.partition(":")
    words = [int(address[index: index + 8], 16) for index in range(0, len(address), 8)]
    return socket.inet_ntop(family, struct.pack("=%dI" % len(words), *words)), int(port, 16)
