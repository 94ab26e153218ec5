"""The server's own processes: watchdogs, the warm-up, exceptions without a rule."""

from __future__ import annotations

import re

from deployer.agent.log.known import Known
from deployer.agent.log.signs import SAID, Cause, Seen, sign
from deployer.protocol import patterns

_PROXY = patterns.compile(r"proxy|squid|cannot reach|Forbidden|Bad Gateway|50[234]|40[37]", re.IGNORECASE)


def _hard(known: Known, match: "re.Match[str]") -> bool:
    return "soft=True" not in match.string


def _watchdog(known: Known, seen: Seen) -> str:
    match = re.search(r"watchdog_timeout=([\d.]+)", seen.text)
    return (
        "A forward pass hung{}: read the stack dump before this line for what it waits in (a collective: a rank is "
        "gone or slow; a compiler: the first use of a kernel). Only when it was merely slow raise --watchdog-timeout."
    ).format(" for more than {} s".format(match[1]) if match else "")


def _warmup(known: Known, seen: Seen) -> str:
    return (
        "The server came up, its own first request did not succeed. It asks itself over HTTP: with http_proxy in the "
        "unit's environment set no_proxy to 127.0.0.1,localhost and the address of --host. Otherwise read the "
        "traceback after this line; --skip-server-warmup (0.4.9 on) leaves the request out."
    )


ADVICE = (
    ("out of memory", "GPU memory ran out while serving: lower --mem-fraction-static or --chunked-prefill-size, or "
                      "--max-running-requests."),
    ("host memory should be larger than the device memory", "The host pool must be larger than the device pool in this "
     "release: raise --hicache-ratio above 1 or --hicache-size."),
    ("illegal memory access", "A kernel read where it must not: try another --attention-backend or release, and report "
                              "it with this traceback."),
    ("ecc error", "The GPU reports a memory fault: `dmesg -T | grep -i xid`, then reset or replace it."),
    ("fallen off the bus", "The GPU is gone from the bus: `dmesg -T | grep -i xid`, then power the host down and up."),
    ("unspecified launch failure", "A kernel died: `dmesg -T | grep -i xid` tells whether the GPU itself is at fault."),
    ("other ranks that didn't finish loading", "Another rank ended or hangs while it loads: look for its last lines, "
     "and for the kernel's OOM killer (`dmesg -T | grep -i oom`)."),
    ("hicache", "Look at the arguments of the hierarchical cache (--hicache-*)."),
)
"""Words of an exception without a rule -> what is known to help."""


def advice(text: str) -> str:
    """What is known to help against an exception of these words, or ""."""
    lowered = text.lower()
    return next((words for needle, words in ADVICE if needle in lowered), "")


def _exception(known: Known, seen: Seen) -> str:
    return advice(seen.text) or (
        "No rule is known for this exception: `{}`. Read the traceback in the log; search SGLang's issues for its "
        "last line, and try a neighbouring release."
    ).format(re.sub(r"^\[[^\]]*\] ", "", seen.text).strip()[:240])


CAUSES = (
    Cause("watchdog-timeout", 50, "a forward pass hangs longer than the watchdog allows", _watchdog, (
        sign("atchdog timeout (", r"(?:^|\w )watchdog timeout \(", SAID, 3, _hard),
    )),
    Cause("warmup-failed", 55, "the server came up, its own first request did not succeed", _warmup, (
        sign("Initialization failed. warmup error:", kind=SAID, strength=3),
    )),
    Cause("scheduler-exception", 60, "an exception in a rank for which no rule exists", _exception),
)
