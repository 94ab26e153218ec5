"""The log lines of a start, in each release's own words, on standard error as SGLang writes them."""

from __future__ import annotations

import os
import time
from typing import Any

from .release import Release

GRAPH_BATCHES = [1, 2, 4, 8, 16, 24, 32]
UNICODE_BLOCK = "█"


class Narrator:
    """Writes whole lines in one go, so that those of several processes do not mix."""

    def __init__(self, release: Release, site: str) -> None:
        self.release = release
        self.site = site

    def raw(self, text: str) -> None:
        os.write(2, text.encode("utf-8", "surrogateescape"))

    def line(self, text: str, rank: str = "") -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self.raw(f"[{stamp}{rank}] {text}\n")

    def uvicorn(self, text: str, level: str = "INFO") -> None:
        self.line(f"{level + ':':<9} {text}")

    # -- the phases -------------------------------------------------------------------------------------------------

    def launched(self, args: dict[str, Any]) -> None:
        if self.release.says_user_warning:
            self.raw(f"{self.site}/sglang/launch_server.py:57: UserWarning: 'python -m sglang.launch_server' is still "
                     "supported, but 'sglang serve' is the recommended entrypoint.\n"
                     "  Example: sglang serve --model-path <model> [options]\n  warnings.warn(\n")
        if self.release.args_as_dict:
            self.line(f"server_args={args!r}")
        else:
            self.line("server_args=ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in args.items()) + ")")
        if self.release >= (0, 5, 4):
            self.line("Using default HuggingFace chat template with detected content format: string")

    def distributed_begin(self, rank: str) -> None:
        self.line("Init parallel begin." if self.release >= (0, 5, 21) else "Init torch distributed begin.", rank)

    def distributed_end(self, rank: str, used: float) -> None:
        if self.release >= (0, 5, 21):
            self.line("Init parallel ends. elapsed=3.08 s", rank)
            self.line(f"Memory baseline taken. mem usage={used:.2f} GB", rank)
        elif self.release >= (0, 5, 9):
            self.line(f"Init torch distributed ends. elapsed=1.84 s, mem usage={used:.2f} GB", rank)
        elif self.release >= (0, 4, 4):
            self.line(f"Init torch distributed ends. mem usage={used:.2f} GB", rank)

    def weights_begin(self, rank: str, available: float) -> None:
        self.line(f"Load weight begin. avail mem={available:.2f} GB", rank)

    def weights_progress(self, done: int, total: int) -> None:
        percent = done * 100 // total
        if self.release >= (0, 5, 13):
            self.raw(f"\rMulti-thread loading shards: {percent:3d}% Completed | {done}/{total} "
                     "[00:01<00:01,  1.02it/s]" + ("\n" if done == total else ""))
        else:
            self.raw(f"\rLoading safetensors checkpoint shards: {percent:3d}% Completed | {done}/{total} "
                     "[00:01<00:01,  1.52it/s]\n")

    def weights_end(self, rank: str, kind: str, quant: str, available: float, used: float) -> None:
        if self.release >= (0, 5, 10):
            quantized = f"quant={quant}, " if quant else ""
            text = f"Load weight end. elapsed=1.05 s, type={kind}, {quantized}"
        elif self.release >= (0, 5, 9):
            text = f"Load weight end. elapsed=1.05 s, type={kind}, dtype=torch.bfloat16, "
        else:
            text = f"Load weight end. type={kind}, dtype=torch.bfloat16, "
        text += f"avail mem={available:.2f} GB"
        self.line(f"{text}, mem usage={used:.2f} GB." if self.release >= (0, 4, 4) else text, rank)

    def fp8_without_scales(self, rank: str) -> None:
        text = "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0."
        if self.release < (0, 5, 20):
            text += " This may lead to less accurate results!"
        self.line(text, rank)

    def kv_cache(self, rank: str, dtype: str, tokens: int, size: float, mla: bool, available: float) -> None:
        if (0, 5, 3) <= self.release.number < (0, 5, 13):
            self.line(f"Using KV cache dtype: torch.{dtype}", rank)
        head = "KV Cache is allocated. "
        if self.release >= (0, 5, 13):
            head += f"dtype: torch.{dtype}, "
        if self.release >= (0, 4, 4):
            head += f"#tokens: {tokens}, "
        if mla and self.release >= (0, 4, 6):
            self.line(f"{head}KV size: {size:.2f} GB", rank)
        else:
            dot = "" if self.release >= (0, 4, 4) else "."
            self.line(f"{head}K size: {size / 2:.2f} GB, V size: {size / 2:.2f} GB{dot}", rank)
        self.line(f"Memory pool end. avail mem={available:.2f} GB", rank)

    def graphs_begin(self, rank: str, available: float) -> None:
        if self.release >= (0, 5, 14):
            per = "num_tokens_per_req" if self.release >= (0, 5, 16) else "num_tokens_per_bs"
            self.line(f"Capture target decode CUDA graph begin. backend=full, {per}=1, bs={GRAPH_BATCHES}, "
                      f"avail mem={available:.2f} GB", rank)
        else:
            self.line(f"Capture cuda graph begin. This can take up to several minutes. avail mem={available:.2f} GB",
                      rank)

    def graphs_progress(self, done: int, available: float) -> None:
        total = len(GRAPH_BATCHES)
        percent = done * 100 // total
        bar = UNICODE_BLOCK * (percent // 10)
        self.raw(f"\rCapturing batches (bs={GRAPH_BATCHES[-done]} avail_mem={available:.2f} GB): "
                 f"{percent:3d}%|{bar:<10}| {done}/{total} [00:00<00:00,  9.95it/s]" + ("\n" if done == total else ""))

    def graphs_end(self, rank: str, used: float, available: float) -> None:
        if self.release >= (0, 5, 14):
            batches = f"bs={GRAPH_BATCHES}, " if self.release >= (0, 5, 22) else ""
            self.line(f"Capture target decode CUDA graph end. {batches}elapsed=7.75 s, mem usage={used:.2f} GB, "
                      f"avail mem={available:.2f} GB.", rank)
        else:
            self.line(f"Capture cuda graph end. Time elapsed: 7.75 s. mem usage={used:.2f} GB. "
                      f"avail mem={available:.2f} GB.", rank)

    def capacity(self, rank: str, tokens: int, running: int, context: int, available: float, device: str) -> None:
        text = (f"max_total_num_tokens={tokens}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
                f"max_running_requests={running}, context_len={context}")
        if self.release >= (0, 4, 7):
            text += f", available_{'cpu' if device == 'cpu' else 'gpu'}_mem={available:.2f} GB"
        self.line(text, rank)

    def hierarchical(self, rank: str, tokens: int, size: float) -> None:
        if self.release >= (0, 5, 17):
            self.line(f"Allocating kv hierarchical KV host pool: {tokens} tokens, {size:.2f} GB host memory.", rank)
        elif self.release >= (0, 4, 8):
            self.line(f"Allocating {size:.2f} GB host memory for hierarchical KV cache.", rank)

    def server_process(self) -> None:
        self.uvicorn(f"Started server process [{os.getpid()}]")
        self.uvicorn("Waiting for application startup.")
        self.uvicorn("Application startup complete.")

    def listening(self, host: str, port: int) -> None:
        self.uvicorn(f"Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")

    def request(self, client: str, first: str, status: str) -> None:
        self.uvicorn(f'{client} - "{first}" {status}')

    def prefill(self, rank: str) -> None:
        dot = "," if self.release >= (0, 5, 9) else "."
        self.line(f"Prefill batch{dot} #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, "
                  "#running-req: 0, #queue-req: 0, ", rank)

    def ready(self) -> None:
        self.line("The server is fired up and ready to roll!")

    # -- endings ----------------------------------------------------------------------------------------------------

    def sigquit(self) -> None:
        self.line("Received sigquit from a child process. It usually means the child failed.")
        if self.release >= (0, 5, 14):
            self.line(f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=True, pid={os.getpid()}")

    def scheduler_exception(self, rank: str, error: str) -> None:
        self.line(f"Scheduler hit an exception: Traceback (most recent call last):\n"
                  f'  File "{self.site}/sglang/srt/managers/scheduler.py", line 3130, in run_scheduler_process\n'
                  f"    scheduler = Scheduler(\n                ^^^^^^^^^^\n{error}\n", rank)

    def traceback(self, error: str) -> None:
        self.raw("Traceback (most recent call last):\n"
                 f'  File "{self.site}/sglang/launch_server.py", line 69, in <module>\n    run_server(server_args)\n'
                 f"{error}\n")
