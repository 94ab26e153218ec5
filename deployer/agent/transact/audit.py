"""One line in the journal for each act that changed something."""

from __future__ import annotations

import syslog


def audit(unit: str, text: str) -> None:
    """Logged as ``deployer`` with the unit's name, for ``journalctl -t deployer``."""
    syslog.openlog("deployer", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_NOTICE, "{}: {}".format(unit, text))
