"""Putting the agent into its folder: durable, complete, its user's alone."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.agent import unpack
from deployer.protocol.message import decode_hello
from deployer.remote import bundle as bundles
from deployer.remote.bundle import Bundle, bundle, pack
from tests.agent.test_serve import PYTHONS


def files_of(made: Bundle) -> dict[str, str]:
    return unpack.read_payload(io.BytesIO(made.payload), made.hash)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "deployer" / "agent"


def test_the_bundle_holds_agent_and_protocol_only_and_is_the_same_each_time() -> None:
    made = bundle()
    names = sorted(json.loads(made.plain))
    rooms = {name.split("/")[1] for name in names if name.startswith("deployer/")}
    assert rooms == {"__init__.py", "agent", "protocol"}
    assert [name for name in names if not name.startswith("deployer/")] == ["__main__.py"]
    again = pack(Path(bundles.__file__).parents[1])
    assert (again.hash, again.payload) == (made.hash, made.payload)


def test_another_byte_is_another_name(tmp_path: Path) -> None:
    for room in ("agent", "protocol"):
        (tmp_path / room).mkdir()
    (tmp_path / "__init__.py").write_text("x = 1\n")
    first = pack(tmp_path)
    (tmp_path / "agent" / "a.py").write_text("")
    assert pack(tmp_path).hash != first.hash


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: "3.9" if "3.9" in path else "this")
def test_it_arrives_and_speaks(base: Path, python: str) -> None:
    made = bundle()
    code = "import sys;i=sys.stdin.buffer;exec(i.read(int(i.readline())))"
    command = [python, "-IS", "-X", "utf8", "-c", code, "mark", made.hash, str(base)]
    ran = subprocess.run(command, input=made.unpacker + made.payload, capture_output=True, check=False)
    first, second = ran.stdout.splitlines()
    assert first == b"mark run"
    assert decode_hello(second).hash == made.hash
    assert ran.stderr == b""
    folder = base / made.hash
    for path in (base.parent, base, folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert all(not path.stat().st_mode & 0o077 for path in folder.rglob("*") if path.is_file())
    assert (folder / "python").read_text() == python + "\n"
    assert len(list(folder.rglob("*.pyc"))) == len(list(folder.rglob("*.py")))
    assert os.listdir(base) == [made.hash]


def test_what_arrives_damaged_or_cut_short_is_not_kept(base: Path) -> None:
    made = bundle()
    damaged = bytearray(made.payload)
    damaged[len(damaged) // 2] ^= 1
    for data, name in ((bytes(damaged), made.hash), (made.payload[:-5], made.hash), (made.payload, "0" * 32)):
        with pytest.raises(unpack.Broken):
            unpack.read_payload(io.BytesIO(data), name)


def test_a_path_outside_the_folder_is_refused(base: Path) -> None:
    for path in ("../x.py", "/etc/x.py", "a//b.py"):
        with pytest.raises(unpack.Broken):
            unpack.unpack({path: ""}, str(base), "f" * 32)
    assert not list(base.iterdir())


def test_a_folder_that_others_can_write_is_not_used(base: Path) -> None:
    base.mkdir(parents=True)
    base.chmod(0o770)
    with pytest.raises(unpack.Broken, match="written by others"):
        unpack.unpack({"a.py": ""}, str(base), "f" * 32)
    base.rmdir()
    elsewhere = base.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    base.symlink_to(elsewhere)
    base.parent.chmod(0o700)
    with pytest.raises(unpack.Broken, match="not a folder"):
        unpack.unpack({"a.py": ""}, str(base), "f" * 32)


def test_a_full_disk_leaves_nothing_behind_and_is_told(
    base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = bundle()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "agent")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SystemExit) as ended:
        unpack.arrive(io.BytesIO(made.payload), "mark", made.hash, str(base))
    assert ended.value.code == 98
    word, data = capsys.readouterr().out.split(" failed ")
    assert (word, json.loads(data)["errno"]) == ("mark", errno.ENOSPC)
    assert os.listdir(base) == []


def test_an_unfinished_one_is_replaced(base: Path) -> None:
    broken = base / ("a" * 32)
    broken.mkdir(parents=True, mode=0o700)
    base.parent.chmod(0o700)
    base.chmod(0o700)
    (broken / "half").write_text("")
    unpack.unpack({"b.py": "x = 1\n"}, str(base), "a" * 32)
    assert (broken / "b.py").exists() and not (broken / "half").exists()
    assert os.listdir(base) == ["a" * 32]


def test_a_complete_one_stays_where_it_is(base: Path) -> None:
    """It may be running; only the Python to start it with is noted anew."""
    files = {"b.py": "x = 1\n"}
    unpack.unpack(files, str(base), "a" * 32)
    folder = base / ("a" * 32)
    before = folder.stat().st_ino
    (folder / "python").write_text("/gone/python3\n")
    unpack.unpack(files, str(base), "a" * 32)
    assert folder.stat().st_ino == before
    assert (folder / "python").read_text() == sys.executable + "\n"
    assert sorted(os.listdir(folder)) == ["__pycache__", "b.py", "python"]


def test_several_unpackings_at_once_leave_one(base: Path) -> None:
    made = bundle()
    code = "import sys;i=sys.stdin.buffer;exec(i.read(int(i.readline())))"
    command = [sys.executable, "-IS", "-X", "utf8", "-c", code, "mark", made.hash, str(base)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    for process in running:
        assert process.stdin
        process.stdin.write(made.unpacker + made.payload)
        process.stdin.flush()
    ping = b'{"op":"ping","v":1}\n'
    for process in running:
        assert process.stdout and process.stdin
        assert process.stdout.readline() == b"mark run\n"
        assert decode_hello(process.stdout.readline()).hash == made.hash
    for process in running:
        out, _ = process.communicate(ping, 10)
        assert b'"reply"' in out
    assert os.listdir(base) == [made.hash]


def test_the_last_three_stay_and_what_is_running_stays(base: Path) -> None:
    names = [digit * 32 for digit in "12345"]
    held = None
    for number, name in enumerate(names):
        unpack.unpack({"a.py": ""}, str(base), name)
        os.utime(base / name, (number, number))
        if number == 0:
            held = os.open(base / name, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_SH)
    assert held is not None
    assert sorted(os.listdir(base)) == [names[0], *names[2:]]
    os.close(held)
    unpack.unpack({"a.py": ""}, str(base), "6" * 32)
    assert sorted(os.listdir(base)) == [names[3], names[4], "6" * 32]


def test_leftovers_of_killed_unpackings_are_swept_and_running_ones_are_not(base: Path) -> None:
    unpack.unpack({"a.py": ""}, str(base), "1" * 32)
    dead, live = base / ".new-dead", base / ".new-live"
    dead.mkdir()
    live.mkdir()
    held = os.open(live, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    unpack.unpack({"a.py": ""}, str(base), "2" * 32)
    os.close(held)
    assert not dead.exists() and live.exists()


def test_it_parses_under_this_python_without_the_package() -> None:
    """The unpacker runs before there is a ``deployer`` to import."""
    source = Path(unpack.__file__).read_text()
    assert "import deployer" not in source and "from deployer" not in source
    assert sys.version_info >= (3, 9)
