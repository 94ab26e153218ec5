"""Whose shared memory logind removes, and what of this machine is asked for it."""

from __future__ import annotations

import os
import pwd

import pytest

from deployer.agent.transact import remove_ipc
from deployer.agent.transact.remove_ipc import finding, judge


@pytest.mark.parametrize(("uid", "lingers", "removes", "found"), [
    (1000, False, True, True), (1500, False, True, True), (999, False, True, False), (0, False, True, False),
    (1500, True, True, False), (1500, False, False, False),
])
def test_who_is_met(uid: int, lingers: bool, removes: bool, found: bool) -> None:
    said = judge(("ada", uid), lingers, removes)
    assert bool(said) is found
    if said:
        assert (said.code, said.level.value, said.key) == ("remove-ipc", "warning", ("service", "User"))
        assert f"ada is a regular user (uid {uid})" in said.message and "enable-linger ada" in said.hint


@pytest.mark.parametrize("service", [
    {}, {"User": "no-such-user-here"}, {"User": "4294967"}, {"User": "root"}, {"User": "0"},
    {"User": "ada", "DynamicUser": "yes"},
])
def test_what_is_no_regular_user_is_not_asked_about(service: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remove_ipc, "_removes", lambda: True)
    assert finding(service) is None


@pytest.mark.parametrize("by", ["pw_name", "pw_uid"])
def test_a_user_by_name_or_number(
    by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str],
) -> None:
    entry = next(entry for entry in pwd.getpwall() if entry.pw_name == "nobody")
    monkeypatch.setattr(remove_ipc, "_removes", lambda: True)
    monkeypatch.setattr(remove_ipc, "LINGER", str(tmp_path))
    said = finding({"User": str(getattr(entry, by))})
    assert said is not None and f"nobody is a regular user (uid {entry.pw_uid})" in said.message
    (tmp_path / "nobody").touch()  # type: ignore[operator]
    assert finding({"User": "nobody"}) is None
