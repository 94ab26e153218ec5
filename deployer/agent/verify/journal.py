"""The unit's journal, followed by one child process and decoded tolerantly.

Facts (systemd 252): ``-o json`` gives null for a line of more than 4 KiB unless ``--all``; a line with bytes that are
no plain text comes as a list of integers; a line over the limit (48 KiB) comes in pieces marked
``_LINE_BREAK=line-max``; ``-u`` matches what the unit's processes log, what systemd says of the unit, and what journald
says of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any, Dict, List, Optional, Sequence, Union

from deployer.agent.door import ENVIRONMENT, run
from deployer.agent.log.journal import message
from deployer.protocol import records

FIELDS = (
    "MESSAGE", "MESSAGE_ID", "_PID", "_SYSTEMD_INVOCATION_ID", "INVOCATION_ID", "_SYSTEMD_UNIT", "UNIT", "_LINE_BREAK",
    "_STREAM_ID", "N_DROPPED", "SYSLOG_IDENTIFIER",
)
RESTART_SCHEDULED = "5eb03494b6584870a536b337290809b3"
STARTING = ("7d4958e842da4a758f6c1cdc7b36dcc5", "39f53479d3a045ac8e11786248231fbf")
DROPPED = "a596d6fe7bfa4994828e72309e95d61e"
"""Message ids of systemd's catalogue (sd-messages.h): the same in every language."""
_PIECES = 1 << 20
_CHUNK = 1 << 16


@records.dataclass(frozen=True)
class Entry:
    """One line of the log. ``invocation``: of the start it belongs to, "" where the journal does not say."""

    text: str
    invocation: str = ""
    pid: int = 0
    message_id: str = ""
    systemd: bool = False                           # systemd's or journald's own words about the unit
    dropped: int = 0                                # messages that journald lost, as it says here
    cursor: str = ""


def decode(raw: Union[bytes, str]) -> Optional[Dict[str, Any]]:
    """One JSON line as journalctl writes it, or None where it is none."""
    try:
        row = json.loads(raw)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


class Joiner:
    """Rows to entries; pieces of a line that was split are put together again, each stream for itself."""

    def __init__(self) -> None:
        self._pieces: Dict[str, str] = {}

    def entry(self, row: Dict[str, Any]) -> Optional[Entry]:
        """The entry that ``row`` completes, or None while more of its line is to come."""
        text, pid = message(row.get("MESSAGE")) or "", _one(row, "_PID")
        stream = _one(row, "_STREAM_ID") or pid
        text = self._pieces.pop(stream, "") + text
        if _one(row, "_LINE_BREAK") == "line-max" and len(text) < _PIECES:
            self._pieces[stream] = text
            return None
        # INVOCATION_ID stands in what systemd says about a unit, _SYSTEMD_INVOCATION_ID in what its processes say.
        about = _one(row, "INVOCATION_ID")
        message_id, dropped = _one(row, "MESSAGE_ID"), _one(row, "N_DROPPED")
        return Entry(
            text=text, invocation=about or ("" if message_id == DROPPED else _one(row, "_SYSTEMD_INVOCATION_ID")),
            pid=int(pid) if pid.isdigit() else 0, message_id=message_id,
            systemd=bool(about) or message_id == DROPPED or (pid == "1" and bool(_one(row, "UNIT"))),
            dropped=int(dropped) if dropped.isdigit() else 0, cursor=_one(row, "__CURSOR"),
        )


def _one(row: Dict[str, Any], key: str) -> str:
    value = row.get(key)
    if isinstance(value, list):
        value = value[0] if value else None
    return str(value) if value is not None else ""


class Follower:
    """``journalctl -f`` as a child: ``fileno()`` to wait on, ``read()`` for what has come, ``close()`` to end it."""

    def __init__(self, selection: Sequence[str]) -> None:
        argv = ["journalctl", "-q", "-f", "-o", "json", "--all", "--output-fields=" + ",".join(FIELDS), *selection]
        try:
            self._process: Optional["subprocess.Popen[bytes]"] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=dict(ENVIRONMENT), start_new_session=True)
        except OSError:
            self._process = None
            return
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        self._rest = b""
        self._joiner = Joiner()

    @property
    def running(self) -> bool:
        return self._process is not None

    def fileno(self) -> int:
        return self._out if self._process is not None else -1

    def read(self, at_most: int = 4000) -> List[Entry]:
        """What has come so far, at most so many rows, so that a flood leaves time for the rest; ends the child's
        side quietly when it ended itself."""
        entries: List[Entry] = []
        rows = 0
        while self._process is not None and rows < at_most:
            try:
                chunk = os.read(self._out, _CHUNK)
            except BlockingIOError:
                break
            if not chunk:
                self.close()
                break
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            rows += len(lines)
            for line in lines:
                row = decode(line)
                entry = self._joiner.entry(row) if row is not None else None
                if entry is not None:
                    entries.append(entry)
        return entries

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def read_once(selection: Sequence[str]) -> List[Entry]:
    """What there is now, without waiting for more."""
    fields = "--output-fields=" + ",".join(FIELDS)
    ran = run(["journalctl", "-q", "-o", "json", "--all", fields, *selection], timeout=10)
    joiner = Joiner()
    entries = (joiner.entry(row) for row in map(decode, ran.out.splitlines()) if row is not None)
    return [entry for entry in entries if entry is not None]


def since_mark(unit: str, cursor: Optional[str], realtime: float) -> List[str]:
    """Selects what the unit logs from a mark on; the marked entry itself may be among it.

    Not ``--after-cursor``: where the marked entry is not the unit's own, systemd 252 skips the first one that is.
    """
    after = ["--cursor=" + cursor] if cursor else ["--since=@{}".format(int(realtime))]
    return ["-n", "all", "-u", unit, *after]


def of_invocation(invocation: str, beginning: bool) -> List[str]:
    """Selects one start's entries, from its beginning or only new ones."""
    count = "all" if beginning else "0"
    return ["-n", count, "_SYSTEMD_INVOCATION_ID=" + invocation, "+", "INVOCATION_ID=" + invocation]
