"""Puts the agent into its folder, once per hash: sent as text by ``deployer.remote.bootstrap`` and run on the host.

The folder is named by the hash of what is in it and appears by one rename, after everything in it is on the disk: an
unfinished one is never run. It belongs to the user that runs the agent (root, mode 0700), as do the two folders
above it that this tool makes. Nothing here may import ``deployer``: it is not there yet.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import py_compile
import shutil
import stat
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Dict, List

KEPT = 3
"""So many agents stay, by last use: those of several operators' versions, and a way back."""


class Broken(Exception):
    """Words for the client."""


def read_payload(source: BinaryIO, name: str) -> Dict[str, str]:
    """The files by path, from a line with the length and that many bytes of compressed JSON; raises Broken."""
    length = int(source.readline())
    raw = source.read(length)
    if len(raw) != length:
        raise Broken("the agent's code arrived cut short, {} of {} bytes".format(len(raw), length))
    try:
        plain = zlib.decompress(raw)
    except zlib.error as error:
        raise Broken("the agent's code arrived damaged: {}".format(error)) from None
    if hashlib.sha256(plain).hexdigest()[:32] != name:
        raise Broken("the agent's code arrived damaged: its hash is not {}".format(name))
    files: Dict[str, str] = json.loads(plain.decode("utf-8"))
    return files


def own_folder(path: str) -> None:
    """Makes ``path``, 0700, or checks that nobody else can write it; raises Broken."""
    try:
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise Broken("{} is not a folder".format(path))
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Broken("{} can be written by others than its user (owner {}, mode {:o}): not used".format(
            path, found.st_uid, stat.S_IMODE(found.st_mode)))


def unpack(files: Dict[str, str], base: str, name: str) -> str:
    """Writes the agent into ``base/name``, durably, and returns that path; raises OSError and Broken."""
    parent = os.path.dirname(base)
    os.makedirs(os.path.dirname(parent), exist_ok=True)
    own_folder(parent)
    own_folder(base)
    _sweep(base)
    target = os.path.join(base, name)
    if _complete(target, files):                     # another session was quicker, or the host's Python has moved
        _say_python(target)
        return target
    fresh = os.path.join(base, ".new-{}-{}".format(name, os.getpid()))
    os.mkdir(fresh, 0o700)
    try:
        with _locked(fresh, fcntl.LOCK_SH):
            _write(fresh, dict(files, python=sys.executable + "\n"), target)
            with _locked(base, fcntl.LOCK_EX):
                if _complete(target, files):
                    shutil.rmtree(fresh, ignore_errors=True)
                    return target
                if os.path.lexists(target):
                    os.rename(target, os.path.join(base, ".old-{}-{}".format(name, os.getpid())))
                os.rename(fresh, target)
                _sync(base)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _prune(base, name)
    return target


def _complete(target: str, files: Dict[str, str]) -> bool:
    """Whether ``target`` is this agent, byte for byte; then it may be running, and stays where it is."""
    try:
        own = os.lstat(target).st_uid == os.geteuid()
        for path, text in files.items():
            with open(os.path.join(target, path), "rb") as file:
                if file.read() != text.encode("utf-8"):
                    return False
    except OSError:
        return False
    return own


def _say_python(target: str) -> None:
    fresh = os.path.join(target, ".python-{}".format(os.getpid()))
    with open(fresh, "w") as file:
        file.write(sys.executable + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(fresh, os.path.join(target, "python"))


def _write(folder: str, files: Dict[str, str], target: str) -> None:
    folders = {folder}
    written: List[str] = []
    for path, text in sorted(files.items()):
        parts = path.split("/")
        if not all(parts) or ".." in parts or path.startswith("/"):
            raise Broken("the agent's code has a path outside its folder")
        place = folder
        for part in parts[:-1]:
            place = os.path.join(place, part)
            if place not in folders:
                os.mkdir(place, 0o700)
                folders.add(place)
        full = os.path.join(place, parts[-1])
        descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
        written.append(full)
        if path.endswith(".py"):
            compiled = py_compile.compile(
                full, dfile=os.path.join(target, path), doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
            if compiled:
                folders.add(os.path.dirname(compiled))
                written.append(compiled)
    # Together: one after the other each waits for a commit of its own.
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(_sync, written))
        list(pool.map(_sync, sorted(folders)))


def _prune(base: str, name: str) -> None:
    """Removes what was replaced, and all but the last used; what a running agent holds stays."""
    found: List[str] = [entry for entry in os.listdir(base) if not entry.startswith(".") and entry != name]
    found.sort(key=lambda entry: os.lstat(os.path.join(base, entry)).st_mtime, reverse=True)
    for entry in found[KEPT - 1:]:
        _remove(os.path.join(base, entry))
    _sweep(base)


def _sweep(base: str) -> None:
    """Removes what interrupted unpackings left behind; one that is under way holds a lock."""
    for entry in os.listdir(base):
        if entry.startswith((".new-", ".old-")):
            _remove(os.path.join(base, entry))


def _remove(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        gone = os.path.join(os.path.dirname(path), ".old-" + os.path.basename(path).lstrip("."))
        if not os.path.basename(path).startswith("."):
            os.rename(path, gone)
            path = gone
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass                                         # held by a running agent
    finally:
        os.close(descriptor)


class _locked:
    """Holds a folder: shared while it is written, so that others do not sweep it; alone to put one into place."""

    def __init__(self, path: str, kind: int) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._kind = kind

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, self._kind)

    def __exit__(self, *unused: object) -> None:
        os.close(self._descriptor)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def arrive(source: BinaryIO, mark: str, name: str, base: str) -> None:
    """Unpacks what comes from ``source`` and becomes that agent; a failure is one marked line and exit status 98."""
    os.umask(0o077)
    try:
        target = unpack(read_payload(source, name), base, name)
    except Exception as error:
        words = "{}: {}".format(error.filename or base, error.strerror) if isinstance(error, OSError) else str(error)
        failure = {"errno": getattr(error, "errno", None), "message": words, "kind": type(error).__name__}
        sys.stdout.write("{} failed {}\n".format(mark, json.dumps(failure)))
        sys.stdout.flush()
        raise SystemExit(98) from None
    sys.stdout.write("{} run\n".format(mark))
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-IS", "-X", "utf8", os.path.join(target, "__main__.py"), "serve"])
