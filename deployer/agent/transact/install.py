"""Putting the files of a release in place of those of another, by renames alone.

Both sets are written beside their places before the server is stopped; afterwards neither the change nor its undoing
needs disk space. Every act may be repeated, so that an interrupted one is finished from the record alone.
"""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from deployer.agent.facts.unit import SYSTEM, drop_ins
from deployer.agent.store import files
from deployer.agent.store.releases import Manifest, Store, StoredFile

NEW, OLD = "new", "old"


def prepare(store: Store, release: Manifest, previous: Optional[Manifest]) -> None:
    """Writes both sets beside their places. Raises OSError, LookupError; what was written is then taken away again."""
    try:
        for index in range(len(release.files)):
            _prepare(store, release, index, NEW)
        for index in range(len(previous.files) if previous else 0):
            assert previous is not None
            _prepare(store, previous, index, OLD)
    except BaseException:
        clear(release, previous)
        raise


def switch(store: Store, to: Optional[Manifest], others: Tuple[Optional[Manifest], ...], unit: str, tag: str) -> None:
    """Makes the installed files exactly those of ``to`` (None: none at all). Raises OSError, LookupError, ValueError.

    ``others`` are the releases whose files may lie there now; drop-ins in the unit's own folder count too. The unit
    file itself comes last, after what it refers to.
    """
    wanted: Dict[str, int] = {file.path: index for index, file in enumerate(to.files)} if to else {}
    main = os.path.join(SYSTEM, unit)
    for path in sorted(wanted, key=lambda name: (name == main, name)):
        assert to is not None
        _place(store, to, wanted[path], tag)
    for path in _present(others, unit):
        if path not in wanted:
            files.remove(path)
            _remove_empty(os.path.dirname(path))


def clear(*manifests: Optional[Manifest]) -> None:
    """Takes away what was prepared and not put in place, and folders that were made for it and are empty."""
    for manifest in manifests:
        for file in manifest.files if manifest else ():
            folder, name = os.path.split(file.path)
            for tag in (NEW, OLD, "tmp"):
                beside = os.path.join(folder, ".{}{}{}".format(name, files.SUFFIX, tag))
                try:
                    files.remove(beside)
                except OSError:
                    continue
            _remove_empty(folder)


def units_of(manifest: Optional[Manifest]) -> List[str]:
    """The units among a release's files, by name."""
    paths = [file.path for file in manifest.files] if manifest else []
    return [os.path.basename(path) for path in paths
            if os.path.dirname(path) == SYSTEM and path.endswith((".service", ".timer"))]


def _place(store: Store, manifest: Manifest, index: int, tag: str) -> None:
    file = manifest.files[index]
    folder, name = os.path.split(file.path)
    beside = os.path.join(folder, ".{}{}{}".format(name, files.SUFFIX, tag))
    if _in_place(file):
        # What lies prepared beside it is taken away by ``clear``: a folder that cannot be written to is no fault here.
        return
    if not os.path.lexists(beside):
        _prepare(store, manifest, index, tag)
    files.put(beside, file.path)


def _prepare(store: Store, manifest: Manifest, index: int, tag: str) -> str:
    file = manifest.files[index]
    files.folder(os.path.dirname(file.path), _folder_mode(file.path))
    if file.link:
        return files.prepare_link(file.path, file.link, tag)
    return files.prepare(file.path, store.data(manifest, index), file.mode, file.owner, tag)


def _in_place(file: StoredFile) -> bool:
    if file.link or os.path.islink(file.path):
        return os.path.islink(file.path) and os.readlink(file.path) == file.link
    present = files.read(file.path)
    return present is not None and files.digest(present) == file.sha256 and \
        files.mode_and_owner(file.path) == (file.mode, file.owner)


def _present(others: Tuple[Optional[Manifest], ...], unit: str) -> List[str]:
    paths = {file.path for manifest in others if manifest for file in manifest.files}
    paths.update(drop_ins(unit))
    return sorted(path for path in paths if os.path.lexists(path))


def _folder_mode(path: str) -> int:
    """Folders of unit files are for all to read; any other that has to be made holds secrets."""
    return 0o755 if path.startswith(SYSTEM + "/") else 0o700


def _remove_empty(folder: str) -> None:
    """Folders of the tool's own (drop-ins, secrets) that hold nothing any more."""
    if folder == SYSTEM or folder == "/etc":
        return
    try:
        os.rmdir(folder)
        files.sync_folder(os.path.dirname(folder))
    except OSError:
        return
    if os.path.dirname(folder) == "/etc/deployer":
        _remove_empty("/etc/deployer")
