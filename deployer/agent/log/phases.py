"""The phases of one start and how long each took, over all ranks.

A phase is begun and not finished while a rank that began it has not ended it: then its seconds are None. Durations come
from SGLang's own stamps, those of graph captures from the figure that the line itself gives.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from deployer.protocol import patterns

INIT, DISTRIBUTED, WEIGHTS, KV_CACHE, GRAPHS, WARMUP, READY = PHASES = (
    "init", "distributed", "weights", "kv-cache", "cuda-graph", "warmup", "ready",
)
READY_LINE = "The server is fired up and ready to roll!"
_CAPTURE = patterns.compile(
    r"Capture (?P<name>.*?)\s*(?:cuda graph|CUDA graph|cpu graph|\w+ graph)?\s*\b(?P<what>begin|end)\b"
)
_TOOK = patterns.compile(r"(?:Time elapsed: |elapsed=)([\d.]+) s")
_AVAILABLE = patterns.compile(r"avail mem=([\d.]+) GB")
# What can follow only when every rank has passed what comes before it.
_NODE_READY = ("Dummy health check server started", "Dummy health check server scheduled",
    "Starting dummy health check server")


class Phase(NamedTuple):
    """``seconds`` is None where the phase began and did not finish, or where the log cannot tell."""

    name: str
    seconds: Optional[float]


class _Capture:
    def __init__(self) -> None:
        self.begun: Dict[str, Optional[float]] = {}
        self.ended: Dict[str, Optional[float]] = {}
        self.took: List[float] = []

    @property
    def finished(self) -> bool:
        return all(rank in self.ended for rank in self.begun)

    @property
    def seconds(self) -> Optional[float]:
        if self.took:
            return max(self.took)
        return _between(_least(self.begun.values()), _most(self.ended.values()))


class Timeline:
    """Fed with each line of one start that is not a bar. ``current`` is the phase it is in, "" before any line."""

    def __init__(self) -> None:
        self.first: Optional[float] = None
        self.begun = False
        self.current = ""
        self.detail = ""
        self.node_ready = False
        self.available: Dict[str, float] = {}
        self._distributed: Dict[str, List[Optional[float]]] = {}
        self._distributed_ends: Dict[str, Optional[float]] = {}
        self._loads: List[Tuple[Dict[str, Optional[float]], Dict[str, Optional[float]]]] = []
        self._pools: Dict[str, Optional[float]] = {}
        self._pool_seen = False
        self._captures: Dict[Tuple[str, int], _Capture] = {}
        self._counts: Dict[Tuple[str, str], Tuple[int, int]] = {}
        self._capacity: Optional[float] = None
        self.capacity_seen = False
        self.listening = False
        self._ready: Optional[float] = None
        self.ready_seen = False

    def start(self, stamp: Optional[float], own: bool) -> None:
        """A line of the server's own: init has begun, counted from its first stamp."""
        if not self.begun:
            self.begun = True
            self.current = self.current or INIT
        if self.first is None and own:
            self.first = stamp

    def feed(self, body: str, rank: str, at: Optional[float]) -> bool:
        """True when the line marks progress from one phase to another or within one."""
        if "begin" in body and self._begins(body, rank, at):
            return True
        if " end" in body and self._ends(body, rank, at):
            return True
        if " is allocated." in body or "Using KV cache dtype" in body:
            self._pool_seen = True
            return self._go(KV_CACHE) or " is allocated." in body
        if "max_total_num_tokens=" in body and "context_len=" in body:
            if not self.capacity_seen:
                self.capacity_seen, self._capacity = True, at
            self._go(WARMUP)
            return True
        if "Uvicorn running on" in body:
            self.listening = True
            self._go(WARMUP)
            return True
        if body.endswith(READY_LINE):
            if not self.ready_seen:
                self.ready_seen, self._ready = True, at
            self._go(READY)
            return True
        if "ummy health check server" in body and body.startswith(_NODE_READY):
            self.node_ready = True
            return True
        return False

    def _begins(self, body: str, rank: str, at: Optional[float]) -> bool:
        if "Load weight begin." in body:
            number = self._begin("load", rank)
            while len(self._loads) <= number:
                self._loads.append(({}, {}))
            self._loads[number][0].setdefault(rank, at)
            memory = _AVAILABLE.search(body)
            if memory:
                self.available.setdefault(rank, float(memory[1]))
            return self._go(WEIGHTS, "draft" if number else "")
        if "Init torch distributed begin" in body or "Init parallel begin" in body:
            self._distributed.setdefault(rank, []).append(at)
            return self._go(DISTRIBUTED)
        match = _CAPTURE.search(body) if "Capture " in body else None
        if match and match["what"] == "begin":
            number = self._begin("capture " + match["name"], rank)
            self._captures.setdefault((match["name"], number), _Capture()).begun.setdefault(rank, at)
            return self._go(GRAPHS, match["name"])
        return False

    def _ends(self, body: str, rank: str, at: Optional[float]) -> bool:
        if "Load weight end." in body:
            number = self._end("load", rank)
            if number < len(self._loads):
                self._loads[number][1][rank] = at
            return True
        if "Init torch distributed ends" in body or "Init parallel ends" in body:
            self._distributed_ends[rank] = at
            return True
        if "Memory pool end" in body:
            self._pools[rank], self._pool_seen = at, True
            return self._go(KV_CACHE) or True
        match = _CAPTURE.search(body) if "Capture " in body else None
        if match and match["what"] == "end":
            number = self._end("capture " + match["name"], rank)
            capture = self._captures.setdefault((match["name"], number), _Capture())
            capture.ended[rank] = at
            took = _TOOK.search(body)
            if took:
                capture.took.append(float(took[1]))
            return True
        return False

    def _begin(self, what: str, rank: str) -> int:
        """How often ``rank`` began ``what`` before. A log that names no ranks shows several begin one and the same."""
        begun, ended = self._counts.get((what, rank), (0, 0))
        if not rank and begun > ended:
            return begun - 1
        self._counts[what, rank] = (begun + 1, ended)
        return begun

    def _end(self, what: str, rank: str) -> int:
        """Which of its beginnings ``rank`` has ended."""
        begun, ended = self._counts.get((what, rank), (0, 0))
        self._counts[what, rank] = (begun, min(ended + 1, max(begun, 1)))
        return min(ended, max(begun - 1, 0))

    def _go(self, phase: str, detail: str = "") -> bool:
        """Into ``phase``, never back for a rank that lags; only a draft model starts again with its weights."""
        again = phase == WEIGHTS and detail and self.detail != detail
        back = PHASES.index(phase) < PHASES.index(self.current or INIT) and not again
        if back or (self.ready_seen and phase != READY):
            return False
        moved = (phase, detail) != (self.current, self.detail)
        self.current, self.detail = phase, detail
        return moved

    @property
    def loading(self) -> bool:
        """A rank has begun to load weights and not ended: also while a draft model loads after the first pool."""
        return any(rank not in ends for begins, ends in self._loads for rank in begins)

    @property
    def loaded(self) -> bool:
        return bool(self._loads) and not self.loading

    @property
    def capturing(self) -> bool:
        return any(not capture.finished for capture in self._captures.values())

    @property
    def captured(self) -> bool:
        return bool(self._captures) and not self.capturing

    @property
    def pooled(self) -> bool:
        return bool(self._pools)

    def phases(self, bound: bool = True) -> List[Phase]:
        """In order, those that were reached. ``bound`` False: the port was never this server's, whatever it says."""
        found: List[Phase] = []
        passed = self.capacity_seen or self.ready_seen
        if not self.begun:
            return found
        begins = [at for marks in self._distributed.values() for at in marks]
        found.append(Phase(INIT, _between(self.first, _least(begins))))
        if self._distributed:
            done = all(rank in self._distributed_ends for rank in self._distributed) or bool(self._loads)
            end = _most(self._distributed_ends.values()) if done else None
            found.append(Phase(DISTRIBUTED, _between(_least(begins), end)))
        if self._loads:
            found.append(Phase(WEIGHTS, self._weights(passed)))
        if self.loaded or self._pool_seen:
            found.append(Phase(KV_CACHE, self._kv_cache(passed)))
        if self._captures:
            found.append(Phase(GRAPHS, self._graphs(passed)))
        if bound and (self.listening or self.ready_seen):
            found.append(Phase(WARMUP, _between(self._capacity, self._ready)))
        if bound and self.ready_seen:
            found.append(Phase(READY, _between(self.first, self._ready)))
        return found

    def loads(self) -> List[Optional[float]]:
        """Seconds of each load of weights: the model, then draft models."""
        return [
            _between(_least(begins.values()), _most(ends.values()))
            if all(rank in ends for rank in begins) else None
            for begins, ends in self._loads
        ]

    def captures(self) -> List[Tuple[str, Optional[float]]]:
        """Name and seconds of each graph capture, in order."""
        return [(name or "graph", capture.seconds if capture.finished else None)
                for (name, _), capture in self._captures.items()]

    def _weights(self, passed: bool) -> Optional[float]:
        total = 0.0
        for begins, ends in self._loads:
            if not passed and any(rank not in ends for rank in begins):
                return None
            span = _between(_least(begins.values()), _most(ends.values()))
            if span is None:
                return None
            total += span
        return total

    def _kv_cache(self, passed: bool) -> Optional[float]:
        if not self._pools or not (passed or self._captures or all(r in self._pools for r in self._loads[0][0])):
            return None
        return _between(_most(at for _, ends in self._loads for at in ends.values()), _most(self._pools.values()))

    def _graphs(self, passed: bool) -> Optional[float]:
        captures = self._captures.values()
        if not passed and not all(capture.finished for capture in captures):
            return None
        spans = [capture.seconds for capture in captures]
        known = [span for span in spans if span is not None]
        return sum(known) if known else None


def _least(values: Iterable[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def _most(values: Iterable[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _between(begin: Optional[float], end: Optional[float]) -> Optional[float]:
    """Seconds from ``begin`` to ``end``; None where one is not known or the clock was set back between them."""
    return round(end - begin, 1) if begin is not None and end is not None and end >= begin else None
