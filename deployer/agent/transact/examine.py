"""What only the host can say of a release before anything is changed: its accounts, its paths, its systemd.

All problems are found at once. Nothing of the host is changed: the unit is read by systemd from a folder that is
thrown away, and the sandbox is tried with a program that does nothing.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import tempfile
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union

from deployer.agent.door import Emit, run
from deployer.agent.facts.health_gpu import gpu_health
from deployer.agent.facts.sglang import identity
from deployer.agent.transact import remove_ipc
from deployer.protocol import patterns
from deployer.protocol.codec import to_plain
from deployer.protocol.finding import Finding, Level

PROBED = patterns.compile(
    r"(User|Group|SupplementaryGroups|WorkingDirectory|RootDirectory|Protect\w+|Private\w+|Read(Write|Only)Paths"
    r"|InaccessiblePaths|Bind(ReadOnly)?Paths|TemporaryFileSystem|NoNewPrivileges|Limit\w+|Restrict\w+|ProcSubset"
    r"|SystemCallFilter|SystemCallArchitectures|CapabilityBoundingSet|AmbientCapabilities|DeviceAllow|DevicePolicy"
    r"|Nice|OOMScoreAdjust|UMask|KeyringMode|LockPersonality|MountFlags)"
)
"""Service settings that can keep a program from starting, and that a transient unit takes."""

STATUS = {
    200: ("WorkingDirectory", "the working directory cannot be entered"),
    202: ("", "standard input or output cannot be set up"),
    209: ("StandardOutput", "standard output cannot be set up"),
    216: ("Group", "the group does not exist or cannot be taken"),
    217: ("User", "the user does not exist or cannot be taken"),
    218: ("CapabilityBoundingSet", "the capabilities cannot be set"),
    219: ("", "the control group cannot be set up"),
    226: ("ReadWritePaths", "the sandbox (mount namespace) cannot be set up: a path in it may be missing"),
    227: ("NoNewPrivileges", "NoNewPrivileges cannot be set"),
    228: ("SystemCallFilter", "the system call filter cannot be set"),
}
"""Exit statuses of systemd.exec(5), "Process exit codes"."""

NO_PYTHON, NO_MODEL = 101, 102
_LOOK = 'test -x "$0" || exit {}; test -z "$1" || test -r "$1" || exit {}; exit 0'.format(NO_PYTHON, NO_MODEL)

_FAILED = "a trial start in the unit's sandbox failed: {}"


def examine(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """``{unit, files: [{path, text}], service: [[key, value]], python, model_path, gpus}`` -> ``{findings, …}``."""
    service: List[Tuple[str, str]] = [(str(key), str(value)) for key, value in data.get("service", ())]
    python, model = str(data.get("python") or ""), str(data.get("model_path") or "")
    local_model = model if model.startswith("/") else ""
    findings = _accounts(service)
    findings += _paths(python, local_model)
    if not findings:
        findings += _probe(service, python, local_model)
    findings += _analyze(str(data["unit"]), data.get("files", ()))
    removed = remove_ipc.finding(dict(service))
    findings += [removed] if removed else []
    if data.get("gpus"):
        findings += gpu_health()
    return {"findings": to_plain(findings), "identity": identity(python, model) if python else {}}


def _accounts(service: Sequence[Tuple[str, str]]) -> List[Finding]:
    declared = dict(service)
    findings = []
    for key, look in (("User", pwd.getpwnam), ("Group", grp.getgrnam)):
        name = declared.get(key)
        if not name or declared.get("DynamicUser", "no") in ("yes", "true", "1", "on") or name.isdigit():
            continue
        try:
            look(name)
        except KeyError:
            kind = key.lower()
            add = "useradd --system --create-home" if kind == "user" else "groupadd --system"
            findings.append(Finding("{}-missing".format(kind), Level.ERROR, "the host has no {} {}".format(kind, name),
                                    key=("service", key), hint="on the host: {} {}".format(add, name)))
    return findings


def _paths(python: str, model: str) -> List[Finding]:
    findings = []
    if python and not os.path.exists(python):
        findings.append(Finding("python-missing", Level.ERROR, "{} does not exist on the host".format(python),
                                key=("sglang", "python"), hint=_near(python)))
    elif python and not os.access(python, os.X_OK):
        findings.append(Finding("python-not-executable", Level.ERROR, "{} is not executable".format(python),
                                key=("sglang", "python")))
    if model and not os.path.exists(model):
        findings.append(Finding("model-path-missing", Level.ERROR, "{} does not exist on the host".format(model),
                                key=("args", "model-path"), hint=_near(model)))
    return findings


def _near(path: str) -> str:
    """The longest part of a path that is there, and what it holds."""
    parent = os.path.dirname(path)
    while parent and not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    try:
        names = sorted(os.listdir(parent or "/"))
    except OSError:
        names = []
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return "{} exists and holds {}".format(parent or "/", shown or "nothing")


def _probe(service: Sequence[Tuple[str, str]], python: str, model: str) -> List[Finding]:
    """Runs ``test`` in the unit's own sandbox, as its own user."""
    settings = ["--property={}={}".format(key, value) for key, value in service if PROBED.fullmatch(key)]
    ran = run(["systemd-run", "--quiet", "--wait", "--pipe", "--collect", *settings,
               "/bin/sh", "-c", _LOOK, python or "/bin/sh", model], timeout=30)
    if ran.code == 0:
        return []
    if ran.code == NO_PYTHON:
        return [Finding("python-hidden", Level.ERROR, "the unit's user or sandbox cannot execute {}".format(python),
                        key=("sglang", "python"), hint="look at its permissions, ProtectHome= and User=")]
    if ran.code == NO_MODEL:
        return [Finding("model-hidden", Level.ERROR, "the unit's user or sandbox cannot read {}".format(model),
                        key=("args", "model-path"), hint="look at its permissions, ProtectHome= and User=")]
    if ran.code in STATUS:
        key, text = STATUS[ran.code]
        return [Finding("probe-{}".format(ran.code), Level.ERROR, _FAILED.format(text),
                        key=("service", key) if key else ("service",))]
    if "Unknown assignment" in ran.err or "Failed to parse" in ran.err or "Invalid" in ran.err:
        text = "no trial start was possible: {}".format(ran.said)
        return [Finding("probe-refused", Level.WARNING, text, key=("service",))]
    text = _FAILED.format("{} (status {})".format(ran.said, ran.code))
    return [Finding("probe-failed", Level.ERROR, text, key=("service",))]


