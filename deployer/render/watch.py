"""``[watch]``: a timer on the host that goes on asking for health after the push, with nothing but sh and curl."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deployer.protocol.expectations import Expectations
from deployer.render import templates
from deployer.render.credentials import FOLDER
from deployer.render.model import File
from deployer.settings.model import UnitSettings

UNITS = "/etc/systemd/system"
TEMPLATES = ("watch.sh", "watch.service", "watch.timer")


def files(
    settings: UnitSettings, names: Mapping[str, Any], expected: Expectations, workspace: Path | None
) -> tuple[File, ...]:
    """The timer, its service and its script; nothing without ``[watch]``."""
    watch = settings.watch
    if watch is None:
        return ()
    script = f"{FOLDER}/{settings.name}/watch.sh"
    known = {
        **names, "script": script, "url": shlex.quote(_url(expected)), "misses": watch.misses,
        "interval": math.ceil(watch.interval), "timeout": math.ceil(watch.timeout),
    }
    texts = [templates.fill(name, known, workspace, ("watch",)) for name in TEMPLATES]
    return (
        File(script, 0o644, "root:root", texts[0]),
        File(f"{UNITS}/{settings.name}-watch.service", 0o644, "root:root", texts[1]),
        File(f"{UNITS}/{settings.name}-watch.timer", 0o644, "root:root", texts[2]),
    )


def _url(expected: Expectations) -> str:
    host = f"[{expected.host}]" if ":" in expected.host else expected.host
    scheme = "https" if expected.args.get("ssl_certfile") else "http"
    # A router without workers is not ready, but no restart brings it one: its life is what is asked for.
    path = "/health" if expected.kind == "router" else expected.health.path
    return f"{scheme}://{host}:{expected.port}{path}"
