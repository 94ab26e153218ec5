"""What a release promises: enough for the host to verify it alone, old or new."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from deployer.protocol import records


@records.dataclass(frozen=True)
class Health:
    """How this release of SGLang answers, from ``deployer.sglang.health`` (facts: SGLANG.md section 2).

    ``path`` answers 200 only when healthy if ``means_ready``; otherwise it answers as soon as the port is open.
    ``timeout`` in seconds is above the server's own limit, so that a slow answer is not taken for none.
    """

    path: str = "/health"
    ready_path: Optional[str] = None               # "/ready" where the release has it: instant, no probe
    means_ready: bool = True
    timeout: float = 25.0
    info_path: Optional[str] = "/server_info"


@records.dataclass(frozen=True)
class Prompt:
    """One real request; the answer must contain ``expect`` where given."""

    text: str
    expect: Optional[str] = None
    max_tokens: int = 16


@records.dataclass(frozen=True)
class Load:
    """A short measured load."""

    requests: int
    concurrency: int
    tokens: int
    max_fall: Optional[float] = None               # share, 0.1 = 10 % slower than the release before fails


@records.dataclass(frozen=True)
class Expectations:
    """The gates' figures. Times in seconds, memory in MiB. None or empty: not declared, the gate says so and passes.

    ``args`` are the declared server arguments by dest name (underscores) for *declared = running*.
    ``secret_args`` name arguments whose values are secret: their presence is compared, never their value.
    ``kind`` is "sglang" or "router" (whose readiness is its truth) or "minimal" (release 0: active, settled, port).
    """

    release: str = ""
    kind: str = "sglang"
    host: str = "127.0.0.1"
    port: Optional[int] = None
    health: Health = Health()
    args: Dict[str, Any] = records.field(default_factory=dict)
    secret_args: Tuple[str, ...] = ()
    gpus: Tuple[str, ...] = ()                     # indices as text, or UUIDs; empty: none declared
    all_gpus: bool = False
    memory_free_mib: Optional[int] = None
    memory_used_mib: Optional[int] = None
    min_tokens: Optional[int] = None
    kv_dtype: Optional[str] = None
    prompt: Optional[Prompt] = None
    load: Optional[Load] = None
    model_path: Optional[str] = None
    deadline: float = 1200.0
    stall: float = 300.0
    settle: float = 10.0
    drain: float = 120.0
    clean: str = "own"
    forecast_tokens: Optional[int] = None
