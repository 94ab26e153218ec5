"""The stand-in SGLang on a host, from the test's side: which release, how it behaves, and its strings while it runs."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from deployer.sglang.catalogue import catalogue

if TYPE_CHECKING:
    from tests.hosts.bed.host import Host

VENV = "/opt/sglang/.venv"
MODEL = "/models/tiny"
RELEASE = "0.5.9"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 32768,
    "vocab_size": 32000, "torch_dtype": "bfloat16",
}
"""A model with 131,072 bytes of KV cache per token at bf16."""


@functools.cache
def flag_table(release: str) -> str:
    """What ``release`` registers, as JSON by spelling: from the catalogue that is read out of the release's wheel."""
    known = catalogue()
    table = {
        spelling: {
            "dest": flag.dest, "nargs": flag.nargs, "type": flag.type, "default": flag.default,
            "choices": None if flag.open_choices else flag.choices,
        }
        for spelling, flag in known.spellings(known.standing(release)).items()
    }
    return json.dumps(table, default=str)


class Sglang:
    """0.5.9 in /opt/sglang/.venv and a model in /models/tiny are there from the start."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def install(self, release: str, prefix: str = VENV) -> str:
        """Puts ``release`` in place of what is in ``prefix``; returns its interpreter's path."""
        install = ["python3", "-IS", "/usr/local/lib/standin/install.py", prefix, release]
        self._host.run(install, input=flag_table(release))
        return f"{prefix}/bin/python"

    def model(self, path: str, *, weights_gib: float = 8.0, kv_fp8: bool = False, **config: Any) -> None:
        """A model folder: ``config`` over the tiny one's, weights as one sparse file of ``weights_gib`` in all."""
        self._host.write(f"{path}/config.json", json.dumps({**CONFIG, **config}))
        self._host.run(["truncate", "-s", str(int(weights_gib * (1 << 30))), f"{path}/model.safetensors"])
        if kv_fp8:
            quantization = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
            self._host.write(f"{path}/hf_quant_config.json", json.dumps({"quantization": quantization}))

    def behave(self, *rules: dict[str, Any], persist: bool = False, **behaviour: Any) -> None:
        """What starts from now on do; see tests/standin/sglang_standin/behaviour.py for all there is.

        ``behave(hold=["weights"])`` for every start, ``behave({"when": {"port": 30001}, "fail": {...}})`` for some.
        ``persist`` outlives a reboot. None: as a plain good server.
        """
        every = [*rules, *([behaviour] if behaviour else [])]
        path = "/etc/standin.json" if persist else "/run/standin/behaviour.json"
        self._host.run(["mkdir", "-p", "-m", "1777", "/run/standin"])
        self._host.write(path, json.dumps(every))

    def at(self, port: int) -> Running:
        """The stand-in that runs, or will run, on ``port``."""
        return Running(self._host, port)


class Running:
    """One running stand-in. Every call waits up to ``seconds`` for it to be there."""

    def __init__(self, host: Host, port: int) -> None:
        self._host = host
        self._port = port

    def wait(self, phase: str, seconds: float = 20.0) -> dict[str, Any]:
        """Returns once ``phase`` is reached.

        One of launched, distributed, weights, kv-cache, graphs, capacity, port, warmup, ready.
        """
        return self._ask({"do": "wait", "phase": phase}, seconds)

    def advance(self, *, all: bool = False) -> dict[str, Any]:
        """Goes on from the phase where it holds; ``all``: and holds nowhere any more."""
        return self._ask({"do": "advance", "all": all})

    def set(self, **behaviour: Any) -> dict[str, Any]:
        """Changes the behaviour of the running one alone."""
        return self._ask({"do": "set", "behaviour": behaviour})

    def die(self, how: str = "exit", **how_exactly: Any) -> None:
        """Fails now: see tests/standin/sglang_standin/failures.py for the ways."""
        self._ask({"do": "die", "how": how, **how_exactly})

    def finish(self) -> dict[str, Any]:
        """Lets requests that are held (``hold_requests``) be answered."""
        return self._ask({"do": "finish"})

    def log(self, text: str) -> None:
        self._ask({"do": "log", "text": text})

    def status(self, seconds: float = 20.0) -> dict[str, Any]:
        """phase, pid, ready, requests, schedulers, helpers (pids inside the host)."""
        return self._ask({"do": "status"}, seconds)

    def _ask(self, request: dict[str, Any], seconds: float = 20.0) -> dict[str, Any]:
        said = self._host.run(["python3", "-IS", "/usr/local/lib/standin/sglang_standin/control.py", str(self._port),
                               str(seconds), json.dumps(request)], timeout=seconds + 10)
        reply: dict[str, Any] = json.loads(said.out)
        if "error" in reply:
            raise AssertionError(f"stand-in on port {self._port}: {reply['error']}")
        return reply
