"""What the steps of a transaction share."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Iterator, List, Optional

from deployer.agent.door import Emit
from deployer.agent.store.lock import HostLock
from deployer.agent.store.record import Record
from deployer.agent.store.releases import Manifest, Store
from deployer.agent.verify.mark import StartMark
from deployer.protocol import records
from deployer.protocol.expectations import Expectations


class StepFailed(Exception):
    """A step could not be done: in words, with figures for the report."""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class Aborted(StepFailed):
    """The operator asked to go back."""


class Refused(StepFailed):
    """Found before anything was changed: ``data["code"]`` says what."""


@records.dataclass
class Context:
    """``previous`` is what serves now and comes back on failure; None: there was nothing."""

    store: Store
    unit: str
    release: Manifest
    previous: Optional[Manifest]
    record: Record
    lock: HostLock
    emit: Emit
    was_active: bool = False
    was_enabled: bool = False
    stopped_at: Optional[float] = None
    started_at: Optional[float] = None
    step_now: str = ""
    mark: Optional[StartMark] = None
    unfinished: bool = False                       # the record stays open: the next contact goes on with it
    figures: Dict[str, Any] = records.field(default_factory=dict)
    story: List[Dict[str, Any]] = records.field(default_factory=list)

    @property
    def expectations(self) -> Expectations:
        return self.store.expectations(self.unit, self.release.number)

    def aborted(self) -> bool:
        """Whether the operator asked for the rollback: a file, so that it outlives whoever asked."""
        return os.path.exists(abort_path(self.store, self.unit, self.release.number))

    @contextlib.contextmanager
    def step(self, name: str, text: str = "", **facts: Any) -> Iterator[Dict[str, Any]]:
        """Recorded before it acts, told before and after. What is put into the yielded dict goes into the event."""
        self.lock.doing(name)
        self.record.step(name, **facts)
        with self._told_around(name, text) as told:
            yield told

    @contextlib.contextmanager
    def step_back(self, name: str) -> Iterator[Dict[str, Any]]:
        """A step of the way back: told like any other; a record that cannot be written does not keep it from acting."""
        try:
            self.record.step("back-" + name)
        except OSError:
            pass
        with self._told_around("back-" + name, "") as told:
            yield told

    @contextlib.contextmanager
    def _told_around(self, name: str, text: str) -> Iterator[Dict[str, Any]]:
        self.lock.doing(name)
        self.step_now = name
        told: Dict[str, Any] = {}
        begun = time.monotonic()
        self.emit("step", {"step": name, "state": "begin", "text": text})
        try:
            yield told
        except StepFailed as failure:
            self._told(name, "failed", begun, dict(failure.data, text=failure.message))
            raise
        except Exception as fault:
            self._told(name, "failed", begun, {"text": "{}: {}".format(type(fault).__name__, fault)})
            raise
        self._told(name, "done", begun, told)

    def _told(self, name: str, state: str, begun: float, data: Dict[str, Any]) -> None:
        entry = dict(data, step=name, state=state, seconds=round(time.monotonic() - begun, 3))
        self.story.append({key: entry[key] for key in ("step", "state", "seconds", "text") if key in entry})
        self.emit("step", entry)

    def stop_if_asked(self) -> None:
        """Raises Aborted."""
        if self.aborted():
            raise Aborted("the operator asked to roll back", code="aborted")


def abort_path(store: Store, unit: str, number: int) -> str:
    return os.path.join(store.folder(unit, number), "abort")
