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

from . import children, control, failures, memory, web
from .behaviour import Behaviour
from .children import Child
from .narrate import GRAPH_BATCHES, Narrator
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
        self._available: dict[int, float] = {}
        self._first: dict[int, float] = {}
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
            self.load()
            return self.serve()
        except failures.Ending as ending:
            return ending.status

    def load(self) -> None:
        args, say = self.args, self.narrator
        say.launched(args)
        failures.check_device(self)
        model = failures.read_model(self)
        self.context = int(args.get("context_length") or model.context)
        self.spawn()
        self.enter("launched")
        self.enter("distributed")
        for child in self.ranks:
            say.distributed_begin(child.rank)
            child.tell("title")
        for helper in self.helpers:
            helper.tell("title")
        cpu = args["device"] == "cpu"
        totals = [] if cpu else memory.total_mib()
        free = [] if cpu else (memory.free_mib() or totals)
        before = {child.pid: 64.0 if child.gpu is None else free[child.gpu] / 1024 - memory.CONTEXT_GIB
                  for child in self.ranks}
        for child in self.ranks:
            say.distributed_end(child.rank, memory.CONTEXT_GIB)
        failures.check_balance(self, before)
        self.load_weights(model, before)
        self.allocate(model, before)
        self.capture()
        least = min(self._available.values())
        self.enter("capacity")
        running = int(args.get("max_running_requests") or 2048)
        say.capacity(self.ranks[0].rank, self.tokens, running, self.context, least, args["device"])
        self.allocate_host_memory(model)

    def load_weights(self, model: memory.Model, before: dict[int, float]) -> None:
        say = self.narrator
        weights = self.behaviour["weights_gib"]
        if weights is None:
            weights = model.weights / (1 << 30) / len(self.ranks)
        for child in self.ranks:
            say.weights_begin(child.rank, before[child.pid])
        self._available = dict(before)
        for done in range(1, 5):
            say.weights_progress(done, 4)
            for child in self.ranks:
                self.hold(child, before, weights * done / 4)
            if done == 2:
                self.enter("weights")
        asked = str(self.args["kv_cache_dtype"])
        self.dtype = self.behaviour["kv_dtype"] or memory.pool_dtype(asked, model, self.release)
        for child in self.ranks:
            if self.args["kv_cache_dtype"] == "fp8_e4m3":
                say.fp8_without_scales(child.rank)
            say.weights_end(child.rank, model.architecture, model.quantization, self._available[child.pid], weights)
        self.usage["weight"] = weights

    def allocate(self, model: memory.Model, before: dict[int, float]) -> None:
        self.enter("kv-cache")
        fraction = float(self.args["mem_fraction_static"] or 0.88)
        cell = model.cell / (2 if "float8" in self.dtype else 1)
        free, left = min(before.values()), min(self._available.values())
        tokens = memory.tokens_that_fit(free, left, fraction, int(cell), self.args)
        if tokens <= 0:
            failures.no_room_for_kv(self, fraction)
        self.tokens = int(self.behaviour["tokens"] or tokens)
        size = tokens * cell / (1 << 30)
        for child in self.ranks:
            self.hold(child, self._available, size)
            self.narrator.kv_cache(child.rank, self.dtype, self.tokens, size, model.mla, self._available[child.pid])
        self.usage["kvcache"] = size

    def capture(self) -> None:
        self.usage["graph"] = 0.0
        if self.args["disable_cuda_graph"] or self.args["device"] == "cpu":
            self.enter("graphs")
            return
        for child in self.ranks:
            self.narrator.graphs_begin(child.rank, self._available[child.pid])
        for done in range(1, len(GRAPH_BATCHES) + 1):
            self.narrator.graphs_progress(done, min(self._available.values()))
            if done == len(GRAPH_BATCHES) // 2:
                self.enter("graphs")
        for child in self.ranks:
            if self._available[child.pid] < memory.GRAPHS_GIB:
                failures.graph_out_of_memory(self, child)
            self.hold(child, self._available, memory.GRAPHS_GIB)
            self.narrator.graphs_end(child.rank, memory.GRAPHS_GIB, self._available[child.pid])
        self.usage["graph"] = memory.GRAPHS_GIB

    def allocate_host_memory(self, model: memory.Model) -> None:
        if not self.args["enable_hierarchical_cache"]:
            return
        size = float(self.args["hicache_size"]) * 1e9
        if not size:
            size = self.tokens * model.cell * float(self.args["hicache_ratio"])
        for child in self.ranks:
            self.narrator.hierarchical(child.rank, int(size / model.cell), size / 1e9)
        failures.check_host_memory(self, size)

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

    def spawn(self) -> None:
        tensor, pipeline, data = (int(self.args[name] or 1) for name in ("tp_size", "pp_size", "dp_size"))
        replicas = 1 if self.args.get("enable_dp_attention") else data
        for replica in range(replicas):
            for stage in range(pipeline):
                for rank in range(tensor):
                    places = (("DP", replica, replicas), ("PP", stage, pipeline), ("TP", rank, tensor))
                    mark = [f"{name}{place}" for name, place, count in places if count > 1]
                    gpu = None
                    if self.args["device"] != "cpu":
                        position = (replica * pipeline + stage) * tensor + rank
                        gpu = failures.gpu_of_rank(self, position)
                    title = "_".join(["sglang::scheduler", *mark]) if self.release >= (0, 4, 1) else sys.argv[0]
                    self.ranks.append(Child("scheduler", title, bool(self.behaviour["orphans"]), gpu,
                                            "".join(f" {word}" for word in mark)))
        for name in ("detokenizer", "resource_tracker"):
            title = f"sglang::{name}" if name == "detokenizer" else f"{sys.executable} -c from multiprocessing." \
                "resource_tracker import main;main(7)"
            self.helpers.append(Child(name, title, bool(self.behaviour["orphans"])))

    def hold(self, child: Child, base: dict[int, float], gib: float) -> None:
        """The child takes ``gib`` on its GPU of what ``base`` had left; fails as CUDA does where it is not there."""
        left = base[child.pid] - gib
        if child.gpu is None:
            self._available[child.pid] = left
            return
        if left < 0:
            failures.cuda_out_of_memory(self, child, gib)
        self._available[child.pid] = left
        extra = self.behaviour["ranks"].get(str(self.ranks.index(child)), {}).get("extra_mib", 0)
        total = memory.total_mib()[child.gpu]
        taken = self._first.setdefault(child.pid, base[child.pid]) - left + memory.CONTEXT_GIB
        child.tell(f"hold {min(total, int(taken * 1024) + extra)}")

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
