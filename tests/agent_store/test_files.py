"""Files are whole or absent; the order of write, fsync and rename is what makes them so."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from deployer.agent.store import files


def test_write_sets_mode_from_the_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "unit.service"
    files.write(str(path), b"secret", 0o600)
    assert path.read_bytes() == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["unit.service"]


def test_prepare_leaves_the_file_as_it_was_until_put(tmp_path: Path) -> None:
    path = tmp_path / "a.service"
    path.write_bytes(b"old")
    beside = files.prepare(str(path), b"new", 0o644, "root:root", "new")
    assert path.read_bytes() == b"old"
    assert os.path.basename(beside) == ".a.service.deployer-new"
    files.put(beside, str(path))
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.service"]


def test_a_failed_write_leaves_nothing_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.service"
    path.write_bytes(b"old")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(str(path), b"new", 0o644)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.service"]


def test_order_of_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("write", "fsync", "rename", "fchmod"):
        real = getattr(os, name)

        def traced(*args: object, _name: str = name, _real: object = real, **kw: object) -> object:
            kind = ""
            if _name == "fsync":
                kind = " folder" if stat.S_ISDIR(os.fstat(args[0]).st_mode) else " file"  # type: ignore[arg-type]
            calls.append(_name + kind)
            return _real(*args, **kw)  # type: ignore[operator]

        monkeypatch.setattr(os, name, traced)
    files.write(str(tmp_path / "x"), b"data", 0o640)
    assert calls == ["fchmod", "write", "fsync file", "fsync folder", "rename", "fsync folder"]


def test_folders_are_made_closed(tmp_path: Path) -> None:
    files.folder(str(tmp_path / "a" / "b"))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_unknown_owner_in_words(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no such user on the host: no-such-user"):
        files.write(str(tmp_path / "x"), b"", 0o600, "no-such-user:root")
    assert os.listdir(tmp_path) == []
