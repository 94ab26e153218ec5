"""Starting a transaction apart from whoever asked for it: a transient unit of its own, in its own cgroup."""

from __future__ import annotations

import os
import time

from deployer.agent import home
from deployer.agent.door import Refusal, run

PREFIX = "deployer-push-"


def unit_name(unit: str, number: int) -> str:
    """A name of its own for each push, and for each time that it is entered."""
    stem = unit.rsplit(".", 1)[0].replace("@", "-at-").replace("\\", "-")
    return "{}{}-{}-{}.service".format(PREFIX, stem, number, format(time.time_ns() // 1000, "x"))


def detach(unit: str, number: int) -> str:
    """Starts ``transact(unit, number)``; the transient unit's name. Raises Refusal.

    ``Restart=on-abnormal``: a transaction that is killed comes back once and undoes what it had begun; a failed
    transient unit would block its name, hence ``--collect`` and a fresh one each time.
    """
    name = unit_name(unit, number)
    ran = run([
        "systemd-run", "--quiet", "--collect", "--no-block", "--unit=" + name,
        "--description=deployer: push of {} release {}".format(unit, number),
        "--property=Type=exec", "--property=KillMode=control-group", "--property=Restart=on-abnormal",
        "--property=RestartSec=200ms", "--property=StartLimitBurst=3", "--property=StartLimitIntervalSec=600",
        "--property=MemoryMax=512M", "--property=TasksMax=128", "--property=OOMScoreAdjust=-500",
        "--property=TimeoutStopSec=5s", "--property=RuntimeMaxSec=infinity", "--property=CPUWeight=20",
        "--setenv=PATH=" + os.environ.get("PATH", ""),
        *home.command("transact", unit, str(number)),
    ], timeout=30)
    if not ran.ok:
        raise Refusal("detach-failed", "systemd-run: {}".format(ran.said))
    return name


def running(unit: str, number: int) -> bool:
    """Whether a transient unit of this transaction is still there."""
    stem = unit_name(unit, number).rsplit("-", 1)[0]
    ran = run(["systemctl", "list-units", "--plain", "--no-legend", "--all", "--", stem + "-*.service"], timeout=20)
    return any(line.split()[2:3] not in (["inactive"], ["failed"]) for line in ran.out.splitlines() if line.strip())
