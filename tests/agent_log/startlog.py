"""Writes start-up logs as a given SGLang release does, as far as a given stage: what tests break afterwards.

Format strings: model_runner.py, memory_pool.py, scheduler.py, http_server.py of the releases 0.4.0 to 0.5.23.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

STAGES = (
    "begun", "arguments", "distributed", "loading", "loaded", "pooled", "capturing", "captured", "capacity", "pinning",
    "listening", "ready",
)
RELEASES = ("0.4.0", "0.4.3", "0.4.6", "0.4.9", "0.5.2", "0.5.4", "0.5.9", "0.5.12", "0.5.13", "0.5.14", "0.5.18",
    "0.5.20",
            "0.5.22", "0.5.23")


def number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


class StartLog:
    """``lines`` grow with each stage. ``ranks``: 1 writes no rank into the stamp, as SGLang does."""

    def __init__(self, release: str = "0.5.9", ranks: int = 1, unit: str = "sglang-test.service",
        **args: object) -> None:
        self.release = number(release)
        self.ranks = ranks
        self.unit = unit
        self.args = {"model_path": "/srv/models/test-8b", "port": 30000, "mem_fraction_static": 0.85, "tp_size": ranks,
                     "kv_cache_dtype": "auto", "nnodes": 1, "node_rank": 0, "trust_remote_code": False,
                         "api_key": None, **args}
        if self.release < (0, 5, 20):
            self.args.setdefault("cuda_graph_max_bs", None)
        if self.release >= (0, 5, 14):
            self.args.setdefault("cuda_graph_max_bs_decode", None)
        self.at = datetime.datetime(2026, 3, 1, 12, 0, 0)
        self.lines: list[str] = []

    def wait(self, seconds: int) -> StartLog:
        self.at += datetime.timedelta(seconds=seconds)
        return self

    def say(self, text: str, rank: int | None = None) -> StartLog:
        """One stamped line; ``rank`` None: the main process."""
        prefix = f" TP{rank}" if rank is not None and self.ranks > 1 else ""
        self.lines.append(f"[{self.at:%Y-%m-%d %H:%M:%S}{prefix}] {text}")
        return self

    def all_ranks(self, text: str) -> StartLog:
        for rank in range(self.ranks):
            self.say(text, rank)
        return self

    def raw(self, *lines: str) -> StartLog:
        self.lines.extend(lines)
        return self

    def to(self, stage: str) -> StartLog:
        """Everything up to and with ``stage``."""
        for name in STAGES[: STAGES.index(stage) + 1]:
            getattr(self, f"_{name}")()
        return self

    def _begun(self) -> None:
        self.raw(f"Started {self.unit} - SGLang inference server.", "`torch_dtype` is deprecated! Use `dtype` instead!")

    def _arguments(self) -> None:
        if self.release >= (0, 5, 19):
            self.say("server_args={" + ", ".join(f"{name!r}: {value!r}" for name, value in self.args.items()) + "}")
        else:
            self.say("server_args=ServerArgs(" + ", ".join(f"{name}={value!r}" for name,
                value in self.args.items()) + ")")

    def _distributed(self) -> None:
        new = self.release >= (0, 5, 21)
        self.wait(10).all_ranks("Init parallel begin." if new else "Init torch distributed begin.").wait(2)
        if new:
            self.all_ranks("Init parallel ends. elapsed=2.00 s").all_ranks("Memory baseline taken. mem usage=1.10 GB")
        elif self.release >= (0, 5, 9):
            self.all_ranks("Init torch distributed ends. elapsed=2.00 s, mem usage=1.10 GB")
        elif self.release >= (0, 4, 4):
            self.all_ranks("Init torch distributed ends. mem usage=1.10 GB")

    def _loading(self) -> None:
        self.all_ranks("Load weight begin. avail mem=78.00 GB")
        bar = "Multi-thread loading shards" if self.release >= (0, 5, 14) else "Loading safetensors checkpoint shards"
        self.raw("\r" + "\r".join(f"{bar}: {25 * n:3}% Completed | {n}/4 [00:{2 * n:02}<00:02,  "
                                  f"2.00s/it]" for n in range(3)))

    def _loaded(self) -> None:
        self.wait(10)
        if self.release >= (0, 5, 10):
            end = "Load weight end. elapsed=10.00 s, type=Qwen3ForCausalLM, avail mem=62.00 GB, mem usage=16.00 GB."
        elif self.release >= (0, 5, 9):
            end = ("Load weight end. elapsed=10.00 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=62.00 GB, "
                   "mem usage=16.00 GB.")
        elif self.release >= (0, 4, 4):
            end = "Load weight end. type=OPTForCausalLM, dtype=torch.bfloat16, avail mem=62.00 GB, mem usage=6.00 GB."
        else:
            end = "Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=62.00 GB"
        self.all_ranks(end)
        if (0, 5, 3) <= self.release <= (0, 5, 12):
            self.say("Using KV cache dtype: torch.bfloat16", 0)

    def _pooled(self) -> None:
        if self.release >= (0, 5, 13):
            self.all_ranks("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, K size: 24.00 GB, V size: "
                           "24.00 GB")
        elif self.release >= (0, 4, 4):
            self.all_ranks("KV Cache is allocated. #tokens: 400000, K size: 24.00 GB, V size: 24.00 GB")
        elif self.release >= (0, 4, 2):
            self.all_ranks("KV Cache is allocated. K size: 24.00 GB, V size: 24.00 GB.")
        self.all_ranks("Memory pool end. avail mem=13.00 GB")

    def _capturing(self) -> None:
        if self.release >= (0, 5, 14):
            self.all_ranks("Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, bs=[1, 2, 4], "
                           "avail mem=13.00 GB")
        elif self.release >= (0, 4, 6):
            self.all_ranks("Capture cuda graph begin. This can take up to several minutes. avail mem=13.00 GB")
        else:
            self.all_ranks("Capture cuda graph begin. This can take up to several minutes.")
        self.raw("\r  0%|          | 0/3 [00:00<?, ?it/s]\rCapturing batches (bs=4 avail_mem=12.90 GB):  33%|███      "
                 " | 1/3 "
                 "[00:01<00:02,  1.00s/it]")

    def _captured(self) -> None:
        self.wait(6)
        if self.release >= (0, 5, 22):
            self.all_ranks("Capture target decode CUDA graph end. bs=[1, 2, 4], elapsed=6.00 s, mem usage=1.00 GB, "
                           "avail mem=12.00 GB.")
        elif self.release >= (0, 5, 14):
            self.all_ranks("Capture target decode CUDA graph end. elapsed=6.00 s, mem usage=1.00 GB, avail mem=12.00 "
                           "GB.")
        elif self.release >= (0, 4, 6):
            self.all_ranks("Capture cuda graph end. Time elapsed: 6.00 s. mem usage=1.00 GB. avail mem=12.00 GB.")
        else:
            self.all_ranks("Capture cuda graph end. Time elapsed: 6.00 s")

    def _capacity(self) -> None:
        chunk = "chunked_prefill_size=8192, " if self.release >= (0, 4, 2) else ""
        free = ", available_gpu_mem=12.00 GB" if self.release >= (0, 4, 7) else ""
        self.say(f"max_total_num_tokens=400000, {chunk}max_prefill_tokens=16384, max_running_requests=2048, "
                 f"context_len=32768{free}", 0)

    def _pinning(self) -> None:
        if not self.args.get("enable_hierarchical_cache"):
            return
        if self.release >= (0, 5, 17):
            self.all_ranks("Allocating kv hierarchical KV host pool: 800000 tokens, 60.00 GB host memory.")
        else:
            self.all_ranks("Allocating 60.00 GB host memory for hierarchical KV cache.")

    def _listening(self) -> None:
        self.say("INFO:     Started server process [4711]").say("INFO:     Waiting for application startup.")
        self.say("INFO:     Application startup complete.")
        self.say(f"INFO:     Uvicorn running on http://0.0.0.0:{self.args['port']} (Press CTRL+C to quit)")

    def _ready(self) -> None:
        self.wait(3).say('INFO:     127.0.0.1:50000 - "POST /generate HTTP/1.1" 200 OK')
        self.say("The server is fired up and ready to roll!")

    # -- ends -----------------------------------------------------------------------------------------------------

    def rank_dies(self, last: Sequence[str] | str, rank: int = 0, who: str = "Scheduler") -> StartLog:
        """A traceback of a rank whose last lines are ``last``, then the parent's word."""
        self.wait(1).say(f"{who} hit an exception: Traceback (most recent call last):", rank)
        self.raw('  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 2747, in '
                 'run_scheduler_process',
                 "    scheduler = Scheduler(", "                ^^^^^^^^^^")
        self.raw(*([last] if isinstance(last, str) else last))
        if self.release >= (0, 4, 4):
            self.say("Received sigquit from a child process. It usually means the child failed.")
        return self

    def main_dies(self, last: Sequence[str] | str) -> StartLog:
        self.raw("Traceback (most recent call last):",
                 '  File "/opt/venv/lib/python3.12/site-packages/sglang/launch_server.py", line 35, in <module>',
                 "    run_server(server_args)")
        return self.raw(*([last] if isinstance(last, str) else last))

    def gone(self, code: str = "killed", status: str = "9/KILL", result: str = "signal") -> StartLog:
        """What systemd says of it."""
        self.raw(f"{self.unit}: Main process exited, code={code}, status={status}",
            f"{self.unit}: Failed with result '{result}'.")
        return self

    def exited(self, status: str = "1/FAILURE") -> StartLog:
        return self.gone("exited", status, "exit-code")
