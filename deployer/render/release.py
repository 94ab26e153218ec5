"""Settings to files: the story of one rendering. Pure but for reading templates, and the same for the same input."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from deployer.errors import SettingsError
from deployer.protocol.finding import Finding, Level
from deployer.render import credentials, overrides, templates, unit, watch
from deployer.render.arguments import arguments
from deployer.render.expectations import expectations
from deployer.render.model import File, Release, SecretText
from deployer.render.readback import Executed, executed, kept
from deployer.render.spelling import spelling
from deployer.render.versions import lowest
from deployer.settings.model import SecretRef, UnitSettings

UNITS = "/etc/systemd/system"


def render(settings: UnitSettings, templates: Path | None) -> Release:
    """The release that ``settings`` declare. ``templates`` is the workspace's own folder of templates.

    Raises SettingsError with every finding, each at its place in the settings or in the template.
    """
    refused = unit.runtime_findings(settings)
    if refused:
        raise _error(settings, refused)
    release = lowest(settings.sglang, settings.program)
    spelled = spelling(settings.sglang, release, settings.program)
    words, findings = arguments(settings, spelled)
    handed, wrong = credentials.hand_over(settings, release, spelled)
    known = unit.context(settings, words, handed, release)
    findings += [*wrong, *known.findings]
    if findings:
        raise _error(settings, findings)
    expected = expectations(settings, release, spelled, handed.secret_args)
    text, findings = _unit_text(settings, known.names, templates)
    ran = executed(text, settings, handed)
    findings += [*ran.findings, *kept(ran, settings, words, handed)]
    files = (
        File(f"{UNITS}/{settings.unit}", 0o644, "root:root", text), *handed.files,
        *watch.files(settings, known.names, expected, templates),
    )
    if findings:
        raise _error(settings, findings)
    return _release(settings, files, ran, expected)


def _unit_text(settings: UnitSettings, names: Any, workspace: Path | None) -> tuple[str, list[Finding]]:
    filled = templates.fill(settings.template, names, workspace)
    if f"DEPLOYER_UNIT={settings.unit}" not in filled:
        # A process is known as this unit's by that variable: a template cannot be without it.
        filled = filled.rstrip("\n") + f"\n\n[Service]\nEnvironment=DEPLOYER_UNIT={settings.unit}\n"
    return overrides.apply(filled, settings.directives, list(settings.env), str(names["source"]))


def _release(settings: UnitSettings, files: tuple[File, ...], ran: Executed, expected: Any) -> Release:
    return Release(settings.unit, files, ran.argv, ran.env, digest(settings, files), expected)


def digest(settings: UnitSettings, files: tuple[File, ...]) -> str:
    """sha256 over every file's place, mode, owner and text; of secrets only their names and where they are."""
    plain = [[file.path, file.mode, file.owner, _text(settings, file.text)] for file in files]
    return hashlib.sha256(json.dumps([settings.unit, plain], ensure_ascii=True).encode()).hexdigest()


def _text(settings: UnitSettings, text: str | SecretText) -> Any:
    if isinstance(text, str):
        return text
    return [text.encoding, [[name, entry if isinstance(entry, str) else _where(settings, entry)]
                            for name, entry in text.entries]]


def _where(settings: UnitSettings, ref: SecretRef) -> str:
    """A file's place is told from the workspace, so that two operators' checkouts give one digest."""
    if ref.file is not None and settings.file is not None:
        return f"from file {os.path.relpath(ref.file, settings.file.parent)}"
    return credentials.words(ref)


def _error(settings: UnitSettings, findings: list[Finding]) -> SettingsError:
    placed = [finding.at(settings.spans.where(finding.key)) if settings.spans and finding.key else finding
              for finding in findings]
    errors = [finding for finding in placed if finding.level is Level.ERROR]
    return SettingsError(f"{settings.name} cannot be rendered", errors or placed)
