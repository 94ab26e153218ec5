"""Who is in a control group: what lives, and what is gone so quickly that only its children can still be there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deployer.agent.clean import group
from deployer.agent.facts.process import lives, start_of


def start(pid: int) -> int:
    now = start_of(pid)
    assert now is not None
    return now[0]


def test_a_zombie_is_no_member_and_one_that_is_gone_may_have_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    (tmp_path / "system.slice" / "qwen.service" / "inner").mkdir(parents=True)
    for folder, pids in (("", [os.getpid(), zombie.pid]), ("inner", [gone.pid, 0])):
        place = tmp_path / "system.slice" / "qwen.service" / folder / "cgroup.procs"
        place.write_text("".join(f"{pid}\n" for pid in pids))
    monkeypatch.setattr(group, "MOUNTS", (str(tmp_path), str(tmp_path / "none")))
    try:
        assert group.members("/system.slice/qwen.service") == sorted([os.getpid(), gone.pid])
        assert group.groups_of("qwen.service", "") == ["/system.slice/qwen.service"]
        assert not lives(zombie.pid, start(zombie.pid))
    finally:
        zombie.wait()


def test_a_group_of_zombies_has_no_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    (tmp_path / "system.slice" / "qwen.service").mkdir(parents=True)
    (tmp_path / "system.slice" / "qwen.service" / "cgroup.procs").write_text(f"{zombie.pid}\n")
    monkeypatch.setattr(group, "MOUNTS", (str(tmp_path),))
    try:
        assert group.groups_of("qwen.service", "") == []
    finally:
        zombie.wait()


def test_a_process_is_its_pid_and_start_together() -> None:
    mine = start(os.getpid())
    assert lives(os.getpid(), mine)
    assert not lives(os.getpid(), mine + 1)


def test_one_that_dies_while_the_list_is_read_has_left_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """What forks on and on: the kernel lists the child only once its parent, listed before, is a zombie."""
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    lists = iter([[zombie.pid], [os.getpid()]])
    monkeypatch.setattr(group, "_read", lambda folder: next(lists))
    monkeypatch.setattr(group, "MOUNTS", ("",))
    try:
        assert group.members("/system.slice/qwen.service") == [os.getpid()]
    finally:
        zombie.wait()
