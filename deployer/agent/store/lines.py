"""A file of JSON lines that is only ever added to, with its disk space taken beforehand.

The record and the events of a transaction must still be writable when the disk has become full in the middle of it.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

Line = Dict[str, Any]


class LineFile:
    """``path`` holds one JSON object a line; NUL bytes behind the last are space that was taken and not used yet."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: Optional[int] = None
        self._end = 0

    def create(self, reserve: int) -> None:
        """Makes the file, root's alone, with ``reserve`` bytes of disk space. Raises OSError."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, reserve)
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_FALLOCATE:
                os.close(descriptor)
                raise
        self._adopt(descriptor)

    def open(self) -> None:
        """Opens what is there, to add to it. Raises FileNotFoundError."""
        self._adopt(os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))

    def append(self, line: Line, sync: bool = False) -> None:
        """Adds one line; ``sync``: it is on the disk when this returns. Raises OSError."""
        assert self._descriptor is not None, "not open"
        data = (json.dumps(line, separators=(",", ":"), sort_keys=False) + "\n").encode("ascii")
        view, offset = memoryview(data), self._end
        while view:
            written = os.pwrite(self._descriptor, view, offset)
            view, offset = view[written:], offset + written
        self._end = offset
        if sync:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Gives back the space that was not used."""
        if self._descriptor is not None:
            try:
                os.ftruncate(self._descriptor, self._end)
            except OSError:
                pass
            os.close(self._descriptor)
            self._descriptor = None

    def _adopt(self, descriptor: int) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = descriptor
        self._end = sum(len(raw) + 1 for raw in _whole(os.pread(descriptor, 64 << 20, 0))[0])


def read_lines(path: str) -> List[Line]:
    """The whole lines of a file, broken ones at its end left out; empty where there is no file."""
    try:
        with open(path, "rb") as file:
            raws, _ = _whole(file.read())
    except FileNotFoundError:
        return []
    return list(_decoded(raws))


class Follower:
    """Reads the lines that are added to a file from an offset on. The file may not be there yet."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> List[Line]:
        """The whole lines added since the last call."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        try:
            raws, length = _whole(os.pread(descriptor, 16 << 20, self._offset))
        finally:
            os.close(descriptor)
        self._offset += length
        return list(_decoded(raws))


def _whole(data: bytes) -> Tuple[List[bytes], int]:
    """The complete lines in ``data`` before the unused space, and their length in bytes."""
    end = data.find(b"\0")
    used = data if end < 0 else data[:end]
    length = used.rfind(b"\n") + 1
    return used[:length].split(b"\n")[:-1], length


def _decoded(raws: List[bytes]) -> Iterator[Line]:
    for raw in raws:
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


_NO_FALLOCATE = {95, 22, 38}
"""EOPNOTSUPP, EINVAL, ENOSYS: file systems that cannot take space beforehand; there the file just grows."""
