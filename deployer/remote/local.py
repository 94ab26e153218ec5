"""This machine without SSH: the same agent, started the same way, over two pipes."""

from __future__ import annotations

import getpass

from deployer.errors import AgentError, SudoError
from deployer.protocol.message import Hello
from deployer.remote import bootstrap
from deployer.remote.ask import Ask
from deployer.remote.bundle import Bundle
from deployer.remote.stream import PipeStream


def connect(name: str, become: str, bundle: Bundle, ask: Ask) -> tuple[PipeStream, Hello]:
    """Starts the agent, with sudo where this user is not root and ``become`` is "sudo"; raises HostError."""
    mark = bootstrap.new_mark()
    try:
        stream = PipeStream(bootstrap.argv(mark, bundle.hash, become))
    except OSError as error:
        raise AgentError(name, f"the agent could not be started: {error}") from None
    login = bootstrap.Login(name, getpass.getuser(), "localhost", become)
    try:
        return stream, bootstrap.greet(stream, mark, bundle, login, ask)
    except bootstrap.NeedsTerminal:
        stream.close()
        raise SudoError(name, "sudo on this machine works on a terminal only (requiretty)",
                        hint="run the command as root") from None
    except BaseException:
        stream.close()
        raise
