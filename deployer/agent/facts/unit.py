"""The unit as systemd and the store know it."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from deployer.agent.door import run
from deployer.agent.store import files
from deployer.agent.store.releases import Manifest, Store
from deployer.protocol.facts import InstalledFile, UnitFacts
from deployer.protocol.finding import Finding, Level, Where

SYSTEM = "/etc/systemd/system"

PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "Result", "MainPID", "NRestarts", "ExecMainCode", "ExecMainStatus",
    "ExecMainPID", "InvocationID", "UnitFileState", "FragmentPath", "DropInPaths", "ControlGroup", "NeedDaemonReload",
    "ActiveEnterTimestamp", "ActiveEnterTimestampMonotonic", "ExecMainStartTimestamp", "TimeoutStopUSec",
    "StateChangeTimestamp", "LoadError", "User", "Description",
)


def show(unit: str, properties: Sequence[str] = PROPERTIES) -> Dict[str, str]:
    """``systemctl show``; empty where systemd did not answer."""
    ran = run(["systemctl", "show", "--no-pager", "--property=" + ",".join(properties), "--", unit], timeout=20)
    return dict(line.partition("=")[::2] for line in ran.out.splitlines() if "=" in line)


def drop_ins(unit: str) -> List[str]:
    """Drop-ins that an admin may have written: those under /etc, in the unit's own folder."""
    folder = os.path.join(SYSTEM, unit + ".d")
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".conf"))
    except (FileNotFoundError, NotADirectoryError):
        return []


def installed(path: str, secret: bool) -> InstalledFile:
    """A file as it stands. A secret one gives no text."""
    data = files.read(path)
    if data is None:
        return InstalledFile(path, "")
    mode, owner = files.mode_and_owner(path)
    text = None if secret else _text(data)
    return InstalledFile(path, files.digest(data), mode, owner, text)


def paths_of(unit: str, current: Optional[Manifest]) -> List[Tuple[str, bool]]:
    """Every file that makes up the unit on this host, with whether it is secret: the release's, or what was found."""
    stored = [(file.path, file.secret) for file in current.files] if current else []
    known = {path for path, _ in stored}
    found = [os.path.join(SYSTEM, unit), *drop_ins(unit)]
    return stored + [(path, False) for path in found if path not in known and os.path.lexists(path)]


def unit_facts(store: Store, unit: str) -> UnitFacts:
    """State, files, current release, hand edits, history."""
    current = store.current(unit)
    state = show(unit)
    present = tuple(installed(path, secret) for path, secret in paths_of(unit, current))
    edits = drift(current, present, state) if current and current.kind != "found" else []
    return UnitFacts(
        name=unit, state=state, files=present, current=current.number if current else None,
        digest=current.digest if current else "", drift=tuple(edits),
        releases=tuple(public(manifest) for manifest in store.manifests(unit)),
        pushed=tuple(pushed(store, current, edits)) if current and edits else (),
    )


def pushed(store: Store, current: Manifest, edits: Sequence[Finding]) -> Iterator[InstalledFile]:
    """The files of the release that were edited or removed by hand, as it set them. A secret one gives no text."""
    concerned = {finding.where.file for finding in edits if finding.where}
    for index, file in enumerate(current.files):
        if file.path in concerned:
            try:
                text = None if file.secret else _text(store.data(current, index))
            except (OSError, ValueError):
                text = None
            yield InstalledFile(file.path, file.sha256, file.mode, file.owner, text)


def drift(current: Manifest, present: Sequence[InstalledFile], state: Dict[str, str]) -> List[Finding]:
    """What differs on the host from the release that the store calls current: hand edits."""
    stored = {file.path: file for file in current.files}
    findings = []
    for file in present:
        known = stored.get(file.path)
        if known is None:
            findings.append(_edited("drift-added", "was added by hand", file.path))
        elif not file.digest:
            findings.append(_edited("drift-removed", "was removed by hand", file.path))
        elif file.digest != known.sha256:
            findings.append(_edited("drift-edited", "was edited by hand", file.path))
        elif file.mode != known.mode or file.owner != known.owner:
            text = "has mode {:04o} and owner {}, release {} set {:04o} and {}".format(
                file.mode, file.owner, current.number, known.mode, known.owner)
            findings.append(_edited("drift-mode", text, file.path))
    enabled = state.get("UnitFileState", "")
    if current.enabled and enabled in ("disabled", "masked", "masked-runtime"):
        text = "is {}, the release enabled it".format(enabled)
        findings.append(_edited("drift-enablement", text, state.get("Id", "")))
    return findings


def public(manifest: Manifest) -> Dict[str, object]:
    """A manifest as the client may see it: nothing in it shows a secret, digests of secret files included."""
    return {
        "number": manifest.number, "digest": manifest.digest, "kind": manifest.kind, "who": manifest.who,
        "source": manifest.source, "created": manifest.created, "outcome": manifest.outcome, "ended": manifest.ended,
        "figures": manifest.figures, "copy_of": manifest.copy_of, "argv": list(manifest.argv),
        "files": [file.path for file in manifest.files], "identity": manifest.identity,
    }


def _edited(code: str, text: str, path: str) -> Finding:
    return Finding(code, Level.ERROR, "{} {}".format(path, text), where=Where(path) if path.startswith("/") else None)


def _text(data: bytes) -> Optional[str]:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def seconds(value: str) -> Optional[float]:
    """A time span as ``systemctl show`` prints it ("1min 30s", "infinity": None) in seconds."""
    units = {"y": 31557600.0, "month": 2629800.0, "w": 604800.0, "d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0,
             "ms": 1e-3, "us": 1e-6}
    parts = re.findall(r"([0-9.]+)(month|min|ms|us|y|w|d|h|s)", value)
    return sum(float(number) * units[unit] for number, unit in parts) if parts else None
