"""A unit's journal, redacted: what ``deployer logs`` shows."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Dict, List

from deployer.agent.door import ENVIRONMENT, Emit, Refusal, run
from deployer.agent.log.journal import message
from deployer.agent.store.releases import Store
from deployer.protocol.redact import Redactor

LINES = 200
"""Shown where nothing else is said."""


def logs(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """``{unit, lines, since, follow, release}`` -> ``log`` events with ``at`` (epoch seconds) and ``line``.

    ``release``: only what was logged while the push of that release went on.
    """
    store, unit = Store(), str(data["unit"])
    values = [value for number in store.numbers(unit) for value in store.secrets(unit, number).values()]
    redactor = Redactor(values)
    argv = ["journalctl", "--no-pager", "--output=json", "--all", "--unit=" + unit]
    argv += _window(store, unit, data)
    if data.get("follow"):
        _follow([*argv, "--follow"], redactor, emit)
        return {}
    ran = run(argv, timeout=60)
    if not ran.ok and not ran.out:
        raise Refusal("no-journal", "journalctl: {}".format(ran.said))
    lines = ran.out.splitlines()
    for line in lines:
        _tell(line, redactor, emit)
    return {"lines": len(lines)}


def _window(store: Store, unit: str, data: Dict[str, Any]) -> List[str]:
    if data.get("release") is not None:
        try:
            manifest = store.manifest(unit, int(data["release"]))
        except (OSError, ValueError) as error:
            raise Refusal("no-such-release", str(error)) from error
        window = ["--since=@{:.6f}".format(manifest.created)]
        window += ["--until=@{:.6f}".format(manifest.ended + 1.0)] if manifest.ended else []
        return window + (["--lines={}".format(int(data["lines"]))] if data.get("lines") else [])
    window = ["--since=" + str(data["since"])] if data.get("since") else []
    return [*window, "--lines={}".format(int(data.get("lines") or LINES))]


def _follow(argv: List[str], redactor: Redactor, emit: Emit) -> None:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env=ENVIRONMENT, text=True, errors="replace")
    assert process.stdout is not None
    try:
        for line in process.stdout:
            _tell(line, redactor, emit)
    finally:
        process.kill()
        process.wait()


def _tell(line: str, redactor: Redactor, emit: Emit) -> None:
    try:
        entry = json.loads(line)
    except ValueError:
        return
    text = message(entry.get("MESSAGE")) or ""
    at = int(entry.get("__REALTIME_TIMESTAMP") or 0) / 1e6
    emit("log", {"at": at, "line": redactor.text(text), "from": str(entry.get("SYSLOG_IDENTIFIER") or "")})
