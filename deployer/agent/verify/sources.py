"""What the gates are fed with on a real host. One loop waits for all of it at once; what may hang has a thread.

Cheap by design: death comes by pidfd and the log by one ``journalctl -f``, so that systemd is asked only when something
happened; the port is tried by connecting; processes are measured once a second from /proc.
"""

from __future__ import annotations

import os
import select
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from deployer.agent.facts.process import pidfd
from deployer.agent.verify import ask, holders, process, unitstate
from deployer.agent.verify.aside import Answer, Aside
from deployer.agent.verify.http import bind_host, opens, target
from deployer.agent.verify.journal import Entry
from deployer.agent.verify.logsource import LogSource
from deployer.agent.verify.mark import StartMark
from deployer.protocol.expectations import Expectations
from deployer.protocol.verdict import Observation

UNIT_QUIET = 3.0
UNIT_RESTLESS = 0.2
"""Seconds between two questions to systemd: while the main process is watched by its pidfd, and else."""
PORT = ((30.0, 0.05), (120.0, 0.15))
PORT_LATER = 0.25
"""Seconds between two tries of the port: until so many seconds after the start, and after."""
LOG = 0.1
HEALTH = 0.1
HEALTH_SILENT = 0.25
HEALTH_SETTLING = 2.0
INFO_RETRY = 0.5
PROGRESS = 2.0
GPU = 2.0
GPU_SHARE = 20
"""nvidia-smi is asked every 2 s, and never takes more than a twentieth of the time."""
OWNER = 1.0
HISTORY = 1.0
"""Seconds for which what systemd logged of a server that runs already is taken for history: a death shows by itself."""
FACTS_AGE = 2.0
"""Seconds for which a reading that was made for the facts of the same contact will do for what runs already."""


