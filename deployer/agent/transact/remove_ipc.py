"""Shared memory that logind removes: RemoveIPC= of logind.conf(5), and whose units it meets.

Tried on systemd 252: with a service's User= of a regular uid the end of that user's last session (an SSH logout)
deleted the service's segments in /dev/shm, in which SGLang's ranks and NCCL meet; those of a system user stayed.
"""

from __future__ import annotations

import os
import pwd
from typing import Mapping, Optional, Tuple

from deployer.agent.door import run
from deployer.protocol.finding import Finding, Level

SYSTEM_BELOW = 1000
"""The first regular uid: SYS_UID_MAX of login.defs(5) plus one, as distributions build systemd."""
LINGER = "/var/lib/systemd/linger"
_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "RemoveIPC")
_YES = ("yes", "true", "1", "on", "y", "t")


def finding(service: Mapping[str, str]) -> Optional[Finding]:
    """A warning where the unit's user is a regular one, and the running logind removes what it leaves."""
    if service.get("DynamicUser", "no").lower() in _YES or not service.get("User"):
        return None
    account = _account(service["User"])
    return judge(account, os.path.exists(os.path.join(LINGER, account[0])), _removes()) if account else None


def judge(account: Tuple[str, int], lingers: bool, removes: bool) -> Optional[Finding]:
    """``account``: name and uid. ``lingers``: its sessions never end for logind. ``removes``: logind's own word."""
    name, uid = account
    if uid < SYSTEM_BELOW or lingers or not removes:
        return None
    text = "{} is a regular user (uid {}): when its last session ends, logind removes the shared memory of this server"
    hint = "use a system user (useradd --system), or on the host: loginctl enable-linger {}".format(name)
    return Finding("remove-ipc", Level.WARNING, text.format(name, uid), key=("service", "User"), hint=hint)


def _account(user: str) -> Optional[Tuple[str, int]]:
    try:
        entry = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
        return entry.pw_name, entry.pw_uid
    except KeyError:
        return None


def _removes() -> bool:
    """Of the logind that runs; where none does, nobody's session ends."""
    ran = run(["busctl", "--system", "--auto-start=no", "--timeout=5", "get-property", *_LOGIND], timeout=10)
    return ran.ok and ran.out.split() == ["b", "true"]
