"""Short ways to declare settings for tests of rendering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deployer.errors import SettingsError
from deployer.protocol.finding import Finding
from deployer.render.model import File, Release
from deployer.render.release import render
from deployer.settings.model import UnitSettings, Venv

PYTHON = "/opt/sglang/bin/python"


def unit(**changes: Any) -> UnitSettings:
    return UnitSettings(**{"name": "x", "runtime": Venv(PYTHON), "sglang": "0.5.9", **changes})


def rendered(workspace: Path | None = None, **changes: Any) -> Release:
    return render(unit(**changes), workspace)


def text(release: Release, path: str = "/etc/systemd/system/x.service") -> str:
    found = file(release, path).text
    assert isinstance(found, str)
    return found


def file(release: Release, path: str) -> File:
    return next(file for file in release.files if file.path == path)


def findings(workspace: Path | None = None, **changes: Any) -> list[Finding]:
    """The findings that rendering raises; none where it works."""
    try:
        render(unit(**changes), workspace)
    except SettingsError as error:
        return list(error.findings)
    return []


def codes(workspace: Path | None = None, **changes: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(finding.code, finding.key) for finding in findings(workspace, **changes)]
