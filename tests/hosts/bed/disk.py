"""A host's disk as it was, and back to that while the host runs.

The host's root is an overlay: what a test changed is exactly what its upper folder holds beyond what stood there after
the boot. The upper folder is only looked at; every change goes through the host's own mount.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

SKIPPED = ("var/log/journal",)
"""What has a living writer of its own that is reset in another way."""

Signature = tuple[int, int, int, int, int]


class Disk:
    """The upper folder ``upper`` over ``image``; ``copy`` keeps what stood in ``upper`` when it was remembered."""

    def __init__(self, image: Path, upper: Path, copy: Path) -> None:
        self._image = image
        self._upper = upper
        self._copy = copy
        self._known: dict[str, Signature] = {}

    def remember(self) -> None:
        """What stands now is what ``restore`` brings back."""
        shutil.rmtree(self._copy, ignore_errors=True)
        self._known = self._walk()
        for path in self._known:
            _copy(self._upper / path, self._copy / path, deep=False)

    def restore(self, root: Path) -> list[str]:
        """Undoes all changes through ``root``, the host's mounted root; returns the changed paths."""
        now = self._walk()
        changed = []
        gone: tuple[str, ...] = ()
        for path in sorted(set(now) | set(self._known)):
            if path.startswith(gone) or now.get(path) == self._known.get(path):
                continue
            original = self._original(path)
            entry = self._upper / path
            if original is None:
                _remove(root / path)
                gone += (path + "/",)
            elif _is_folder(entry) and _is_folder(original) and not _opaque(entry):
                if path in self._known or _signature(entry, True) != _signature(original, True):
                    _attributes(original, root / path)
                else:
                    continue
            else:
                _remove(root / path)
                _copy(original, root / path, deep=path not in self._known)
                if path not in self._known:
                    gone += (path + "/",)
            changed.append(path)
        if changed:
            self._known = self._walk()
        return changed

    def _original(self, path: str) -> Path | None:
        for place in (self._copy / path, self._image / path):
            if os.path.lexists(place):
                return place
        return None

    def _walk(self) -> dict[str, Signature]:
        found: dict[str, Signature] = {}
        folders = [""]
        while folders:
            folder = folders.pop()
            with os.scandir(self._upper / folder) as entries:
                for entry in entries:
                    path = f"{folder}{entry.name}"
                    if path in SKIPPED:
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    found[path] = _told(entry.stat(follow_symlinks=False), is_folder)
                    if is_folder:
                        folders.append(path + "/")
        return found


def _signature(path: Path, is_folder: bool) -> Signature:
    """What tells a change: of a folder only mode and owner, since its times change with what it holds."""
    return _told(path.lstat(), is_folder)


def _told(seen: os.stat_result, is_folder: bool) -> Signature:
    times = (0, 0) if is_folder else (seen.st_size, seen.st_mtime_ns)
    return (seen.st_mode, seen.st_uid, seen.st_gid, *times)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _opaque(path: Path) -> bool:
    """The folder replaces the image's folder of the same name, rather than adding to it."""
    try:
        return os.getxattr(path, "trusted.overlay.opaque") == b"y"
    except OSError:
        return False


def _remove(path: Path) -> None:
    if not os.path.lexists(path):
        return
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink()


def _copy(source: Path, target: Path, deep: bool) -> None:
    """Copies one entry with mode, owner and times; a folder with what it holds only if ``deep``."""
    kind = source.lstat()
    if stat.S_ISDIR(kind.st_mode):
        target.mkdir(parents=True, exist_ok=True)
        if deep:
            for child in source.iterdir():
                _copy(child, target / child.name, deep=True)
        _attributes(source, target)
    elif stat.S_ISLNK(kind.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.readlink())
        os.chown(target, kind.st_uid, kind.st_gid, follow_symlinks=False)
    elif stat.S_ISREG(kind.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        if kind.st_blocks:
            shutil.copyfile(source, target)
        else:
            with target.open("wb") as empty:                    # a model's weights are one hole of many GiB
                empty.truncate(kind.st_size)
        _attributes(source, target)


def _attributes(source: Path, target: Path) -> None:
    kind = source.lstat()
    os.chown(target, kind.st_uid, kind.st_gid)
    target.chmod(stat.S_IMODE(kind.st_mode))
    os.utime(target, ns=(kind.st_atime_ns, kind.st_mtime_ns))
