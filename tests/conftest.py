"""For all tests."""

from __future__ import annotations

import signal

# A shell that runs a job in the background has it ignore Ctrl-C, which children inherit; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
