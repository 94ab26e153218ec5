"""What has been seen of a start so far: a pure fold over ``Observation``s, which the gates then judge.

The values of an observation, by source:

- ``unit``: systemd's properties as ``unitstate.value`` gives them, with ``pids`` (the unit's control group) and
  ``argv`` (of the main process).
- ``log``: ``ready``, ``fatal``, ``cause``, ``evidence``, ``phase``, ``percent``, ``max_total_num_tokens``,
  ``kv_cache_dtype``, ``lost`` (messages that the journal dropped), ``elsewhere`` (the log does not go to the journal),
  ``lines`` (of this start so far; ``heard``: of others too, ``moving_lines``: without what our
  asking caused), ``slow`` (what is known to take long), ``complete`` (False: the start of the log is no longer there),
  ``restart_scheduled``, ``start_limit``, ``started``, ``skipped`` (systemd said so). Made by ``logfold``.
- ``socket``: ``open`` (something accepts on the port) and ``listening``, the rows of ``facts.Socket`` for the port.
- ``health``: ``path``, ``status`` or ``error`` (refused, timeout, reset, tls, other), ``seconds`` it took.
- ``info``: ``status`` or ``error``, and ``info``, the server's own account of itself.
- ``gpu``: ``gpus``, ``apps`` (``unseen``: no such pid here), ``errors`` as in ``facts.GpuReading``, ``pids`` (the
  unit's at that time), ``open`` (pid -> device nodes) where asked.
- ``progress``: see ``deployer.agent.verify.progress``.
- ``answer`` and ``load``: see ``deployer.agent.verify.ask``.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from deployer.protocol import records
from deployer.protocol.verdict import Observation

Value = Mapping[str, Any]


@records.dataclass(frozen=True)
class Seen:
    """The fold's state. Times are monotonic seconds; None: not yet."""

    begun: float
    marked: bool = True                             # a start of ours is watched, not a server that runs already
    old_invocation: str = ""
    old_restarts: int = 0
    unit: Optional[Value] = None
    main_pid: int = 0                               # the first main process of this start
    restarts: Optional[int] = None                  # the count that this start began with
    gone: bool = False                              # this start's main process is not the main process any more
    log: Optional[Value] = None
    ready_at: Optional[float] = None
    sockets: Optional[Tuple[Value, ...]] = None
    open_at: Optional[float] = None
    sockets_at: float = 0.0
    foreign_since: Optional[float] = None
    health: Optional[Value] = None                  # the last answer of the path that means healthy
    ready: Optional[Value] = None                   # the last answer of the ready path
    answered_at: Optional[float] = None             # the first 200 of the health path
    healthy_at: Optional[float] = None              # the last 200 of the health path
    misses: int = 0                                 # in a row, since it was healthy
    info: Optional[Value] = None
    info_tries: int = 0
    gpu: Optional[Value] = None
    gpu_at: float = 0.0
    answer: Optional[Value] = None
    load: Optional[Value] = None

    @property
    def pids(self) -> Tuple[int, ...]:
        """The processes of the unit's control group."""
        return tuple((self.unit or {}).get("pids", ()))


def fold(seen: Seen, observation: Observation) -> Seen:
    """``seen`` with one observation more; sources that are not known leave it as it was."""
    step = _STEPS.get(observation.source)
    return step(seen, observation.value, observation.at) if step else seen


def _unit(seen: Seen, value: Value, at: float) -> Seen:
    main, restarts = int(value.get("main_pid", 0)), int(value.get("restarts", 0))
    ours = not seen.marked or value.get("invocation", "") != seen.old_invocation
    first = seen.main_pid or (main if ours else 0)
    base = seen.restarts
    if base is None and ours:
        base = restarts if not seen.marked or restarts == seen.old_restarts else 0
    gone = seen.gone or bool(seen.main_pid and main and main != seen.main_pid)
    return records.replace(seen, unit=value, main_pid=first, restarts=base, gone=gone)


def _log(seen: Seen, value: Value, at: float) -> Seen:
    ready_at = seen.ready_at
    if ready_at is None and value.get("ready"):
        ready_at = at
    return records.replace(seen, log=value, ready_at=ready_at)


def _socket(seen: Seen, value: Value, at: float) -> Seen:
    opened = bool(value.get("open") or value.get("listening"))
    open_at = (seen.open_at if seen.open_at is not None else at) if opened else None
    listening = value.get("listening")
    if listening is None:
        return records.replace(seen, open_at=open_at, sockets=seen.sockets if opened else ())
    rows = tuple(listening)
    foreign = any(row.get("foreign") for row in rows)
    since = (seen.foreign_since if seen.foreign_since is not None else at) if foreign else None
    if foreign and not any(row.get("own") for row in rows):
        # What was answered until now was perhaps not answered by this unit.
        seen = records.replace(seen, health=None, ready=None, answered_at=None, healthy_at=None, misses=0,
                               info=None, info_tries=0)
    return records.replace(seen, open_at=open_at, sockets=rows, sockets_at=at, foreign_since=since)


def _health(seen: Seen, value: Value, at: float) -> Seen:
    if seen.foreign_since is not None:
        return seen                                 # another's answer
    if value.get("ready_path"):
        return records.replace(seen, ready=value)
    if value.get("status") == 200:
        first = seen.answered_at if seen.answered_at is not None else at
        return records.replace(seen, health=value, answered_at=first, healthy_at=at, misses=0)
    misses = seen.misses + 1 if seen.answered_at is not None else 0
    return records.replace(seen, health=value, misses=misses)


def _info(seen: Seen, value: Value, at: float) -> Seen:
    if seen.foreign_since is not None:
        return seen
    if value.get("status") != 200 and seen.info is not None and seen.info.get("status") == 200:
        return seen
    return records.replace(seen, info=value, info_tries=seen.info_tries + 1)


def _gpu(seen: Seen, value: Value, at: float) -> Seen:
    return records.replace(seen, gpu=value, gpu_at=at)


def _answer(seen: Seen, value: Value, at: float) -> Seen:
    return records.replace(seen, answer=value)


def _load(seen: Seen, value: Value, at: float) -> Seen:
    return records.replace(seen, load=value)


_STEPS: Dict[str, Any] = {
    "unit": _unit, "log": _log, "socket": _socket, "health": _health, "info": _info, "gpu": _gpu,
    "answer": _answer, "load": _load,
}
