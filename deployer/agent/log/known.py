"""What is known of one start while its lines go by: arguments, capacity, figures, and how far it came."""

from __future__ import annotations

import functools
import re
from typing import Dict, List, Optional, Set, Tuple

from deployer.agent.log.bars import Bar
from deployer.agent.log.phases import Timeline
from deployer.protocol import patterns
from deployer.protocol.redact import is_secret_name

_CAPACITY = patterns.compile(
    r"max_total_num_tokens=(\d+), (?:chunked_prefill_size=(-?\w+), )?max_prefill_tokens=(\d+), "
    r"max_running_requests=(\d+), context_len=(\d+)(?:, available_[gc]pu_mem=([\d.]+) GB)?"
)
_SWA = patterns.compile(r"full_layer_tokens=(\d+), swa_layer_tokens=(\d+)")
_POOL = patterns.compile(
    r"(?P<name>[\w /()-]*?) ?(?P<what>is allocated|VA upper bound)\. (?:dtype: (?P<dtype>[\w.]+), )?"
    r"(?:#tokens: (?P<tokens>\d+), )?(?P<sizes>(?:K |V |KV )?size: .*)"
)
_SIZE = patterns.compile(r"size: ([\d.]+) ?GB")
_DTYPE = patterns.compile(r"Using KV cache dtype: ([\w.]+)")
_LOADED = patterns.compile(
    r"(?:type=(\w+))?.*?(?:dtype=torch\.(\w+))?, avail mem=([\d.]+) GB(?:, mem usage=([\d.]+) GB)?"
)
_MODEL_DTYPE = patterns.compile(r"\bdtype=torch\.(\w+)")
_HOST_POOL = patterns.compile(r"([\d.]+) GB host memory")
_ARGUMENT = patterns.compile(
    r"[({,] ?'?(\w+)'?(?:=|: )('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|[^,)}\s]+)"
)
_DTYPES = {
    "torch.float8_e4m3fn": "fp8_e4m3", "torch.float8_e4m3fnuz": "fp8_e4m3", "torch.float8_e5m2": "fp8_e5m2",
    "torch.float8_e5m2fnuz": "fp8_e5m2", "torch.float4_e2m1fn_x2": "fp4_e2m1", "bf16": "bfloat16",
}

_is_secret = functools.lru_cache(maxsize=4096)(is_secret_name)


