"""Sessions with the bed's hosts, for the tests of SSH and sudo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from deployer.errors import HostError
from deployer.remote import connect
from deployer.remote.ask import Ask
from deployer.remote.bundle import bundle
from deployer.remote.session import Session
from deployer.settings import model
from tests.hosts.bed import Host, Operator
from tests.remote.answers import Answers

PASSWORD = "bed-password"


@dataclass
class Line:
    """An operator's line to one host."""

    host: Host
    operator: Operator

    def open(self, user: str = "root", ask: Ask | None = None, become: str = "sudo") -> Session:
        host = model.Host(self.host.name, user=user, become=become)
        ask = ask or Answers()
        stream, hello, warnings = connect.connect(host, bundle, ask, [self.operator.config])
        return Session(host, stream, hello, ask, warnings)

    def uid(self, user: str = "root", ask: Ask | None = None, become: str = "sudo") -> int:
        """Opens a session, asks one thing, and closes it: the agent's user."""
        with self.open(user, ask, become) as session:
            assert session.call("ping", {"n": 1})["echo"] == {"n": 1}
            return session.hello.uid

    def refused(self, user: str, ask: Ask | None = None, become: str = "sudo") -> HostError:
        ask = ask or Answers()
        given = [*ask.answers] if isinstance(ask, Answers) else []
        with pytest.raises(HostError) as raised:
            self.uid(user, ask, become)
        error = raised.value
        assert error.host == self.host.name and error.hint
        assert error.state == "nothing was changed on the host"
        shown = f"{error.message} {error.hint} {error!r} {error.__cause__!r}"
        assert not [answer for answer in given if answer in shown], shown
        return error


MakeLine = Callable[[], Line]
