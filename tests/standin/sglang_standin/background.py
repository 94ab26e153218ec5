"""Threads beside the main one, which alone hears signals: another's would leave it asleep in its lock."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

HEARD = {signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD, signal.SIGINT}


def start(work: Callable[..., None], *arguments: Any) -> None:
    """Runs ``work`` in a thread that ends with the process and that inherits a mask of all signals heard."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        threading.Thread(target=work, args=arguments, daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
