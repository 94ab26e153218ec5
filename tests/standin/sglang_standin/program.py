"""The entry: what ``python -m sglang.launch_server`` and ``sglang serve`` run in the pretended environment."""

from __future__ import annotations

import json
from pathlib import Path

from . import arguments
from .release import Release
from .server import Server, site_packages


def main(words: list[str], package: Path) -> int:
    """``package`` is the pretended sglang package, with ``version.py`` and, where known, ``flags.json`` beside."""
    release = Release((package / "standin-release").read_text().strip())
    table = package / "flags.json"
    flags = json.loads(table.read_text()) if table.exists() else {}
    try:
        args = arguments.parse(words, release, flags)
    except arguments.UsageError as error:
        arguments.complain(error, release)
        return 2
    return Server(args, release, site_packages()).run()
