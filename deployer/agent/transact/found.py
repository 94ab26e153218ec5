"""Release 0: the unit that was there before the tool, kept so that the first push can be rolled back too."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Tuple

from deployer.agent.facts.unit import SYSTEM, drop_ins, show
from deployer.agent.store import files
from deployer.agent.store.releases import Manifest, Store, StoredFile
from deployer.protocol.expectations import Expectations

ACTIVE = ("active", "activating", "reloading", "deactivating")


def find(store: Store, unit: str, enabled: bool) -> Optional[Manifest]:
    """Stores what is there of ``unit`` as release 0; None where nothing is. Raises OSError."""
    state = show(unit)
    stored, contents = _files(unit)
    elsewhere = state.get("LoadState") == "loaded" and bool(state.get("FragmentPath"))
    if not stored and not elsewhere:
        return None
    active = state.get("ActiveState") in ACTIVE
    manifest = Manifest(
        unit=unit, number=0, digest="", files=tuple(stored), kind="found", outcome="found", enabled=enabled,
        active=active, argv=_argv(state), state={"FragmentPath": state.get("FragmentPath", "")},
    )
    store.discard(unit, 0)
    return store.stage(manifest, contents, _expectations(manifest), {})


def _files(unit: str) -> Tuple[List[StoredFile], List[bytes]]:
    stored, contents = [], []
    for path in [os.path.join(SYSTEM, unit), *drop_ins(unit)]:
        data = files.read(path)
        if data is None:
            continue
        mode, owner = files.mode_and_owner(path)
        link = os.readlink(path) if os.path.islink(path) else ""
        stored.append(StoredFile(path, mode, owner, files.digest(data), link=link))
        contents.append(data)
    return stored, contents


def _argv(state: Dict[str, str]) -> Tuple[str, ...]:
    """The command line of the process that runs now; empty where none does."""
    raw = files.read("/proc/{}/cmdline".format(state.get("MainPID") or 0))
    return tuple(word.decode("utf-8", "replace") for word in raw.split(b"\0")[:-1]) if raw else ()


def _expectations(manifest: Manifest) -> Expectations:
    """Minimal: active, settled, and its port where the command line shows it."""
    line = "\0".join(manifest.argv)
    match = re.search(r"(?:^|\0)--port(?:\0|=)(\d{1,5})(?:\0|$)", line)
    port = int(match.group(1)) if match else (30000 if "sglang" in line else None)
    return Expectations(kind="minimal", port=port)
