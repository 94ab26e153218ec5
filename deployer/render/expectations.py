"""What a release promises, from the settings: the verifier on the host needs nothing else."""

from __future__ import annotations

from typing import Any

from deployer.protocol.expectations import Expectations, Load, Prompt
from deployer.render.arguments import declared
from deployer.render.spelling import Spelling
from deployer.settings.model import UnitSettings
from deployer.sglang.health import health, router_health

DEFAULT_PORT = 30000
"""Of SGLang and of its router, in every release."""

_ANY_ADDRESS = {"", "0.0.0.0", "localhost", "*"}


def expectations(
    settings: UnitSettings, lowest: str, spelling: Spelling, secret_args: tuple[str, ...]
) -> Expectations:
    """``lowest`` is the lowest allowed release; ``secret_args`` are dest names."""
    args = {spelling.dest(name): value for name, value in declared(settings).items()}
    router = settings.program == "router"
    verify, devices = settings.verify, settings.gpu.devices
    prompt, load = verify.prompt, verify.load
    dtype = args.get("kv_cache_dtype")
    model = args.get("model_path")
    return Expectations(
        release=lowest,
        kind=settings.program,
        host=_address(args.get("host")),
        port=_port(args.get("port")),
        health=router_health() if router else health(lowest, env=settings.env, node_rank=_rank(args.get("node_rank"))),
        args=args,
        secret_args=secret_args,
        gpus=tuple(str(device) for device in devices) if isinstance(devices, tuple) else (),
        all_gpus=devices == "all",
        memory_free_mib=verify.min_gpu_memory_free_mib,
        memory_used_mib=verify.gpu_memory_used_mib,
        min_tokens=verify.min_total_tokens,
        kv_dtype=dtype if isinstance(dtype, str) and dtype != "auto" else None,
        prompt=Prompt(prompt.text, prompt.expect, prompt.max_tokens) if prompt else None,
        load=Load(load.requests, load.concurrency, load.tokens, load.max_fall) if load else None,
        model_path=model if isinstance(model, str) else None,
        deadline=verify.deadline,
        stall=verify.stall,
        settle=verify.settle,
        drain=verify.drain,
        clean=settings.gpu.clean,
    )


def _address(host: Any) -> str:
    """Where the host itself reaches the server."""
    written = str(host or "").strip("[]")
    if written in _ANY_ADDRESS:
        return "127.0.0.1"
    return "::1" if written == "::" else written


def _port(value: Any) -> int | None:
    try:
        return DEFAULT_PORT if value is None else int(value)
    except (TypeError, ValueError):
        return None


def _rank(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0
