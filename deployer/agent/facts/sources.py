"""The source texts that declare a program's arguments, for a release that the client's catalogue does not have."""

from __future__ import annotations

import base64
import json
import os
import zlib
from typing import Any, Dict, List, Optional

from deployer.agent.door import Emit, Refusal
from deployer.agent.facts.sglang import site_packages
from deployer.protocol.codec import Unknown

PLACES = {
    "sglang": ("sglang/srt/server_args.py", "sglang/srt/arg_groups"),
    "router": ("sglang_router/router_args.py", "sglang_router/launch_router.py"),
}
"""Program -> files, and folders read with all below them (sglang/srt/arg_groups from 0.5.14 on)."""

LARGEST = 8 << 20
"""Bytes read in all: the files of 0.5.23 come to 0.9 MB."""


def sources(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """``{python, program}`` -> ``{files}``: path below site-packages -> text, as JSON, compressed, in base64.

    Files that are not there are left out. Refuses with "no-sources" where none is.
    """
    folder = site_packages(str(data["python"]))
    if isinstance(folder, Unknown):
        raise Refusal("no-sources", folder.reason)
    files: Dict[str, str] = {}
    left = LARGEST
    for place in PLACES[str(data.get("program") or "sglang")]:
        for path in _files(folder, place):
            text = _read(os.path.join(folder, path), left)
            if text is not None:
                files[path] = text
                left -= len(text)
    if not files:
        raise Refusal("no-sources", "nothing of it lies in {}".format(folder))
    packed = zlib.compress(json.dumps(files).encode("utf-8"), 6)
    return {"files": base64.b64encode(packed).decode("ascii")}


def _files(folder: str, place: str) -> List[str]:
    if place.endswith(".py"):
        return [place]
    found = []
    for parent, names, entries in os.walk(os.path.join(folder, place)):
        names.sort()
        found += [os.path.relpath(os.path.join(parent, entry), folder)
                  for entry in sorted(entries) if entry.endswith(".py")]
    return found


def _read(path: str, most: int) -> Optional[str]:
    try:
        if os.path.getsize(path) > most:
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None
