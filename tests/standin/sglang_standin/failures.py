"""Every way to fail that the stand-in knows, in the words and with the ends that SGLang has for it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import children, memory

if TYPE_CHECKING:
    from .children import Child
    from .server import Server


class Ending(Exception):
    """The process ends with this exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def fail_if_told(server: Server, phase: str) -> None:
    told = server.behaviour["fail"]
    if told and told.get("at", "launched") == phase:
        fail(server, told)


def fail(server: Server, told: dict[str, Any]) -> None:
    """``how``: exit (code), kill, signal (number), scheduler-kill (rank), cuda-oom, kv-oom, graph-oom, host-oom,
    unbalanced, exception (text), traceback (text), stall, hang-health."""
    how = told["how"]
    child = server.ranks[int(told.get("rank", 0))] if server.ranks else None
    if how == "exit":
        server.kill_children()
        raise Ending(int(told.get("code", 1)))
    if how in ("kill", "signal"):
        os.kill(os.getpid(), int(told.get("number", signal.SIGKILL)))
    elif how == "scheduler-kill" and child:
        child.kill()
    elif how == "cuda-oom" and child:
        cuda_out_of_memory(server, child, 0.58)
    elif how == "kv-oom":
        no_room_for_kv(server, float(server.args["mem_fraction_static"] or 0.88))
    elif how == "graph-oom" and child:
        graph_out_of_memory(server, child)
    elif how == "unbalanced" and child:
        unbalanced(server, child, 17.06, 78.42)
    elif how == "host-oom":
        check_host_memory(server, 168.57e9, available=102.77e9)
    elif how == "exception" and child:
        child_exception(server, child, str(told["text"]))
    elif how == "traceback":
        server.narrator.traceback(str(told["text"]))
        server.kill_children()
        raise Ending(1)
    elif how == "stall":
        while True:
            server.attend()
    else:
        raise ValueError(f"no way to fail is called {how}")


def check_device(server: Server) -> None:
    if server.args["device"] == "cpu" or os.path.exists("/dev/nvidia0") or os.environ.get("CUDA_VISIBLE_DEVICES"):
        return
    server.narrator.traceback("RuntimeError: No accelerator (CUDA, XPU, HPU) is available.")
    raise Ending(1)


def gpu_of_rank(server: Server, position: int) -> int:
    try:
        return children.gpu_of_rank(position, int(server.args["base_gpu_id"]))
    except (LookupError, StopIteration):
        server.narrator.scheduler_exception("", "torch.AcceleratorError: CUDA error: invalid device ordinal")
        sigquit(server)


def read_model(server: Server) -> memory.Model:
    folder = Path(server.args["model_path"])
    try:
        if not (folder / "config.json").exists():
            raise OSError(f"Incorrect path_or_model_id: '{folder}'. Please provide either the path to a local folder "
                          "or the repo_id of a model on the Hub.")
        return memory.Model.read(folder, int(server.args["tp_size"]))
    except OSError as error:
        server.narrator.traceback(f"OSError: {error}")
        raise Ending(1) from None


def check_balance(server: Server, free: dict[int, float]) -> None:
    """A GPU that somebody else uses shrinks or ends the start, as the release's own check does."""
    if os.environ.get("SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK") == "0" or len(server.ranks) < 2:
        return
    for child in server.ranks:
        if min(free.values()) < 0.9 * free[child.pid]:
            unbalanced(server, child, min(free.values()), free[child.pid])


def unbalanced(server: Server, child: Child, least: float, local: float) -> NoReturn:
    child_exception(server, child, "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other "
                    f"processes. min_per_gpu_memory={least}, local_gpu_memory={local}, "
                    f"local_gpu_memory * 0.9={local * 0.9}")


def cuda_out_of_memory(server: Server, child: Child, gib: float) -> NoReturn:
    child_exception(
        server, child, f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {gib * 1024:.2f} MiB. "
        f"GPU {child.gpu} has a total capacity of 95.59 GiB of which 162.31 MiB is free. Including non-PyTorch memory, "
        "this process has 94.22 GiB memory in use.")


