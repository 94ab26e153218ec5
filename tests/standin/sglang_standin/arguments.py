"""Server arguments as argparse would take them: the release's own names, its exit status 2, and ``--config``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .release import Release

DEFAULTS: dict[str, Any] = {
    "model_path": None, "tokenizer_path": None, "tokenizer_mode": "auto", "load_format": "auto",
    "trust_remote_code": False, "dtype": "auto", "kv_cache_dtype": "auto", "quantization": None, "context_length": None,
    "device": "cuda", "served_model_name": None, "host": "127.0.0.1", "port": 30000, "mem_fraction_static": None,
    "max_running_requests": None, "max_total_tokens": None, "chunked_prefill_size": 8192, "max_prefill_tokens": 16384,
    "schedule_policy": "fcfs", "page_size": 1, "tp_size": 1, "pp_size": 1, "dp_size": 1, "ep_size": 1,
    "base_gpu_id": 0, "watchdog_timeout": 300, "log_level": "info", "api_key": None, "skip_server_warmup": False,
    "enable_hierarchical_cache": False, "hicache_ratio": 2.0, "hicache_size": 0, "enable_metrics": False,
    "disable_cuda_graph": False, "attention_backend": None,
}
"""What every start shows in its ``server_args`` line, beside what was given."""

ALIASES = {
    "model": "model_path", "tensor_parallel_size": "tp_size", "data_parallel_size": "dp_size", "ep": "ep_size",
    "pipeline_parallel_size": "pp_size", "expert_parallel_size": "ep_size", "tp": "tp_size", "dp": "dp_size",
    "enable_hicache": "enable_hierarchical_cache",
}
KV_DTYPES_OLD = ("auto", "fp8_e5m2", "fp8_e4m3")


class UsageError(Exception):
    """What argparse would complain about."""


def parse(words: list[str], release: Release, flags: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """All arguments by dest name. ``flags``: the release's table, spelling -> dest, nargs, choices, type, default.

    Raises ``UsageError`` where argparse would end with exit status 2.
    """
    words = merge_config(words, release)
    known = {ALIASES.get(flag["dest"], flag["dest"]): flag["default"] for flag in flags.values()}
    known.update(DEFAULTS)
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            if release >= (0, 5, 18) and known["model_path"] is None:
                known["model_path"] = word
                continue
            raise UsageError(f"unrecognized arguments: {word}")
        name, equals, inline = word.partition("=")
        flag = find(name, flags)
        dest = flag.get("dest") or name[2:].replace("-", "_")
        dest = ALIASES.get(dest, dest)
        values = [inline] if equals else []
        wanted = flag.get("nargs", "*")
        most = {None: 1, "?": 1}.get(wanted, wanted if isinstance(wanted, int) else len(rest))
        while not equals and rest and len(values) < most and not is_option(rest[0]):
            values.append(rest.pop(0))
        if (wanted is None and not values) or (wanted == "+" and not values):
            raise UsageError(f"argument {name}: expected one argument" if wanted is None else
                             f"argument {name}: expected at least one argument")
        known[dest] = value(name, dest, values, flag, release)
    if not known["model_path"]:
        raise UsageError("the following arguments are required: --model-path" +
                         ("/--model" if release >= (0, 4, 9) else ""))
    known["tokenizer_path"] = known["tokenizer_path"] or known["model_path"]
    known["served_model_name"] = known["served_model_name"] or known["model_path"]
    return known


def is_option(word: str) -> bool:
    """A word that begins an option; a negative number does not."""
    return word.startswith("-") and not word.lstrip("-").replace(".", "").isdigit()


def find(name: str, flags: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The flag of that name, or the one it abbreviates, as argparse allows. No table: any name is known."""
    if not flags or name in flags:
        return flags.get(name, {})
    near = sorted(spelling for spelling in flags if spelling.startswith(name))
    if not near:
        raise UsageError(f"unrecognized arguments: {name}")
    if len(near) > 1:
        raise UsageError(f"ambiguous option: {name} could match {', '.join(near)}")
    return flags[near[0]]


def value(name: str, dest: str, values: list[str], flag: dict[str, Any], release: Release) -> Any:
    """The value in its type; raises ``UsageError`` in argparse's words."""
    choices = flag.get("choices")
    if dest == "kv_cache_dtype" and not choices and not release.accepts_bf16:
        choices = KV_DTYPES_OLD
    wanted = {"int": int, "float": float}.get(str(flag.get("type")))
    for text in values:
        if choices and text not in [str(choice) for choice in choices]:
            listed = ", ".join(repr(choice) for choice in choices)
            raise UsageError(f"argument {name}: invalid choice: {text!r} (choose from {listed})")
        if wanted:
            try:
                wanted(text)
            except ValueError:
                raise UsageError(f"argument {name}: invalid {flag['type']} value: {text!r}") from None
    typed = [scalar(text, dest) for text in values]
    if not typed:
        return not name.startswith("--no-")
    return typed if flag.get("nargs") in ("+", "*") or len(typed) > 1 else typed[0]


def scalar(text: str, dest: str) -> Any:
    if dest in ("model_path", "tokenizer_path", "served_model_name", "api_key", "admin_api_key", "host"):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def merge_config(words: list[str], release: Release) -> list[str]:
    """Puts the entries of ``--config FILE`` in front, so that the command line wins, as the releases' merger does."""
    if "--config" not in words:
        return words
    if not release.reads_config:
        raise UsageError("unrecognized arguments: --config")
    at = words.index("--config")
    file = Path(words[at + 1])
    if file.suffix not in (".yaml", ".yml"):
        raise ValueError("Config file must be YAML format")
    from_file: list[str] = []
    for line in file.read_text().splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, _, text = line.partition(":")
        key, text = key.strip().strip("\"'"), text.strip()
        try:
            entry = json.loads(text)
        except ValueError:
            entry = text.strip("'")
        if "_" in key:
            raise UsageError(f"unrecognized arguments: --{key} {entry}")
        if entry is True:
            from_file.append(f"--{key}")
        elif isinstance(entry, list):
            from_file += [f"--{key}", *(str(item) for item in entry)]
        elif entry not in (False, None):
            from_file += [f"--{key}", str(entry)]
    return from_file + words[:at] + words[at + 2:]


def complain(error: UsageError, release: Release) -> None:
    """argparse's last words; the exit status is 2."""
    program = "sglang serve" if release >= (0, 5, 18) else "launch_server.py"
    sys.stderr.write(f"usage: {program} [-h] --model-path MODEL_PATH [--port PORT] ...\n{program}: error: {error}\n")