def _analyze(unit: str, entries: Sequence[Mapping[str, Any]]) -> List[Finding]:
    """``systemd-analyze verify`` with an exit rule of our own: every line about our files counts."""
    folder = tempfile.mkdtemp(prefix="deployer-verify-", dir="/run")
    findings: List[Finding] = []
    try:
        paths = []
        for entry in entries:
            if not str(entry["path"]).endswith((".service", ".timer")):
                continue
            path = os.path.join(folder, os.path.basename(str(entry["path"])))
            with open(path, "w", encoding="utf-8") as file:
                file.write(str(entry["text"]))
            paths.append(path)
        if not paths:
            return []
        ran = run(["systemd-analyze", "verify", *_only_these(), "--man=no", *paths], timeout=60)
        for line in (ran.err + ran.out).splitlines():
            finding = _analyzed(line, folder)
            if finding and finding not in findings:
                findings.append(finding)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return findings


def _only_these() -> List[str]:
    """``--recursive-errors`` exists from systemd 250 on."""
    from deployer.agent.facts.host import systemd_version

    version = systemd_version()
    return ["--recursive-errors=no"] if isinstance(version, int) and version >= 250 else []


def _analyzed(line: str, folder: str) -> Union[Finding, None]:
    if folder not in line:
        return None
    text = line.replace(folder + "/", "").strip()
    if "is not executable" in text and "Command" in text:
        return None                                # said better by _paths
    ignored = "Unknown key" in text or "Unknown section" in text or "ignoring" in text.lower()
    return Finding("systemd-verify", Level.ERROR if not ignored else Level.WARNING, "systemd: {}".format(text))
