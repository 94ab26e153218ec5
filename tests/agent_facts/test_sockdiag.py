"""The kernel's two accounts of listening sockets agree."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from deployer.agent.facts.sockdiag import listeners
from deployer.agent.facts.sockets import listening, tables


def test_netlink_says_what_proc_says() -> None:
    with ExitStack() as stack:
        own = []
        for family, address in [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1"),
                                (socket.AF_INET6, "::")] * 40:
            made = stack.enter_context(socket.create_server((address, 0), family=family))
            own.append((address, made.getsockname()[1]))
        ports = {port for _, port in own}
        there = sorted(row for row in listeners() if row[1] in ports)
        assert [row[:2] for row in there] == sorted(own)
        assert there == sorted(row for row in tables() if row[1] in ports)


def test_where_netlink_is_denied_the_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied() -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr("deployer.agent.facts.sockets.listeners", denied)
    with socket.create_server(("127.0.0.1", 0)) as made:
        assert made.getsockname()[1] in {row.port for row in listening()}
