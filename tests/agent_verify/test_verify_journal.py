"""The journal's own traps: null and list messages, split lines, suppressions, whose start a line belongs to."""

from __future__ import annotations

import json
from typing import Any

from deployer.agent.log.journal import message
from deployer.agent.verify.journal import DROPPED, Entry, Joiner, decode, of_invocation, since_mark


def rows(*items: dict[str, Any]) -> list[Entry]:
    joiner = Joiner()
    found = [joiner.entry(row) for item in items for row in [decode(json.dumps(item))] if row is not None]
    return [entry for entry in found if entry is not None]


def test_messages_of_every_shape() -> None:
    assert message(None) is None and message([]) is None
    assert message([76, 111, 13, 195, 164]) == "Lo\rä"
    assert message([255, 65]) == "\ufffdA"
    assert message(["one", [116, 119, 111]]) == "one\ntwo"
    assert [entry.text for entry in rows({"MESSAGE": None}, {"MESSAGE": [76, 111]})] == ["", "Lo"]
    assert decode(b"not json") is None and decode("[1]") is None


def test_a_split_line_is_put_together_for_each_stream() -> None:
    found = rows(
        {"MESSAGE": "server_args=", "_STREAM_ID": "a", "_LINE_BREAK": "line-max", "_PID": "7"},
        {"MESSAGE": "other", "_STREAM_ID": "b", "_PID": "8"},
        {"MESSAGE": "Server", "_STREAM_ID": "a", "_LINE_BREAK": "line-max", "_PID": "7"},
        {"MESSAGE": "Args()", "_STREAM_ID": "a", "_PID": "7"},
    )
    assert [entry.text for entry in found] == ["other", "server_args=ServerArgs()"]


def test_a_line_without_end_is_cut() -> None:
    piece = {"MESSAGE": "x" * 400_000, "_STREAM_ID": "a", "_LINE_BREAK": "line-max"}
    assert [len(entry.text) for entry in rows(piece, piece, piece)] == [1_200_000]


def test_whose_start() -> None:
    own, about, dropped = rows(
        {"MESSAGE": "a", "_SYSTEMD_INVOCATION_ID": "i1", "_PID": "7"},
        {"MESSAGE": "Started.", "INVOCATION_ID": "i1", "_SYSTEMD_INVOCATION_ID": "", "_PID": "1", "UNIT": "x.service"},
        {"MESSAGE": "Suppressed 12 messages", "MESSAGE_ID": DROPPED, "N_DROPPED": "12",
         "_SYSTEMD_INVOCATION_ID": "journald"},
    )
    assert (own.invocation, own.systemd, own.pid) == ("i1", False, 7)
    assert (about.invocation, about.systemd) == ("i1", True)
    assert (dropped.invocation, dropped.systemd, dropped.dropped) == ("", True, 12)


def test_selections() -> None:
    assert since_mark("x.service", "s=1", 5.0)[-1] == "--cursor=s=1"
    assert since_mark("x.service", None, 5.7)[-1] == "--since=@5"
    assert of_invocation("i", False)[:2] == ["-n", "0"]
