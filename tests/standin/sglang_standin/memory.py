"""How much the pretended server takes: by the releases' own capacity formula, from what is really free on the GPUs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .release import Release

CONTEXT_GIB = 0.94
GRAPHS_GIB = 1.2
HOST_RESERVE = 10 << 30


@dataclass
class Model:
    """What the model folder says. ``cell`` is bytes of KV cache per token and rank at two bytes a value."""

    architecture: str
    mla: bool
    cell: int
    context: int
    weights: int
    quantization: str
    kv_fp8: bool

    @staticmethod
    def read(folder: Path, tensor_parallel: int) -> Model:
        """Raises OSError where there is no config.json or no weights."""
        config = json.loads((folder / "config.json").read_text())
        config.update(config.get("text_config", {}))
        layers = int(config.get("num_hidden_layers", config.get("n_layer", 2)))
        if config.get("full_attention_interval"):
            layers //= int(config["full_attention_interval"])
        if "kv_lora_rank" in config:
            values = (int(config["kv_lora_rank"]) + int(config.get("qk_rope_head_dim", 64))) * layers
        else:
            heads = int(config.get("num_attention_heads", config.get("n_head", 2)))
            size = int(config.get("head_dim", int(config.get("hidden_size", config.get("n_embd", 64))) // heads))
            values = max(1, int(config.get("num_key_value_heads", heads)) // tensor_parallel) * size * 2 * layers
        weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        if not weights:
            raise OSError(f"no file named model.safetensors found in directory {folder}.")
        quantized = folder / "hf_quant_config.json"
        quant = json.loads(quantized.read_text()).get("quantization", {}) if quantized.exists() else {}
        return Model(
            architecture=(config.get("architectures") or ["LlamaForCausalLM"])[0], mla="kv_lora_rank" in config,
            cell=values * 2, context=int(config.get("max_position_embeddings", config.get("n_positions", 4096))),
            weights=weights, quantization=str(quant.get("quant_algo", "")).lower() and "modelopt",
            kv_fp8=str(quant.get("kv_cache_quant_algo", "")).upper() == "FP8",
        )


def pool_dtype(asked: str, model: Model, release: Release) -> str:
    """torch's name of the KV cache's type."""
    if asked == "auto":
        return "float8_e4m3fn" if model.kv_fp8 and release.auto_reads_checkpoint else "bfloat16"
    return {"fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "bf16": "bfloat16"}.get(asked, asked)


def free_mib() -> list[int]:
    """Free memory by GPU index, asked of nvidia-smi; empty where it does not say."""
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=2).stdout
        return [int(line) for line in said.split()]
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []


def total_mib() -> list[int]:
    with open("/etc/gpu.json") as inventory:
        return [int(gpu.get("total", 97887)) for gpu in json.load(inventory)["gpus"]]


def host_memory_available() -> int:
    """Bytes, as psutil.virtual_memory().available."""
    with open("/proc/meminfo") as table:
        for line in table:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def tokens_that_fit(before: float, after: float, fraction: float, cell: int, args: dict[str, Any]) -> int:
    """Both in GiB: free before and after the weights; see the releases' profile_max_num_token."""
    tokens = int((after - before * (1 - fraction)) * (1 << 30) / cell)
    if args.get("max_total_tokens"):
        tokens = min(tokens, int(args["max_total_tokens"]))
    return tokens
