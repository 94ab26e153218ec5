"""Whole rendered units, compared byte for byte with reviewed ones. After a change that is meant:

    .venv/bin/python -m tests.render.test_golden        # writes them anew; look at the diff
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.protocol.codec import to_plain
from deployer.render.credentials import masked
from deployer.render.model import Release
from deployer.render.release import render
from deployer.settings.workspace import Workspace

CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if (path / "units").is_dir())


def rendered(case: Path) -> Release:
    loaded = Workspace(case).load_unit(case.name)
    assert loaded.settings is not None, loaded.findings
    return render(loaded.settings, None)


def texts(case: Path, release: Release) -> dict[str, str]:
    """What a case's folder ``expected`` holds, by file name."""
    files = {
        f"{file.path.strip('/').replace('/', '_')}": f"# {file.path} {file.mode:04o} {file.owner}\n"
        + (file.text if isinstance(file.text, str) else masked(file.text).replace(str(case), "WORKSPACE"))
        for file in release.files
    }
    told = {"argv": list(release.argv), "env": dict(release.env), "expectations": to_plain(release.expectations)}
    return {**files, "release.json": json.dumps(told, indent=1, ensure_ascii=False) + "\n"}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_files_are_exactly_these(case: Path) -> None:
    expected = {path.name: path.read_text(encoding="utf-8") for path in (case / "expected").iterdir()}
    assert texts(case, rendered(case)) == expected


def write() -> None:
    for case in CASES:
        folder = case / "expected"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for name, text in texts(case, rendered(case)).items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
