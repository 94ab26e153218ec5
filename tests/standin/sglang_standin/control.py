"""The control socket: how a test drives a running stand-in. One JSON request a line, one reply a line.

It is an abstract socket, ``@standin/PORT/PID``, so that no sandbox of a unit can take it away. Run as a program this is
the client: ``control.py PORT SECONDS REQUEST`` waits for the stand-in on that port if it is not there yet.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

Handler = Callable[[dict[str, Any]], dict[str, Any]]


def serve(port: int, handle: Handler) -> None:
    """Answers requests from now on, each connection in a thread."""
    from . import background  # not for the client, which is no part of a package

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0standin/{port}/{os.getpid()}")
    listener.listen(64)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            background.start(converse, connection)

    def converse(connection: socket.socket) -> None:
        with connection, connection.makefile("rw") as stream:
            for line in stream:
                try:
                    reply = handle(json.loads(line))
                except Exception as error:
                    reply = {"error": f"{type(error).__name__}: {error}"}
                try:
                    stream.write(json.dumps(reply) + "\n")
                    stream.flush()
                except OSError:
                    return

    background.start(accept)


def ask(port: int, seconds: float, request: str) -> str:
    """The reply of the newest stand-in on ``port``. Raises TimeoutError where none answers in time."""
    deadline = time.monotonic() + seconds
    while True:
        for pid in sorted(_present(port), reverse=True):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                try:
                    connection.connect(f"\0standin/{port}/{pid}")
                except OSError:
                    continue
                connection.settimeout(max(0.05, deadline - time.monotonic()))
                try:
                    connection.sendall(request.encode() + b"\n")
                    with connection.makefile() as stream:
                        reply = stream.readline()
                except TimeoutError:
                    raise TimeoutError(f"no answer to {request} in {seconds} s") from None
                except OSError:
                    continue
                if reply:
                    return reply
        if time.monotonic() > deadline:
            raise TimeoutError(f"no stand-in on port {port} in {seconds} s")
        time.sleep(0.01)


def _present(port: int) -> list[int]:
    prefix = f"@standin/{port}/"
    with open("/proc/net/unix") as table:
        names = [line.split()[-1] for line in table if prefix in line]
    return [int(name[len(prefix):]) for name in set(names) if name.startswith(prefix)]


if __name__ == "__main__":
    try:
        print(ask(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]), end="")
    except TimeoutError as error:
        sys.exit(str(error))