class HostSources:
    """``mark`` None: a server that runs already."""

    def __init__(self, unit: str, expected: Expectations, mark: Optional[StartMark], secrets: Dict[str, str]) -> None:
        self._unit, self._expected, self._mark = unit, expected, mark
        self._target = target(expected, secrets)
        self._begun = self.now()
        self._wants: Set[str] = set()
        self._found: List[Observation] = []
        self._aside = Aside()
        self._due: Dict[str, float] = {"unit": 0.0, "port": 0.0, "progress": 0.0, "gpu": 0.0}
        self._state: Dict[str, Any] = {}
        self._main = 0
        self._pidfd = -1
        self._log = LogSource(unit, mark, unitstate.invocation(unit) if mark is None else "")
        self._open = False
        self._own_port = self._foreign = False
        self._healthy = False
        self._informed = False
        self._opened = 0.0

    def now(self) -> float:
        return time.monotonic()

    def want(self, wants: Set[str]) -> None:
        for name in wants - self._wants:
            if name in ("answer", "load", "log"):
                self._due[name] = 0.0
        self._wants = set(wants)

    def wait(self, until: float) -> List[Observation]:
        while True:
            self._aside.collect()
            self._run_due()
            found = self._take()
            if found or self.now() >= until:
                return found
            self._sleep(min([until, *self._due.values()]))

    def _take(self) -> List[Observation]:
        found, self._found = self._found, []
        return found

    def _see(self, source: str, value: Any, at: Optional[float] = None) -> None:
        self._found.append(Observation(source, self.now() if at is None else at, value))

    def _sleep(self, until: float) -> None:
        """Until then, or until the journal, a thread, or the main process's end has something to say."""
        poll = select.poll()
        poll.register(self._aside.fileno(), select.POLLIN)
        if self._pidfd >= 0:
            poll.register(self._pidfd, select.POLLIN)
        if self._log.fileno() >= 0:
            poll.register(self._log.fileno(), select.POLLIN)
        for descriptor, _ in poll.poll(max(0.0, (until - self.now()) * 1000)):
            if descriptor == self._pidfd:
                self._end_pidfd()
                self._due["unit"] = 0.0
            elif descriptor != self._aside.fileno():
                self._see_lines(self._log.read())

    def _run_due(self) -> None:
        now = self.now()
        for name in [name for name, due in self._due.items() if due <= now]:
            del self._due[name]
            getattr(self, "_ask_" + name)(now)

    # What is asked in the loop itself, since it takes no time worth a thread.

    def _ask_unit(self, now: float) -> None:
        shown = unitstate.show(self._unit)
        if shown:
            self._state = dict(unitstate.value(shown), group=shown.get("ControlGroup", ""))
            self._see("unit", {key: value for key, value in self._state.items() if key != "group"})
            self._watch_main(int(self._state["main_pid"]))
            self._log.keep(str(self._state["invocation"]))
        settled = self._pidfd >= 0 and self._state.get("active") == "active"
        self._due["unit"] = now + (UNIT_QUIET if settled else UNIT_RESTLESS)

    def _watch_main(self, main: int) -> None:
        if main == self._main:
            return
        self._end_pidfd()
        self._main = main
        if main:
            self._pidfd = pidfd(main)

    def _end_pidfd(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
        self._pidfd = -1

    def log_is_read(self) -> None:
        """The start of a running server has been read: from now on only what is new."""
        self._log.only_new(str(self._state.get("invocation", "")))

    def _ask_log(self, now: float) -> None:
        if "log" in self._wants:
            self._see_lines(self._log.read_now())
            self._due["log"] = self.now() + LOG

    def _see_lines(self, entries: List[Entry]) -> None:
        if entries:
            self._see("lines", entries)
            history = self._mark is None and self.now() - self._begun < HISTORY
            if any(entry.systemd for entry in entries) and not history:
                self._due["unit"] = 0.0

    def _ask_progress(self, now: float) -> None:
        self._due["progress"] = now + PROGRESS
        pids = unitstate.pids(self._state.get("group", ""), self._main)
        if pids:
            if self._state and list(pids) != self._state.get("pids"):
                self._state["pids"] = list(pids)
                self._see("unit", {key: value for key, value in self._state.items() if key != "group"})
            self._see("progress", process.measure(pids))

    def _ask_port(self, now: float) -> None:
        if self._target is None:
            return
        opened = opens(self._target)
        self._due["port"] = now + next((pace for end, pace in PORT if now - self._begun < end), PORT_LATER)
        if not opened:
            if self._open:
                self._see("socket", {"open": False, "listening": []})
            self._open = self._own_port = self._foreign = False
            return
        if not self._open:
            self._open, self._opened = True, now
            self._due.update({"owner": now, "health": now, "gpu": now})
            self._see("socket", {"open": True}, now)
        self._due["port"] = now + OWNER

    def _ask_owner(self, now: float) -> None:
        if not self._open or self._target is None:
            return
        rows = holders.of_port(self._target.port, bind_host(self._expected), self._pids(), self._unit)
        self._foreign = any(row["foreign"] for row in rows)
        self._own_port = any(row["own"] for row in rows) and not self._foreign
        if self._own_port and not self._informed and self._expected.health.info_path:
            self._due.setdefault("info", now)
        self._see("socket", {"open": True, "listening": rows})
        if not self._own_port or "settle" in self._wants:
            self._due["owner"] = now + OWNER

    def _pids(self) -> Sequence[int]:
        return unitstate.pids(self._state.get("group", ""), self._main)

    # What may take its time.

    def _start(self, name: str, act: Callable[[], Answer], after: Callable[[Answer], Optional[float]]) -> None:
        """Asks aside; the answer is the observation. ``after``: seconds until it is due again, None: never."""
        begun = self.now()

        def finish(value: Answer) -> None:
            # What nvidia-smi tells was so when it was asked; an answer, or that none comes, counts from now.
            self._see(name, value, begun if value.get("gpus") else None)
            again = after(value)
            if again is not None:
                self._due.setdefault(name, self.now() + again)

        self._aside.ask(name, act, finish)

    def _ask_health(self, now: float) -> None:
        at, expected = self._target, self._expected
        if at is None or expected.kind == "minimal" or not self._open:
            return
        health = expected.health
        if health.ready_path and not self._healthy:
            def both() -> Answer:
                ready = ask.health(at, expected, str(health.ready_path), ready_path=True)
                if ready["status"] not in (200, 404):
                    return ready
                return ask.health(at, expected, health.path)
            self._start("health", both, self._after_health)
        else:
            self._start("health", lambda: ask.health(at, expected, health.path), self._after_health)

    def _after_health(self, value: Answer) -> Optional[float]:
        well = value.get("status") == 200 and not value.get("ready_path")
        self._healthy = (self._healthy or well) and not self._foreign
        if self._healthy:
            return HEALTH_SETTLING if value["status"] == 200 else HEALTH_SETTLING / 4
        return HEALTH if value.get("status") is not None else HEALTH_SILENT

    def _ask_info(self, now: float) -> None:
        at, expected = self._target, self._expected
        # The key is sent to nobody but this unit's own server.
        if at is None or expected.kind != "sglang" or not self._own_port or self._informed:
            return
        self._start("info", lambda: ask.info(at, expected), self._after_info)

    def _after_info(self, value: Answer) -> Optional[float]:
        self._informed = value.get("status") == 200
        if not self._informed:
            # Whose the port is is looked at again before each question.
            self._due.setdefault("owner", self.now() + INFO_RETRY)
        return None

    def _gpus(self) -> bool:
        return bool(self._expected.gpus or self._expected.all_gpus) and self._expected.kind != "minimal"

    def _ask_gpu(self, now: float) -> None:
        if not self._gpus():
            return
        def after(value: Answer) -> float:
            took = self.now() - now
            return 0.0 if now < self._opened <= self.now() else max(GPU, GPU_SHARE * took)

        max_age = FACTS_AGE if self._mark is None and now - self._begun < 1 else 0.0
        self._start("gpu", lambda: holders.of_gpus(self._pids, max_age), after)

    def _ask_answer(self, now: float) -> None:
        at, prompt = self._target, self._expected.prompt
        if at is not None and prompt is not None:
            self._start("answer", lambda: ask.completion(at, prompt), lambda value: None)

    def _ask_load(self, now: float) -> None:
        at, wanted = self._target, self._expected.load
        if at is not None and wanted is not None:
            self._start("load", lambda: ask.load(at, self._expected.prompt, wanted), lambda value: None)

    def waiting(self) -> List[Dict[str, Any]]:
        return process.waiting(self._pids())

    def close(self) -> None:
        """Ends the child; what is still asked is not waited for."""
        self._log.close()
        self._end_pidfd()
        self._aside.close()
