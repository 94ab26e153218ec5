"""The error tree. Expected errors become one line, a hint and an exit code; anything else is a fault of the tool.

    DeployerError                  what happened, the state now, the next command
    ├── UsageError            2    the command line asks for something that does not exist
    ├── SettingsError         2    settings or templates invalid: carries findings
    ├── HostError             3    a host was not reached
    │   ├── ConnectError      3    network, SSH, authentication
    │   ├── HostKeyError      3    unknown or changed host key
    │   ├── SudoError         3    sudo refused
    │   └── AgentError        3    the agent did not start, broke off, or answered nonsense
    │       └── OperationError 3   an operation on the host was refused or failed: carries code and data
    ├── LockedError           6    another push holds the lock
    └── RefusedError          7    nothing was changed: preflight, drift, foreign holder
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployer.protocol.finding import Finding


class DeployerError(Exception):
    """``message``: what happened. ``state``: the state now. ``hint``: the next command, or what to write."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "", state: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.state = state


class UsageError(DeployerError):
    exit_code = 2


class SettingsError(DeployerError):
    """Settings that cannot be used; ``findings`` hold every reason, with places."""

    exit_code = 2

    def __init__(self, message: str, findings: Sequence[Finding] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.findings = tuple(findings)


class HostError(DeployerError):
    """``host`` is the destination as the admin wrote it."""

    exit_code = 3

    def __init__(self, host: str, message: str, *, hint: str = "", state: str = "") -> None:
        super().__init__(message, hint=hint, state=state or "nothing was changed on the host")
        self.host = host


class ConnectError(HostError):
    pass


class HostKeyError(HostError):
    pass


class SudoError(HostError):
    pass


class AgentError(HostError):
    pass


class OperationError(AgentError):
    """The agent's ``error`` event: ``code`` is stable and dashed ("agent-fault", "locked"), ``data`` its figures."""

    def __init__(
        self, host: str, code: str, message: str, data: Mapping[str, Any], *, hint: str = "", state: str = ""
    ) -> None:
        super().__init__(host, message, hint=hint, state=state)
        self.code = code
        self.data = dict(data)


class LockedError(DeployerError):
    exit_code = 6


class RefusedError(DeployerError):
    """Nothing was changed; ``findings`` say why."""

    exit_code = 7

    def __init__(self, message: str, findings: Sequence[Finding] = (), *, hint: str = "",
                 state: str = "nothing was changed on the host") -> None:
        super().__init__(message, hint=hint, state=state)
        self.findings = tuple(findings)
