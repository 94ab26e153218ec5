"""What the stand-in is to do beyond a plain good start: read from a file at the start, changed through the socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILES = (Path("/etc/standin.json"), Path("/run/standin/behaviour.json"))

DEFAULTS: dict[str, Any] = {
    "hold": [],                 # phases at which it waits for "advance"
    "delay": {},                # phase -> seconds
    "fail": None,               # {"at": PHASE, "how": NAME, ...}; see failures.py
    "orphans": False,           # children outlive the main process
    "ignore_term": False,       # SIGTERM is not heard
    "stop_seconds": 0.0,        # how long a clean stop takes
    "health": None,             # a status that /health answers whatever the truth
    "health_seconds": 0.0,      # how long /health takes (the real one: at least 1.0)
    "generate_seconds": 0.0,
    "token_seconds": 0.0,       # per token of a completion
    "hold_requests": False,     # /generate does not answer before "finish"
    "answer": None,             # text of every completion
    "tokens": None,             # max_total_num_tokens, instead of the computed one
    "kv_dtype": None,           # what the pool is, whatever was asked for ("float8_e4m3fn")
    "server_info": {},          # merged over what /server_info says
    "weights_gib": None,        # weights per rank, instead of the model folder's
    "host_memory": None,        # bytes available for the hierarchical cache, instead of the machine's
    "bind_patience": 153.0,     # seconds until it gives up on a port held by something that is no SGLang
    "lines": {},                # phase -> further log lines
    "quiet": False,             # no log at all (another logging config)
    "ranks": {},                # rank -> {"extra_mib": N}: ranks that are not alike
}


class Behaviour:
    """Rules of the file are ``{"when": {DEST: VALUE}, ...}``: those whose arguments match are merged, in order."""

    def __init__(self, args: dict[str, Any]) -> None:
        self._values = dict(DEFAULTS)
        for file in FILES:
            for rule in _rules(file):
                when = rule.get("when", {})
                if all(args.get(name) == wanted for name, wanted in when.items()) and _first(rule, file):
                    self._values.update({name: entry for name, entry in rule.items() if name in DEFAULTS})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def update(self, values: dict[str, Any]) -> None:
        unknown = set(values) - set(DEFAULTS)
        if unknown:
            raise KeyError(", ".join(sorted(unknown)))
        self._values.update(values)


def _rules(file: Path) -> list[dict[str, Any]]:
    try:
        return list(json.loads(file.read_text()))
    except OSError:
        return []


def _first(rule: dict[str, Any], file: Path) -> bool:
    """A rule with ``times: N`` is spent after N starts; the count lies beside the file."""
    if "times" not in rule:
        return True
    count = file.with_name(f"used-{rule.get('id', 'rule')}")
    used = int(count.read_text()) if count.exists() else 0
    if used >= rule["times"]:
        return False
    count.write_text(str(used + 1))
    count.chmod(0o666)
    return True
