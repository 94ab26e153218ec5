"""What is worth knowing of a start beside its outcome: one entry a finding. Also possible on a server that is ready."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from deployer.agent.log.causes.network import CAUSES as NETWORK_CAUSES
from deployer.agent.log.known import Known
from deployer.agent.log.median import median
from deployer.protocol import patterns

_KEY = patterns.compile(r"[({,] ?'?((?:admin_)?api_key)'?(?:=|: )('[^']*'|\"[^\"]*\"|[^,)}\s]+)")


class Noted(NamedTuple):
    """``line``: what it was read from, "" for the arguments (they may hold secrets); ``advice``: what to do."""

    code: str
    line: str
    advice: str


_LINES: Tuple[Tuple[str, str, str], ...] = (
    ("fp8-kv-no-scales-line", "Using FP8 KV cache but no scaling factors provided",
     "An argument or a model hook asked for an FP8 KV cache without scaling factors: accuracy on long contexts can "
     "suffer. It says nothing about scales in the checkpoint. To be sure set --kv-cache-dtype (bf16 from 0.5.4 on)."),
    ("max-running-requests-capped", "max_running_requests was reduced from",
     "Fewer requests than asked for run at once: more KV memory (--mem-fraction-static), or ask for less."),
    ("max-running-requests-capped", "max_running_requests is capped to",
     "The state cache limits the requests: raise --mamba-full-memory-ratio or --max-mamba-cache-size."),
    ("kv-pool-below-context", "fewer than --context-length",
     "One request of full length does not fit: lower --context-length or raise --mem-fraction-static."),
)


class Findings:
    """Collects findings of one start."""

    def __init__(self) -> None:
        self._seen: Dict[str, Noted] = {}

    def feed(self, body: str, text: str) -> None:
        """A line that is no bar."""
        for code, needle, advice in _LINES:
            if needle in body:
                self._seen.setdefault(code, Noted(code, text, advice))
        if "is smaller than the device pool" in body and "host" in body:
            self._seen.setdefault("hicache-host-pool-small", Noted(
                "hicache-host-pool-small", text, "The host pool adds little: raise --hicache-ratio or --hicache-size."))

    def arguments(self, body: str) -> None:
        for _, value in _KEY.findall(body):
            if value.strip("'\"*") not in ("", "None", "null", "<redacted>", "[redacted]", "REDACTED"):
                self._seen.setdefault("api-key-in-log", Noted(
                    "api-key-in-log", "",
                        "SGLang logs its arguments with the API key in clear: treat the journal as secret, change a "
                    "key that others could read."))

    def all(self, known: Known, starting: bool, cause: Optional[str]) -> List[Noted]:
        """What holds now, the cause of a failure not among it."""
        found = dict(self._seen)
        for capacity in known.capacities.values():
            tokens, context = capacity["max_total_num_tokens"], capacity["context_len"]
            if tokens is not None and context is not None and tokens < context:
                found.setdefault("kv-pool-below-context", Noted(
                    "kv-pool-below-context", "max_total_num_tokens={:.0f}, context_len={:.0f}".format(tokens, context),
                    _LINES[3][2]))
        if known.compiling and not known.timeline.ready_seen:
            found.setdefault("deepgemm-slow", Noted("deepgemm-slow", known.compiling_line, compile_advice(known)))
        stalled = stalled_shard(known.shard_bars)
        if stalled:
            found.setdefault("weights-stalled", Noted(
                "weights-stalled", stalled,
                    "Reading one shard took many minutes: look at the disk or the network file system (dmesg, iostat, "
                "nfsiostat), and whether others read from it."))
        found.pop(cause or "", None)
        return list(found.values())


def compile_advice(known: Known) -> str:
    """What helps against the compilation of kernels at the start."""
    remedy: Callable[..., str] = next(cause.remedy for cause in NETWORK_CAUSES if cause.code == "deepgemm-slow")
    return remedy(known, None)


def stalled_shard(bars: List[Tuple[int, int, int, str]]) -> Optional[str]:
    """The bar at which the time for one shard jumped by at least 5 minutes beyond what shards take; None if nowhere."""
    steps: List[Tuple[float, float, str]] = []
    for index in range(1, len(bars)):
        (done, total, elapsed, _), (done2, total2, elapsed2, text) = bars[index - 1], bars[index]
        if total == total2 and done2 > done and elapsed2 >= elapsed:
            steps.append((float(elapsed2 - elapsed), float(done2 - done), text))
    usual = 0.0
    if len(steps) > 1:
        usual = median(seconds / shards for seconds, shards, _ in steps)
    for seconds, shards, text in steps:
        beyond = seconds - usual * shards
        if beyond >= (300 if len(steps) > 1 else 600) and beyond >= 4 * usual * min(shards, 4.0):
            return text.strip()
    return None
