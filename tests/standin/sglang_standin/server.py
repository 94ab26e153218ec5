"""One run of the stand-in: the phases of a start in SGLang's order, then serving, then an end."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import children, control, failures, web
from .behaviour import Behaviour
from .children import Child
from .loading import Loading
from .narrate import Narrator
from .release import Release

PHASES = ("launched", "distributed", "weights", "kv-cache", "graphs", "capacity", "port", "warmup", "ready")


class Server:
    """What the phases, the HTTP side and the control socket share."""

    def __init__(self, args: dict[str, Any], release: Release, site: str) -> None:
        self.args = args
        self.release = release
        self.behaviour = Behaviour(args)
        self.narrator = Narrator(release, site)
        self.phase = "starting"
        self.ready = False
        self.stopping = False
        self.ranks: list[Child] = []
        self.helpers: list[Child] = []
        self.tokens = 0
        self.dtype = ""
        self.context = 4096
        self.usage: dict[str, float] = {}
        self.events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._gone: dict[int, int] = {}
        self._requests = 0
        self._turn = threading.Condition()
        self._go = 0
        self._finish = 0

    # -- the story --------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """The whole life; returns the exit status where the process does not end itself by a signal."""
        if self.behaviour["quiet"]:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        children.on_child_end(lambda pid, status: self.events.put(("child", (pid, status))))
        control.serve(int(self.args["port"]), self.handle)
        try:
            Loading(self).run()
            return self.serve()
        except failures.Ending as ending:
            return ending.status

    def serve(self) -> int:
        say, host, port = self.narrator, str(self.args["host"]), int(self.args["port"])
        self.enter("port")
        say.server_process()
        try:
            listener = web.bind(host, port)
        except OSError as error:
            failures.cannot_bind(self, host, port, error)
        web.serve(listener, self)
        say.listening(host, port)
        # From the first request on SIGTERM means an orderly stop; until here it ends the process at once.
        for number in (signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, lambda received, _: self.events.put(("signal", received)))
        if self.behaviour["ignore_term"]:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.enter("warmup")
        if not self.args["skip_server_warmup"]:
            path = "/model_info" if self.release >= (0, 5, 7) else "/get_model_info"
            say.request(f"127.0.0.1:{port}", f"GET {path} HTTP/1.1", "200 OK")
            say.prefill(self.ranks[0].rank)
            say.request(f"127.0.0.1:{port}", "POST /generate HTTP/1.1", "200 OK")
        self.ready = True
        say.ready()
        self.enter("ready")
        while True:
            self.attend()

    # -- children ---------------------------------------------------------------------------------------------------

    def schedulers_alive(self) -> bool:
        return not any(child.pid in self._gone for child in self.ranks)

    def kill_children(self) -> None:
        for child in (*self.ranks, *self.helpers):
            if not self.behaviour["orphans"]:
                child.kill()

    # -- waiting ----------------------------------------------------------------------------------------------------

    def enter(self, phase: str) -> None:
        """Says that the phase is reached, and does what the behaviour wants done there."""
        for text in self.behaviour["lines"].get(phase, []):
            self.narrator.line(text)
        with self._turn:
            self.phase = phase
            self._turn.notify_all()
        delay = float(self.behaviour["delay"].get(phase, 0))
        deadline = time.monotonic() + delay
        while (left := deadline - time.monotonic()) > 0:
            self.attend(left)
        failures.fail_if_told(self, phase)
        go = self._go
        while phase in self.behaviour["hold"] and go == self._go:
            self.attend()
        self.attend(0)

    def attend(self, seconds: float | None = None) -> None:
        """Deals with what happens meanwhile, for so long; None: with the next thing, however long that takes."""
        try:
            kind, what = self.events.get(block=seconds != 0, timeout=seconds or None)
        except queue.Empty:
            return
        if kind == "child":
            pid, status = what
            self._gone[pid] = status
            failures.child_ended(self, pid, status)
        elif kind == "signal" and what == signal.SIGTERM:
            self.stop()
        elif kind == "signal":
            failures.sigquit(self)
        elif kind == "die":
            failures.fail(self, what)

    def stop(self) -> None:
        """An orderly end: takes no more, waits for what is running, ends as the release does."""
        self.stopping = True
        if self.release >= (0, 5, 10):
            self.narrator.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        with self._turn:
            self._turn.wait_for(lambda: self._requests == 0)
        # The real one looks only every 5 s: schedulers that got the signal too are gone by then.
        time.sleep(max(0.03, float(self.behaviour["stop_seconds"])))
        self.notice_deaths()
        if self.release.drains:
            self.narrator.line("Gracefully exiting... Remaining number of requests 0. "
                               "Remaining requests remaining_rids=[].")
        self.kill_children()
        if self.release.exits_zero:
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    def notice_deaths(self) -> None:
        """A stop that was sent to the whole group kills the schedulers first, and that is taken for a crash."""
        while not self.events.empty():
            kind, what = self.events.get()
            if kind == "child":
                self._gone[what[0]] = what[1]
                failures.child_ended(self, *what)

    @contextlib.contextmanager
    def in_flight(self) -> Iterator[None]:
        with self._turn:
            self._requests += 1
        try:
            yield
        finally:
            with self._turn:
                self._requests -= 1
                self._turn.notify_all()

    def wait_for_release_of_requests(self) -> None:
        with self._turn:
            finish = self._finish
            self._turn.wait_for(lambda: not self.behaviour["hold_requests"] or self._finish > finish)

    # -- control ----------------------------------------------------------------------------------------------------

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request of the control socket."""
        word = request["do"]
        if word == "wait":
            wanted = PHASES.index(request["phase"])
            with self._turn:
                self._turn.wait_for(lambda: self.phase in PHASES and PHASES.index(self.phase) >= wanted)
        elif word == "advance":
            hold = self.behaviour["hold"]
            if request.get("all"):
                self.behaviour.update({"hold": []})
            else:
                self.behaviour.update({"hold": [phase for phase in hold if phase != self.phase]})
            self._go += 1
            self.events.put(("go", None))
        elif word == "set":
            self.behaviour.update(request["behaviour"])
            with self._turn:
                self._turn.notify_all()
        elif word == "finish":
            with self._turn:
                self._finish += 1
                self._turn.notify_all()
        elif word == "log":
            self.narrator.line(request["text"])
        elif word == "die":
            self.events.put(("die", request))
        elif word != "status":
            return {"error": f"unknown request {word}"}
        return {"phase": self.phase, "pid": os.getpid(), "ready": self.ready, "requests": self._requests,
                "schedulers": [child.pid for child in self.ranks], "helpers": [child.pid for child in self.helpers]}

    def info(self) -> dict[str, Any]:
        """What /server_info says."""
        usage = {name: round(size, 2) for name, size in self.usage.items()}
        state = {**self.args, "memory_usage": {**usage, "token_capacity": self.tokens}, "last_gen_throughput": 0.0}
        dtype = self.args["kv_cache_dtype"]
        if self.release >= (0, 5, 9) and dtype == "auto" and "e4m3" in self.dtype:
            dtype = "fp8_e4m3"
        said = {**self.args, "kv_cache_dtype": dtype, "status": "ready", "max_total_num_tokens": self.tokens,
                "max_req_input_len": self.context - 6, "internal_states": [state], "version": self.release.text}
        if self.release >= (0, 5, 21):
            said["launch_command"] = " ".join(sys.orig_argv)
        return {**said, **self.behaviour["server_info"]}


def site_packages() -> str:
    return str(Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages")