def no_room_for_kv(server: Server, fraction: float) -> NoReturn:
    if server.release >= (0, 5, 14):
        text = ("RuntimeError: Loaded weights leave no GPU memory for the KV cache under "
                f"--mem-fraction-static={fraction}. Raise --mem-fraction-static above "
                f"{min(0.99, fraction + 0.05):.3f} (minimum viable for this model).")
    else:
        text = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
        if server.release >= (0, 5, 3):
            text += f" Current value: self.server_args.mem_fraction_static={fraction}"
    child_exception(server, server.ranks[0], text)


def graph_out_of_memory(server: Server, child: Child) -> NoReturn:
    child_exception(
        server, child, "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 594.00 MiB. "
        f"GPU {child.gpu} has a total capacity of 95.59 GiB of which 114.75 MiB is free.\nPossible solutions:\n"
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)")


def check_host_memory(server: Server, size: float, available: float | None = None) -> None:
    """``size`` in bytes per rank; the check of 0.4.10 to 0.5.20, each rank by itself."""
    if available is None:
        if server.behaviour["host_memory"] is None:
            return
        available = float(server.behaviour["host_memory"]) - memory.HOST_RESERVE
    if size > available:
        child_exception(
            server, server.ranks[0], f"ValueError: Not enough host memory available. Requesting {size / 1e9:.2f} GB "
            f"but only have {available / 1e9:.2f} GB free. Please reduce the size of the hierarchical cache.")


def child_exception(server: Server, child: Child, error: str) -> NoReturn:
    """A scheduler's own exception: it tells its parent by SIGQUIT, which ends all, itself last and by SIGKILL."""
    server.narrator.scheduler_exception(child.rank, error)
    child.tell("exit 1")
    sigquit(server)


def sigquit(server: Server) -> NoReturn:
    server.narrator.sigquit()
    server.kill_children()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def child_ended(server: Server, pid: int, status: int) -> None:
    """A child ended by itself or by somebody else's hand."""
    ranks = [child.pid for child in server.ranks]
    if pid not in ranks or status == 0:
        return
    position = ranks.index(pid)
    if not server.ready:
        server.kill_children()
        if server.release >= (0, 5, 10):
            server.narrator.traceback(
                f"RuntimeError: Rank {position} scheduler died during initialization (exit code: {status}). If exit "
                "code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.")
        else:
            server.narrator.line(f"Rank {position} scheduler is dead. Please check if there are relevant logs.")
            server.narrator.traceback(f"EOFError\nExit code: {status}")
        raise Ending(1)
    if server.release.watches_children:
        name = f"scheduler_{position}"
        server.narrator.line(f"Subprocess {name} (pid={pid}) crashed with exit code {status}. "
                             "Triggering SIGQUIT for cleanup...")
        sigquit(server)


def cannot_bind(server: Server, host: str, port: int, error: OSError) -> NoReturn:
    """The port is held. Held by another SGLang, the warm-up reaches that one: the log says ready, and all is a lie."""
    say = server.narrator
    say.uvicorn(f"[Errno {error.errno}] error while attempting to bind on address ('{host}', {port}): "
                f"{str(error.strerror).lower()}", "ERROR")
    say.uvicorn("Waiting for application shutdown.")
    say.uvicorn("Application shutdown complete.")
    if _answers_as_sglang(host, port):
        say.ready()
        server.kill_children()
        raise Ending(3)
    deadline = time.monotonic() + float(server.behaviour["bind_patience"])
    while (left := deadline - time.monotonic()) > 0:
        server.attend(left)
    say.line("Initialization failed. warmup error: Traceback (most recent call last):\n"
             "AssertionError: res=<Response [404]>, res.text='404 page not found\\n'")
    server.kill_children()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _answers_as_sglang(host: str, port: int) -> bool:
    import socket

    target = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    try:
        with socket.create_connection((target, port), 2) as connection:
            connection.sendall(b"GET /get_model_info HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False
