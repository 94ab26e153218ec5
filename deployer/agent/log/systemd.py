"""What systemd's own lines about a unit say. Wording of systemd 247 to 257, which does not translate it."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from deployer.agent.log.lines import Line
from deployer.protocol import patterns

STARTING, STARTED, STOPPING, STOPPED, FAILED_START = "starting", "started", "stopping", "stopped", "failed-start"
EXITED, CONTROL, RESULT, GOOD, RESTART, LIMIT, TIMEOUT, OOM, STEP, REBOOT, OTHER = (
    "exited", "control", "result", "good", "restart", "limit", "timeout", "oom", "step", "reboot", "other",
)

_JOB = patterns.compile(r"^(Starting|Started|Stopping|Stopped|Finished|Reloading|Reloaded|Failed to start) (.+)$")
_UNIT = patterns.compile(r"^((?:[\w@:.-]|\\x[0-9a-f]{2})+\.(?:service|scope|slice|socket|timer|mount|target)): (.+)$")
_NAME = patterns.compile(r"^(\S+\.(?:service|scope|slice|socket|timer|mount|target|path|device|swap))(?:\s|\.|$)")
_STATUS = patterns.compile(r"code=(\w+), status=(\d+)/?(\w*)")
_STEP = patterns.compile(r"Failed at step (\w+) spawning (.+?): (.*)$")
_REBOOT = patterns.compile(r"^-- (?:Boot [0-9a-f]+|Reboot) --$")
_JOBS = {"Starting": STARTING, "Started": STARTED, "Stopping": STOPPING, "Stopped": STOPPED,
    "Failed to start": FAILED_START}
# Units of every machine that are started and stopped around ours.
_FOREIGN = patterns.compile(
    r"^(?:Session \S+ of |User |Daily |system |Cleanup |Hostname |Network |Time |Rotate |Message |Online "
    r"|session-)", re.I
)


class Event(NamedTuple):
    """``kind`` is one of the names above; ``unit`` is "" where the line gives only a description."""

    kind: str
    unit: str
    code: str = ""                 # exited, killed, dumped
    status: str = ""               # 1/FAILURE, 9/KILL, 203/EXEC
    step: str = ""                 # EXEC, USER, CHDIR …
    what: str = ""


def event(line: Line) -> Optional[Event]:
    """What ``line`` says about a unit; None for lines of anybody else."""
    text = line.text
    if line.stamp is not None or line.source in ("process", "kernel", "journald"):
        return None
    if text.startswith("-- ") and _REBOOT.match(text):
        return Event(REBOOT, "")
    match = _UNIT.match(text)
    if match:
        return _about(match[1], match[2])
    match = _JOB.match(text) if text[:1] in "SFR" else None
    if match and match[1] in _JOBS:
        name = _NAME.match(match[2])
        if not name and (_FOREIGN.match(match[2]) or (line.source == "" and not match[2].rstrip("…").endswith("."))):
            return Event(OTHER, "")
        return Event(_JOBS[match[1]], name[1] if name else (line.unit if line.source else ""), what=match[2])
    return None


def _about(unit: str, text: str) -> Event:
    if text.startswith("Main process exited"):
        return _status(EXITED, unit, text)
    if text.startswith("Control process exited"):
        return _status(CONTROL, unit, text)
    if text.startswith("Failed with result"):
        return Event(RESULT, unit, what=text.split("'")[1] if text.count("'") > 1 else "")
    if text.startswith("Scheduled restart job"):
        return Event(RESTART, unit)
    if text.startswith("Start request repeated too quickly"):
        return Event(LIMIT, unit)
    if "operation timed out" in text.lower():
        return Event(TIMEOUT, unit, what=text.split(" ")[0].lower())
    if "killed by the OOM killer" in text:
        return Event(OOM, unit)
    if text.startswith(("Deactivated successfully", "Succeeded.")):
        return Event(GOOD, unit)
    step = _STEP.search(text)
    if step:
        return Event(STEP, unit, step=step[1], what=step[2])
    return Event(OTHER, unit, what=text)


def _status(kind: str, unit: str, text: str) -> Event:
    match = _STATUS.search(text)
    if not match:
        return Event(kind, unit)
    return Event(kind, unit, match[1], "{}/{}".format(match[2], match[3]) if match[3] else match[2])
