"""What the journal puts around a line: prefixes of ``journalctl -o short`` and its kin, and ``-o json`` objects.

Seen with systemd 252: ``MESSAGE`` is null for a long line unless ``-a``, an array of integers for a line with control
bytes, and a line over the limit comes in pieces, each but the last with ``_LINE_BREAK=line-max``.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any, Dict, List, NamedTuple, Optional

from deployer.protocol import patterns

# Month names follow the reader's locale ("Dez", "févr.", "11月"), so any word is one. Also short-iso, short-full,
# short-unix, short-monotonic, and what docker and compose write before a line.
_STAMP = (
    r"(?:(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?P<frac>[.,]\d+)?(?:(?P<zulu>Z)|[+-]\d\d:?\d\d)?"
    r"|[^\s\[\]]+ (?P<full>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<frac2>\.\d+)? [A-Z][A-Za-z0-9+-]*"
    r"|(?P<short>[^\s\d\[\]()]\S{0,11}|\d{1,2}[^\s\d]\S{0,3}) {1,2}(?P<day>\d{1,2}) "
    r"(?P<clock>\d\d:\d\d:\d\d)(?P<frac3>\.\d+)?"
    r"|(?P<unix>\d{9,10}\.\d{3,6})"
    r"|\[ *(?P<mono>\d+\.\d+)\])"
)
_PREFIX = patterns.compile(
    "^" + _STAMP + r" (?P<host>[^\s\[\]:]+) (?P<tag>\(?[^\s:\[\]]{1,80}?\)?)(?:\[(?P<pid>\d+)\])?: ?"
)
_DOCKER = patterns.compile(r"^(?:[\w.-]+ +\| )?(?:(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?P<frac>\.\d+)?Z )?")
_DMESG = patterns.compile(r"^\[ *\d+\.\d+\] ")
_BLOB = patterns.compile(r"^\[\d+(?:\.\d+)?[BKMGT]? blob data\]$")
_LIMIT = 8 << 20


class Entry(NamedTuple):
    """One line as it was written, with what the journal knows about it. ``at``: seconds; None: not known.

    ``text`` is None where the journal did not give the line (``MESSAGE`` null or a blob).
    """

    text: Optional[str]
    at: Optional[float]
    source: str                    # process, systemd, kernel, journald, "" (nothing is known: a plain line)
    unit: str = ""
    invocation: str = ""
    width: int = 0
    lost: str = ""                 # "null" or "blob" where text is None
    pid: str = ""


def source_of(tag: str) -> str:
    """Whose line it is, by its tag. systemd's own child before it becomes the program has its name in brackets."""
    if tag == "systemd" or tag.startswith("("):
        return "systemd"
    if tag == "kernel":
        return "kernel"
    if tag == "systemd-journald":
        return "journald"
    return "systemd" if tag == "systemd-oomd" else "process"


def short(line: str) -> Optional[Entry]:
    """``line`` without its prefix, or None where it has none that is known."""
    match = _PREFIX.match(line)
    if not match or (match["zulu"] and not (match["pid"] or match["tag"] == "kernel")):
        return None
    text = line[match.end():]
    at = _time(match)
    source = source_of(match["tag"])
    if text.endswith("blob data]") and _BLOB.match(text):
        return Entry(None, at, source, width=match.end(), lost="blob")
    if source == "kernel":
        text = _DMESG.sub("", text)
    return Entry(text, at, source, width=match.end(), pid=match["pid"] or "")


def docker(line: str) -> str:
    """``line`` without what ``docker logs -t`` or compose put before it, where that is followed by a line of ours."""
    match = _DOCKER.match(line)
    rest = line[match.end():] if match else line
    return rest if match and match.end() else line


def utc(stamp: str) -> float:
    """``YYYY-mm-dd HH:MM:SS``, read as UTC, in epoch seconds; raises ValueError."""
    return datetime.fromisoformat(stamp).replace(tzinfo=timezone.utc).timestamp()


def _time(match: "re.Match[str]") -> Optional[float]:
    try:
        if match["iso"]:
            return utc(match["iso"]) + float((match["frac"] or ".0").replace(",", "."))
        if match["full"]:
            return utc(match["full"]) + float(match["frac2"] or 0)
        if match["clock"]:
            hours, minutes, seconds = (int(part) for part in match["clock"].split(":"))
            return int(match["day"]) * 86400.0 + hours * 3600 + minutes * 60 + seconds + float(match["frac3"] or 0)
        return float(match["unix"] or match["mono"])
    except ValueError:
        return None


class Json:
    """Reads ``journalctl -o json`` lines one by one and puts split lines together again."""

    def __init__(self) -> None:
        self._parts: Dict[str, List[str]] = {}
        self._size = 0

    def entries(self, line: str) -> Optional[List[Entry]]:
        """The entries that ``line`` completes; None where it is no object of the journal's."""
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict) or not ("MESSAGE" in data or "__REALTIME_TIMESTAMP" in data):
            return None
        said = message(data.get("MESSAGE"))
        stream = str(data.get("_STREAM_ID") or data.get("_PID") or "")
        if said is not None and data.get("_LINE_BREAK") == "line-max":
            self._size += len(said)
            if self._size < _LIMIT:
                self._parts.setdefault(stream, []).append(said)
            return []
        if said is not None and stream in self._parts:
            said = "".join(self._parts.pop(stream)) + said
            self._size = sum(len(part) for parts in self._parts.values() for part in parts)
        return _made(data, said)


def _made(data: Dict[str, Any], said: Optional[str]) -> List[Entry]:
    at = _number(data.get("__REALTIME_TIMESTAMP"), 1e6)
    tag = str(data.get("SYSLOG_IDENTIFIER") or data.get("_COMM") or "")
    source = "kernel" if data.get("_TRANSPORT") == "kernel" else source_of(tag)
    if data.get("_PID") == "1":
        source = "systemd"
    unit = str(data.get("UNIT") or data.get("_SYSTEMD_UNIT") or "")
    invocation = str(data.get("INVOCATION_ID") or data.get("_SYSTEMD_INVOCATION_ID") or "")
    if said is None:
        return [Entry(None, at, source, unit, invocation, lost="null")]
    return [Entry(text, at, source, unit, invocation) for text in said.split("\n")]


def message(value: Any) -> Optional[str]:
    """A ``MESSAGE``: text, bytes as an array of integers, or several of these; None for a line that was too long."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        if all(isinstance(item, int) and 0 <= item < 256 for item in value):
            return bytes(value).decode("utf-8", "replace")
        return "\n".join(part for part in map(message, value) if part is not None)
    return None


def _number(value: Any, scale: float) -> Optional[float]:
    try:
        return float(value) / scale
    except (TypeError, ValueError):
        return None
