"""Files that are whole or absent, whatever happens meanwhile.

The order is always: write beside, fsync, (chown, chmod), rename, fsync of the folder. Owner and mode are right before
the first byte is written. Preparing and putting in place are two acts, so that the second needs no disk space.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import stat
from typing import Optional, Tuple

SUFFIX = ".deployer-"
"""Of files that are prepared beside their place: a leading dot before, this and a tag behind the name."""


def write(path: str, data: bytes, mode: int, owner: str = "root:root") -> None:
    """Puts ``data`` at ``path`` atomically and durably. Raises OSError; LookupError for an unknown owner."""
    put(prepare(path, data, mode, owner, "tmp"), path)


def prepare(path: str, data: bytes, mode: int, owner: str, tag: str) -> str:
    """Writes ``data`` durably beside ``path``, which stays as it is; the name of the prepared file."""
    folder, name = os.path.split(path)
    beside = os.path.join(folder, ".{}{}{}".format(name, SUFFIX, tag))
    uid, gid = ids(owner)
    remove(beside)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if (uid, gid) != (os.geteuid(), os.getegid()):
            os.fchown(descriptor, uid, gid)
        os.fchmod(descriptor, mode)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view):]
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        remove(beside)
        raise
    os.close(descriptor)
    sync_folder(folder)
    return beside


def prepare_link(path: str, target: str, tag: str) -> str:
    """Makes a symbolic link durably beside ``path``, which stays as it is; the name of the prepared link."""
    folder, name = os.path.split(path)
    beside = os.path.join(folder, ".{}{}{}".format(name, SUFFIX, tag))
    remove(beside)
    os.symlink(target, beside)
    sync_folder(folder)
    return beside


def put(prepared: str, path: str) -> None:
    """Renames a prepared file into its place, durably."""
    os.rename(prepared, path)
    sync_folder(os.path.dirname(path))


def remove(path: str) -> bool:
    """Removes a file durably; whether it was there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    sync_folder(os.path.dirname(path))
    return True


def folder(path: str, mode: int = 0o700) -> None:
    """Makes a folder and its parents; those that it makes get ``mode``, durably."""
    parent = os.path.dirname(path.rstrip("/"))
    if parent and not os.path.isdir(parent):
        folder(parent, mode)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        return
    os.chmod(path, mode)
    sync_folder(parent)


def sync_folder(path: str) -> None:
    """Makes renames and removals in a folder durable."""
    descriptor = os.open(path or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: str, limit: int = 8 << 20) -> Optional[bytes]:
    """The bytes of a regular file, or None where it is absent. Raises OSError when larger than ``limit``."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if len(data) > limit:
        raise OSError("{}: larger than {} bytes".format(path, limit))
    return data


def digest(data: bytes) -> str:
    """sha256 in hex."""
    return hashlib.sha256(data).hexdigest()


def ids(owner: str) -> Tuple[int, int]:
    """The numbers of "user:group". Raises LookupError in words."""
    user, _, group = owner.partition(":")
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise LookupError("no such user on the host: {}".format(user)) from None
    try:
        return account.pw_uid, grp.getgrnam(group).gr_gid if group else account.pw_gid
    except KeyError:
        raise LookupError("no such group on the host: {}".format(group)) from None


def mode_and_owner(path: str) -> Tuple[int, str]:
    """The mode bits and "user:group" of a file; numbers stand where an account has no name."""
    status = os.lstat(path)
    try:
        user = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        user = str(status.st_uid)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return stat.S_IMODE(status.st_mode), "{}:{}".format(user, group)
