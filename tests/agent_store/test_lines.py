"""Lines that are only added, with disk space taken beforehand."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from deployer.agent.store.lines import Follower, LineFile, read_lines


def test_follower_sees_each_line_once(tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    follower = Follower(path)
    assert follower.new() == []
    lines = LineFile(path)
    lines.create(4096)
    assert os.path.getsize(path) == 4096
    lines.append({"n": 1})
    assert follower.new() == [{"n": 1}]
    lines.append({"n": 2})
    lines.append({"n": 3}, sync=True)
    assert follower.new() == [{"n": 2}, {"n": 3}]
    assert follower.new() == []
    lines.close()
    assert read_lines(path) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert os.path.getsize(path) == 24


def test_reopening_goes_on_behind_the_last_whole_line(tmp_path: Path) -> None:
    path = str(tmp_path / "record")
    lines = LineFile(path)
    lines.create(1024)
    lines.append({"a": "ä"})
    again = LineFile(path)
    again.open()
    again.append({"b": 2})
    assert read_lines(path) == [{"a": "ä"}, {"b": 2}]


@given(cut=st.integers(min_value=0, max_value=60))
def test_a_torn_last_line_is_left_out(tmp_path_factory: object, cut: int) -> None:
    folder = tmp_path_factory.mktemp("torn")  # type: ignore[attr-defined]
    path = str(folder / "record")
    lines = LineFile(path)
    lines.create(1)
    for number in range(3):
        lines.append({"n": number, "text": "x" * 5})
    lines.close()
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:cut])
    kept = read_lines(path)
    assert [line["n"] for line in kept] == list(range(len(kept)))
    assert len(kept) == whole[:cut].count(b"\n")
