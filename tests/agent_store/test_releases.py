"""Releases on the host: whole or absent, numbered once, current, pruned, secrets removed when they did not serve."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from deployer.agent.store import files
from deployer.agent.store.record import Record, read
from deployer.agent.store.releases import Manifest, Store, StoredFile
from deployer.protocol.expectations import Expectations

UNIT = "qwen.service"


def stage(store: Store, text: bytes = b"[Service]\n", **changes: object) -> Manifest:
    entry = StoredFile("/etc/systemd/system/qwen.service", 0o644, "root:root", files.digest(text))
    manifest = Manifest(unit=UNIT, number=-1, digest="d", files=(entry,), **changes)  # type: ignore[arg-type]
    return store.stage(manifest, [text], Expectations(port=30000), {"api-key": "canary-key"})


def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert [stage(store).number for _ in range(3)] == [1, 2, 3]
    store.discard(UNIT, 3)
    assert stage(store).number == 4
    assert store.numbers(UNIT) == [1, 2, 4]


def test_everything_is_roots_alone(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "deployer"))
    stage(store)
    for folder, _, names in os.walk(tmp_path / "deployer"):
        assert stat.S_IMODE(os.stat(folder).st_mode) & 0o077 == 0, folder
        for name in names:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) & 0o077 == 0, name


def test_reading_back(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    staged = stage(store, b"text", who="ada", source="laptop")
    assert store.manifest(UNIT, 1) == staged
    assert store.data(staged, 0) == b"text"
    assert store.expectations(UNIT, 1).port == 30000
    assert store.secrets(UNIT, 1) == {"api-key": "canary-key"}
    assert store.current(UNIT) is None
    store.set_current(UNIT, 1)
    assert store.current(UNIT) == staged


def test_damage_is_noticed(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    staged = stage(store)
    Path(store.folder(UNIT, 1), "files", "0").write_bytes(b"changed")
    with pytest.raises(ValueError, match="damaged"):
        store.data(staged, 0)


def test_a_failed_stage_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    stage(store)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    with pytest.raises(OSError, match="No space"):
        stage(store)
    assert os.listdir(os.path.join(store.unit_folder(UNIT), "releases")) == ["1"]


def test_prune_keeps_current_and_good_ones(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for number in range(1, 13):
        manifest = stage(store)
        store.update(manifest, outcome="rolled-back" if number % 2 else "replaced")
    store.set_current(UNIT, 2)
    store.prune(UNIT, keep=2)
    assert store.numbers(UNIT) == [2, 9, 10, 11, 12]


def test_strip_removes_files_and_secrets(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    stage(store)
    store.strip(UNIT, 1)
    left = b"".join(path.read_bytes() for path in Path(store.folder(UNIT, 1)).rglob("*") if path.is_file())
    assert b"canary-key" not in left
    assert store.manifest(UNIT, 1).number == 1
    assert not os.path.exists(os.path.join(store.folder(UNIT, 1), "files"))


@pytest.mark.parametrize("name", ["../x.service", "x", ".hidden.service", "a/b.service", "x.mount", ""])
def test_names_that_are_no_units(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no unit name"):
        Store(str(tmp_path)).unit_folder(name)


def test_record_tells_what_was_interrupted(tmp_path: Path) -> None:
    path = str(tmp_path / "record.jsonl")
    assert read(path) is None
    record = Record(path)
    record.begin(unit=UNIT, number=4, previous=3, was_active=True, was_enabled=True, who="ada", source="laptop")
    record.step("preflight")
    found = read(path)
    assert found is not None and not found.touched and not found.ended
    record.step("stop")
    record.step("clean")
    found = read(path)
    assert found is not None
    assert (found.number, found.previous, found.step, found.touched, found.rolling_back) == (4, 3, "clean", True, False)
    record.rolling_back("why")
    record.end("rolled-back")
    found = read(path)
    assert found is not None and found.rolling_back and found.ended


def test_what_a_power_cut_left_of_a_staging_goes(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    stage(store)
    left = Path(store.folder(UNIT, 1)).parent / ".2.staging"
    (left / "files").mkdir(parents=True)
    (left / "secrets.json").write_text("{}")
    assert stage(store).number == 2
    assert not left.exists() and store.numbers(UNIT) == [1, 2]
    assert not list(left.parent.glob(".*"))
