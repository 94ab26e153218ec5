"""The host's lock: a kernel lock held by the acting process itself, and beside it who holds it.

One lock a host, since cleaning crosses units. The kernel releases it when the process ends, however it ends; the note
beside it is only for people, and is believed only while the lock is really held.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from types import TracebackType
from typing import Any, Dict, Optional, Type

from deployer.agent.store import files


class Held(Exception):
    """Another process holds the lock; ``note`` says who, from where, since when, doing what (may be empty)."""

    def __init__(self, note: Dict[str, Any]) -> None:
        super().__init__("another push holds the lock of this host")
        self.note = note


class HostLock:
    """A context manager: ``with HostLock(base, who=…, source=…, unit=…, number=…)``. Raises ``Held``."""

    def __init__(self, base: str, **note: Any) -> None:
        self._path = os.path.join(base, "lock")
        self._note_path = os.path.join(base, "lock.json")
        self._note = note
        self._descriptor: Optional[int] = None

    def __enter__(self) -> "HostLock":
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        for wait in _PATIENCE:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(wait)
        else:
            os.close(descriptor)
            raise Held(_read_note(self._note_path)) from None
        self._descriptor = descriptor
        self._note.update(pid=os.getpid(), since=time.time())
        self.doing("begin")
        return self

    def doing(self, step: str) -> None:
        """Notes the step for those who are refused meanwhile. Never fails: the note is not the lock."""
        self._note["step"] = step
        try:
            files.write(self._note_path, json.dumps(self._note).encode(), 0o600)
        except (OSError, LookupError):
            pass

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            files.remove(self._note_path)
        except OSError:
            pass
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_PATIENCE = (0.02, 0.05, 0.1, 0.1)
"""Seconds between tries: ``holder`` takes the lock for an instant to look."""


def holder(base: str) -> Optional[Dict[str, Any]]:
    """The note of whoever holds the lock now, or None where it is free."""
    try:
        descriptor = os.open(os.path.join(base, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        return _read_note(os.path.join(base, "lock.json"))
    finally:
        os.close(descriptor)


def _read_note(path: str) -> Dict[str, Any]:
    try:
        with open(path, "rb") as file:
            note = json.load(file)
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
