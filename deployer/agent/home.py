"""Where this agent's own code lies, and how another process of the same code is started."""

from __future__ import annotations

import fcntl
import os
import sys
from typing import List

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that holds ``deployer/``. On a host its name is the hash of what is in it."""


def code_hash() -> str:
    """The hash that names this code; empty where it runs from a checkout."""
    name = os.path.basename(ROOT)
    return name if len(name) == 32 and not name.strip("0123456789abcdef") else ""


def command(entry: str, *arguments: str) -> List[str]:
    """The command line that starts ``entry`` of ``deployer.agent.__main__`` with this very code and this Python."""
    return [
        sys.executable or "/usr/bin/python3", "-IS", "-X", "utf8",
        os.path.join(ROOT, "deployer", "agent", "__main__.py"), entry, *arguments,
    ]


def hold() -> int:
    """Keeps this code from being pruned while the process lives (``deployer.agent.unpack``); returns the descriptor.

    Modules are imported late, so a running agent needs its folder. The lock goes with the process.
    """
    held = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if code_hash():
            os.utime(held)                          # "last used" is what pruning goes by
    except OSError:
        pass                                        # being pruned at this moment, or a read-only disk
    return held
