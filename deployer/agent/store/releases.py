"""Releases on the host: /var/lib/deployer/UNIT/releases/N/, root's alone.

A release folder holds ``manifest.json`` (who, when, digest, base, outcome, figures), ``expectations.json``,
``secrets.json`` (only what the verifier must send and the redactor must know) and ``files/``, one file an installed
file, named by its index in the manifest. ``current`` names the release that serves. Numbers are never used twice.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from deployer.agent.store import files
from deployer.protocol import patterns, records
from deployer.protocol.codec import from_plain, to_plain
from deployer.protocol.expectations import Expectations

BASE = "/var/lib/deployer"
KEEP = 5
"""Releases kept beside the current one."""

STAGING = ".staging"
"""Ends the name of a release's folder until all of it is on the disk."""

UNIT_NAME = patterns.compile(r"[A-Za-z0-9:_.\\@-]{1,200}\.(?:service|timer)")


@records.dataclass(frozen=True)
class StoredFile:
    """A file of a release: where it goes, and what its bytes are. ``secret``: its text is never sent anywhere.

    ``link``: what was found at this place was a symbolic link to there; it comes back as one.
    """

    path: str
    mode: int
    owner: str
    sha256: str
    secret: bool = False
    link: str = ""


@records.dataclass(frozen=True)
class Manifest:
    """What is known of a release without its secrets. ``kind``: push, rollback or found (release 0)."""

    unit: str
    number: int
    digest: str
    files: Tuple[StoredFile, ...]
    kind: str = "push"
    base: str = ""                                 # digest of the release that it was planned against
    who: str = ""
    source: str = ""
    created: float = 0.0
    outcome: str = "staged"
    ended: float = 0.0
    figures: Dict[str, Any] = records.field(default_factory=dict)
    scope: str = "own"
    copy_of: Optional[int] = None
    overwrite_drift: bool = False
    enabled: bool = True
    active: bool = True                            # release 0: whether it ran when it was found
    identity: Dict[str, Any] = records.field(default_factory=dict)
    argv: Tuple[str, ...] = ()
    state: Dict[str, Any] = records.field(default_factory=dict)