class Known:
    """Facts of one start. ``phase_at`` and the flags let a sign of a cause look at the moment in which a line came."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.args: Dict[str, str] = {}
        self.capacities: Dict[str, Dict[str, Optional[float]]] = {}
        self.pools: List[Dict[str, object]] = []
        self.pool_dtype: Optional[str] = None
        self.model_dtype: Optional[str] = None
        self.model_type: Optional[str] = None
        self.loaded: Dict[str, Tuple[float, Optional[float]]] = {}
        self.full_tokens: Optional[int] = None
        self.host_pool: Optional[float] = None
        self.pinning = False
        self.compiling = False
        self.compiling_line = ""
        self.armed = False
        self.stopping = False
        self.bar: Optional[Bar] = None
        self.shard_bars: List[Tuple[int, int, int, str]] = []

    # -- arguments ------------------------------------------------------------------------------------------------

    def read_arguments(self, body: str) -> None:
        """``server_args=ServerArgs(a=1, …)`` up to 0.5.18, ``server_args={'a': 1, …}`` from 0.5.19 on."""
        self.args.clear()
        for name, value in _ARGUMENT.findall(body[body.index("server_args=") + 12:]):
            self.args.setdefault(name, value[1:-1] if value[:1] in "'\"" and len(value) > 1 else value)

    def arg(self, name: str, default: str = "") -> str:
        """An argument as the log shows it; ``default`` where it is not shown or None."""
        value = self.args.get(name, default)
        return default if value in ("None", "null", "") else value

    def secrets(self) -> Set[str]:
        """Values of arguments whose names are those of secrets."""
        return {self.arg(name) for name in self.args if _is_secret(name) and self.arg(name)}

    def number(self, name: str) -> Optional[float]:
        try:
            return float(self.arg(name))
        except ValueError:
            return None

    @property
    def nodes(self) -> int:
        return int(self.number("nnodes") or 1)

    @property
    def new_graph_flags(self) -> Optional[bool]:
        """Whether this release takes --cuda-graph-max-bs-decode (0.5.14 on); None where the log does not show it."""
        if "cuda_graph_max_bs_decode" in self.args or "cuda_graph_config" in self.args:
            return True
        return False if "cuda_graph_max_bs" in self.args else None

    # -- capacity -------------------------------------------------------------------------------------------------

    def read_capacity(self, body: str, rank: str) -> None:
        """Figures of the lines about memory: GB are 2^30 bytes for the device, 1e9 for the host."""
        if "max_total_num_tokens=" in body:
            match = _CAPACITY.search(body)
            if match:
                self.capacities.setdefault(rank, {
                    "max_total_num_tokens": int(match[1]), "max_running_requests": int(match[4]),
                    "context_len": int(match[5]), "available_mem_gb": float(match[6]) if match[6] else None,
                })
        elif "Load weight end." in body:
            dtype = _MODEL_DTYPE.search(body)
            if dtype and not self.model_dtype:
                self.model_dtype = dtype[1]
            match = _LOADED.search(body, body.index("Load weight end."))
            if match and rank not in self.loaded:
                self.loaded[rank] = (float(match[3]), float(match[4]) if match[4] else None)
            kind = re.search(r"type=(\w+)", body)
            self.model_type = self.model_type or (kind[1] if kind else None)
        elif "Using KV cache dtype" in body:
            found = _DTYPE.search(body)
            if found and not self.pool_dtype:
                self.pool_dtype = found[1]
        elif "full_layer_tokens=" in body:
            swa = _SWA.search(body)
            if swa and self.full_tokens is None:
                self.full_tokens = int(swa[1])
        elif "size: " in body and ("is allocated." in body or "VA upper bound." in body):
            self._read_pool(body, rank)
        elif "GB host memory" in body and "Allocating " in body:
            size = _HOST_POOL.search(body)
            self.pinning = True
            if size:
                self.host_pool = max(self.host_pool or 0.0, float(size[1]))

    def _read_pool(self, body: str, rank: str) -> None:
        match = _POOL.search(body)
        if not match or "Mamba" in match["name"]:
            return
        if match["dtype"] and not self.pool_dtype:
            self.pool_dtype = match["dtype"]
        if len(self.pools) < 256:
            self.pools.append({
                "name": match["name"].strip(), "rank": rank, "dtype": match["dtype"],
                "tokens": int(match["tokens"]) if match["tokens"] else None, "bound": match["what"] != "is allocated",
                "gb": round(sum(float(size) for size in _SIZE.findall(match["sizes"])), 2),
            })

    @property
    def max_total_num_tokens(self) -> Optional[int]:
        """Of the capacity line; else the full-layer pool's; else of the first KV pool; None where no line says."""
        for capacity in self.capacities.values():
            return int(capacity["max_total_num_tokens"] or 0)
        if self.full_tokens is not None:
            return self.full_tokens
        for pool in self.pools:
            if pool["tokens"] and not pool["bound"]:
                return int(str(pool["tokens"]))
        return None

    @property
    def kv_cache_dtype(self) -> Optional[str]:
        """As the flag writes it. Releases before 0.5.3 do not log it: then it is the flag's, or the model's on auto."""
        if self.pool_dtype:
            return _DTYPES.get(self.pool_dtype, self.pool_dtype.replace("torch.", "", 1))
        if not (self.pools or self.timeline.pooled) or not self.args:
            return None
        flag = self.arg("kv_cache_dtype", "auto")
        return self.model_dtype if flag == "auto" else _DTYPES.get(flag, flag)

    # -- bars -----------------------------------------------------------------------------------------------------

    def read_bar(self, bar: Bar, text: str) -> None:
        self.bar = bar
        if "shards" in bar.name and len(self.shard_bars) < 4096:
            self.shard_bars.append((bar.done, bar.total, bar.elapsed, text))
