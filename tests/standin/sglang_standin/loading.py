"""Loading, as far as it shows: the phases from the spawned schedulers to the capacity, with the memory they take."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import failures, memory
from .children import Child
from .narrate import GRAPH_BATCHES

if TYPE_CHECKING:
    from .server import Server


class Loading:
    """One load. ``available`` is what is left on each scheduler's GPU, in GiB, by its pid."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.args = server.args
        self.say = server.narrator
        self.behaviour = server.behaviour
        self.release = server.release
        self.ranks = server.ranks
        self.available: dict[int, float] = {}
        self._first: dict[int, float] = {}

    def run(self) -> None:
        args, say = self.args, self.say
        say.launched(args)
        failures.check_device(self.server)
        model = failures.read_model(self.server)
        self.server.context = int(args.get("context_length") or model.context)
        self.spawn()
        self.server.enter("launched")
        self.server.enter("distributed")
        for child in self.ranks:
            say.distributed_begin(child.rank)
            child.tell("title")
        for helper in self.server.helpers:
            helper.tell("title")
        cpu = args["device"] == "cpu"
        totals = [] if cpu else memory.total_mib()
        free = [] if cpu else (memory.free_mib() or totals)
        before = {child.pid: 64.0 if child.gpu is None else free[child.gpu] / 1024 - memory.CONTEXT_GIB
                  for child in self.ranks}
        for child in self.ranks:
            say.distributed_end(child.rank, memory.CONTEXT_GIB)
        failures.check_balance(self.server, before)
        self.load_weights(model, before)
        self.allocate(model, before)
        self.capture()
        least = min(self.available.values())
        self.server.enter("capacity")
        running = int(args.get("max_running_requests") or 2048)
        say.capacity(self.ranks[0].rank, self.server.tokens, running, self.server.context, least, args["device"])
        self.allocate_host_memory(model)

    def load_weights(self, model: memory.Model, before: dict[int, float]) -> None:
        weights = self.behaviour["weights_gib"]
        if weights is None:
            weights = model.weights / (1 << 30) / len(self.ranks)
        for child in self.ranks:
            self.say.weights_begin(child.rank, before[child.pid])
        self.available = dict(before)
        for done in range(1, 5):
            self.say.weights_progress(done, 4)
            for child in self.ranks:
                self.hold(child, before, weights * done / 4)
            if done == 2:
                self.server.enter("weights")
        asked = str(self.args["kv_cache_dtype"])
        self.server.dtype = self.behaviour["kv_dtype"] or memory.pool_dtype(asked, model, self.release)
        for child in self.ranks:
            if self.args["kv_cache_dtype"] == "fp8_e4m3":
                self.say.fp8_without_scales(child.rank)
            self.say.weights_end(child.rank, model.architecture, model.quantization, self.available[child.pid], weights)
        self.server.usage["weight"] = weights

    def allocate(self, model: memory.Model, before: dict[int, float]) -> None:
        self.server.enter("kv-cache")
        fraction = float(self.args["mem_fraction_static"] or 0.88)
        cell = model.cell / (2 if "float8" in self.server.dtype else 1)
        free, left = min(before.values()), min(self.available.values())
        tokens = memory.tokens_that_fit(free, left, fraction, int(cell), self.args)
        if tokens <= 0:
            failures.no_room_for_kv(self.server, fraction)
        self.server.tokens = int(self.behaviour["tokens"] or tokens)
        size = tokens * cell / (1 << 30)
        for child in self.ranks:
            self.hold(child, self.available, size)
            left = self.available[child.pid]
            self.say.kv_cache(child.rank, self.server.dtype, self.server.tokens, size, model.mla, left)
        self.server.usage["kvcache"] = size

    def capture(self) -> None:
        self.server.usage["graph"] = 0.0
        if self.args["disable_cuda_graph"] or self.args["device"] == "cpu":
            self.server.enter("graphs")
            return
        for child in self.ranks:
            self.say.graphs_begin(child.rank, self.available[child.pid])
        for done in range(1, len(GRAPH_BATCHES) + 1):
            self.say.graphs_progress(done, min(self.available.values()))
            if done == len(GRAPH_BATCHES) // 2:
                self.server.enter("graphs")
        for child in self.ranks:
            if self.available[child.pid] < memory.GRAPHS_GIB:
                failures.graph_out_of_memory(self.server, child)
            self.hold(child, self.available, memory.GRAPHS_GIB)
            self.say.graphs_end(child.rank, memory.GRAPHS_GIB, self.available[child.pid])
        self.server.usage["graph"] = memory.GRAPHS_GIB

    def allocate_host_memory(self, model: memory.Model) -> None:
        if not self.args["enable_hierarchical_cache"]:
            return
        size = float(self.args["hicache_size"]) * 1e9
        if not size:
            size = self.server.tokens * model.cell * float(self.args["hicache_ratio"])
        for child in self.ranks:
            self.say.hierarchical(child.rank, int(size / model.cell), size / 1e9)
        failures.check_host_memory(self.server, size)

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
                        gpu = failures.gpu_of_rank(self.server, position)
                    title = "_".join(["sglang::scheduler", *mark]) if self.release >= (0, 4, 1) else sys.argv[0]
                    self.ranks.append(Child("scheduler", title, bool(self.behaviour["orphans"]), gpu,
                                            "".join(f" {word}" for word in mark)))
        for name in ("detokenizer", "resource_tracker"):
            title = f"sglang::{name}" if name == "detokenizer" else f"{sys.executable} -c from multiprocessing." \
                "resource_tracker import main;main(7)"
            self.server.helpers.append(Child(name, title, bool(self.behaviour["orphans"])))

    def hold(self, child: Child, base: dict[int, float], gib: float) -> None:
        """The child takes ``gib`` on its GPU of what ``base`` had left; fails as CUDA does where it is not there."""
        left = base[child.pid] - gib
        if child.gpu is None:
            self.available[child.pid] = left
            return
        if left < 0:
            failures.cuda_out_of_memory(self.server, child, gib)
        self.available[child.pid] = left
        extra = self.behaviour["ranks"].get(str(self.ranks.index(child)), {}).get("extra_mib", 0)
        total = memory.total_mib()[child.gpu]
        taken = self._first.setdefault(child.pid, base[child.pid]) - left + memory.CONTEXT_GIB
        child.tell(f"hold {min(total, int(taken * 1024) + extra)}")