class Store:
    """The releases of all units under ``base``."""

    def __init__(self, base: str = BASE) -> None:
        self.base = base

    def unit_folder(self, unit: str) -> str:
        """Raises ValueError for a name that is none of a unit."""
        if not UNIT_NAME.fullmatch(unit) or unit.startswith("."):
            raise ValueError("no unit name: {!r}".format(unit))
        return os.path.join(self.base, unit)

    def folder(self, unit: str, number: int) -> str:
        return os.path.join(self.unit_folder(unit), "releases", str(number))

    def record_path(self, unit: str) -> str:
        return os.path.join(self.unit_folder(unit), "record.jsonl")

    def events_path(self, unit: str, number: int) -> str:
        return os.path.join(self.folder(unit, number), "events.jsonl")

    def units(self) -> List[str]:
        """Units that have a release here."""
        try:
            names = os.listdir(self.base)
        except FileNotFoundError:
            return []
        return sorted(name for name in names if os.path.isdir(os.path.join(self.base, name, "releases")))

    def numbers(self, unit: str) -> List[int]:
        try:
            names = os.listdir(os.path.join(self.unit_folder(unit), "releases"))
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdigit())

    def manifest(self, unit: str, number: int) -> Manifest:
        """Raises FileNotFoundError, or DecodeError for a damaged one."""
        raw = files.read(os.path.join(self.folder(unit, number), "manifest.json"))
        if raw is None:
            raise FileNotFoundError("{} has no release {}".format(unit, number))
        return from_plain(Manifest, json.loads(raw))

    def manifests(self, unit: str) -> List[Manifest]:
        """All whole releases, oldest first; damaged ones are left out."""
        found = []
        for number in self.numbers(unit):
            try:
                found.append(self.manifest(unit, number))
            except (OSError, ValueError):
                continue
        return found

    def current(self, unit: str) -> Optional[Manifest]:
        """The release that serves, or None before the first."""
        raw = files.read(os.path.join(self.unit_folder(unit), "current"))
        if raw is None:
            return None
        try:
            return self.manifest(unit, int(raw))
        except (OSError, ValueError):
            return None

    def set_current(self, unit: str, number: Optional[int]) -> None:
        """``None``: nothing of this tool's is there any more."""
        path = os.path.join(self.unit_folder(unit), "current")
        if number is None:
            files.remove(path)
        else:
            files.write(path, str(number).encode(), 0o600)

    def expectations(self, unit: str, number: int) -> Expectations:
        raw = files.read(os.path.join(self.folder(unit, number), "expectations.json"))
        return from_plain(Expectations, json.loads(raw)) if raw else Expectations(kind="minimal")

    def secrets(self, unit: str, number: int) -> Dict[str, str]:
        """Name to value: for the verifier's requests and the redactor, never for anything that leaves the host."""
        raw = files.read(os.path.join(self.folder(unit, number), "secrets.json"))
        return dict(json.loads(raw)) if raw else {}

    def data(self, manifest: Manifest, index: int) -> bytes:
        """The bytes of a release's file. Raises FileNotFoundError, ValueError for bytes that are not what they were."""
        path = os.path.join(self.folder(manifest.unit, manifest.number), "files", str(index))
        data = files.read(path)
        if data is None:
            raise FileNotFoundError(path)
        if files.digest(data) != manifest.files[index].sha256:
            raise ValueError("{}: damaged".format(path))
        return data

    def stage(self, manifest: Manifest, contents: Sequence[bytes], expectations: Expectations,
              secrets: Dict[str, str]) -> Manifest:
        """Stores a release durably under the next free number; the folder appears whole or not at all."""
        home = os.path.join(self.unit_folder(manifest.unit), "releases")
        files.folder(home)
        with _alone(os.path.join(self.base, "stage.lock")):
            return self._stage(home, manifest, contents, expectations, secrets)

    def _stage(self, home: str, manifest: Manifest, contents: Sequence[bytes], expectations: Expectations,
               secrets: Dict[str, str]) -> Manifest:
        number = 0 if manifest.kind == "found" else self.next_number(manifest.unit)
        manifest = records.replace(manifest, number=number, created=manifest.created or time.time())
        for left in os.listdir(home):
            # Of a staging that a power cut ended: with secrets, and never to be finished. Nobody else stages now.
            if left.endswith(STAGING):
                _remove(os.path.join(home, left))
        staging = os.path.join(home, ".{}{}".format(number, STAGING))
        try:
            files.folder(os.path.join(staging, "files"))
            for index, data in enumerate(contents):
                files.write(os.path.join(staging, "files", str(index)), data, 0o600)
            _write_json(staging, "expectations.json", to_plain(expectations))
            if secrets:
                _write_json(staging, "secrets.json", secrets)
            _write_json(staging, "manifest.json", to_plain(manifest))
            os.rename(staging, os.path.join(home, str(number)))
        except BaseException:
            _remove(staging)
            raise
        files.sync_folder(home)
        return manifest

    def next_number(self, unit: str) -> int:
        """One more than any number that was ever used: remembered beside the releases, since old ones are removed."""
        path = os.path.join(self.unit_folder(unit), "last-number")
        raw = files.read(path)
        last = max([int(raw) if raw and raw.isdigit() else 0, *self.numbers(unit)])
        files.write(path, str(last + 1).encode(), 0o600)
        return last + 1

    def update(self, manifest: Manifest, **changes: Any) -> Manifest:
        """Writes a release's manifest anew with ``changes``."""
        manifest = records.replace(manifest, **changes)
        _write_json(self.folder(manifest.unit, manifest.number), "manifest.json", to_plain(manifest))
        return manifest

    def prune(self, unit: str, keep: int = KEEP) -> None:
        """Removes the oldest releases beyond ``keep``: never the current one, the last good ones go last.

        Release 0, the unit as it was found, stays while there is room for it among the good ones.
        """
        current = self.current(unit)
        spare = [m for m in self.manifests(unit) if not current or m.number != current.number]
        good = [m for m in spare if m.outcome in GOOD]
        bad = [m for m in spare if m.outcome not in GOOD]
        for manifest in good[:max(0, len(good) - keep)] + bad[:max(0, len(bad) - keep)]:
            _remove(self.folder(unit, manifest.number))

    def discard(self, unit: str, number: int) -> None:
        """Removes a release that never was installed, with its secrets."""
        _remove(self.folder(unit, number))

    def strip(self, unit: str, number: int) -> None:
        """Leaves of a release only the story of how it went: its files and secrets are removed."""
        home = self.folder(unit, number)
        _remove(os.path.join(home, "files"))
        files.remove(os.path.join(home, "secrets.json"))


GOOD = ("done", "found", "replaced")
"""Outcomes of releases that served."""


def decoded_files(entries: Sequence[Dict[str, Any]]) -> Tuple[Tuple[StoredFile, ...], List[bytes]]:
    """The files of a ``stage`` request: path, mode, owner, secret, and the bytes in base64."""
    stored, contents = [], []
    for entry in entries:
        data = base64.b64decode(entry["data"])
        stored.append(StoredFile(entry["path"], int(entry["mode"]), entry["owner"], files.digest(data),
                                 bool(entry.get("secret"))))
        contents.append(data)
    return tuple(stored), contents


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """One at a time, in this moment only: two clients may stage at once."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_json(folder: str, name: str, value: Any) -> None:
    files.write(os.path.join(folder, name), json.dumps(value, indent=1).encode(), 0o600)


def _remove(folder: str) -> None:
    """Whatever of it can be removed."""
    from shutil import rmtree  # most contacts remove nothing, and it loads three compression libraries

    rmtree(folder, ignore_errors=True)
