"""Declared = running: the declared server arguments against what the server says of itself. Pure.

The server's account is /server_info (/get_server_info before 0.5.6): SGLang's ``ServerArgs`` as a flat object, with
scheduler facts beside it (http_server.py). Newer releases may group the arguments; groups are looked into.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from deployer.protocol import patterns, records

ALIASES = {
    "model": "model_path", "tensor_parallel_size": "tp_size", "data_parallel_size": "dp_size", "ep": "ep_size",
    "expert_parallel_size": "ep_size", "pipeline_parallel_size": "pp_size",
    "enable_hicache": "enable_hierarchical_cache", "speculative_draft_model": "speculative_draft_model_path",
    "tp": "tp_size", "dp": "dp_size",
    "attention_context_parallel_size": "attn_cp_size", "moe_data_parallel_size": "moe_dp_size",
}
"""Spellings of the command line, and the names under which the server tells them."""

_DTYPES = {
    "bf16": "bfloat16", "torch.bfloat16": "bfloat16", "half": "float16", "fp16": "float16", "torch.float16": "float16",
    "float": "float32", "fp32": "float32", "torch.float32": "float32", "torch.float8_e4m3fn": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3", "torch.float8_e5m2": "fp8_e5m2", "float8_e5m2": "fp8_e5m2",
    "torch.float8_e4m3fnuz": "fp8_e4m3", "float8_e4m3fnuz": "fp8_e4m3",
}
_SYNONYMS = {"speculative_algorithm": {"NEXTN": "EAGLE"}}
_ON, _OFF = ("on",), ("off",)                       # unlike True and False, equal to no number
_WORDS = {"true": _ON, "false": _OFF, "none": _OFF}
_HUMAN = patterns.compile(r"([0-9]+(?:\.[0-9]+)?)([kKmMgG])")
_HUMAN_FACTORS = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
_NOT_TOLD = {"config"}
ALWAYS_SECRET = ("api_key", "admin_api_key", "ssl_keyfile_password")
"""Of these only the presence is ever compared."""
RESOLVED = (
    "kv_cache_dtype", "mem_fraction_static", "attention_backend", "prefill_attention_backend",
    "decode_attention_backend", "sampling_backend", "tp_size", "dp_size", "ep_size", "pp_size", "context_length",
    "quantization", "dtype",
    "max_running_requests", "max_total_tokens", "chunked_prefill_size", "page_size", "cuda_graph_max_bs",
    "cuda_graph_max_bs_decode", "moe_runner_backend", "moe_a2a_backend", "speculative_algorithm",
    "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens", "enable_hierarchical_cache",
    "hicache_size", "hicache_ratio", "schedule_policy",
)
"""Arguments whose resolved values an admin wants to see."""


@records.dataclass(frozen=True)
class Difference:
    """One declared argument whose running value is another.

    ``passed``: the process was given the declared value and the server itself made another of it (a model's own
    rule, a limit of the hardware). Otherwise the process was started with something else, as by a drop-in by hand.
    """

    name: str
    declared: Any
    running: Any
    passed: bool = False

    @property
    def text(self) -> str:
        if self.running is None and not self.passed:
            return "{}: declared {}, not set in the running server".format(_dashed(self.name), shown(self.declared))
        text = "{}: declared {}, running {}".format(_dashed(self.name), shown(self.declared), shown(self.running))
        return text + (" (the server changed it by itself)" if self.passed else "")


@records.dataclass(frozen=True)
class Comparison:
    """``unknown``: declared arguments that the server says nothing about. ``equal``: how many agree."""

    equal: int = 0
    differences: Tuple[Difference, ...] = ()
    unknown: Tuple[str, ...] = ()
    resolved: Mapping[str, Any] = records.field(default_factory=dict)


def compare(
    declared: Mapping[str, Any], info: Mapping[str, Any], argv: Sequence[str] = (), secret: Iterable[str] = (),
) -> Comparison:
    """Every declared argument against ``info``. Of ``secret`` ones only the presence is compared."""
    running = flat(info)
    hidden = {canonical(name) for name in secret}
    hidden |= {canonical(name) for name, value in declared.items() if value and canonical(name) in ALWAYS_SECRET}
    equal, differences, unknown = 0, [], []
    for name, value in declared.items():
        key = canonical(name)
        if key in _NOT_TOLD or value is None or key in hidden:
            continue
        if key not in running:
            unknown.append(name)
        elif same(key, value, running[key]):
            equal += 1
        else:
            differences.append(Difference(key, value, running[key], _passed(name, key, value, argv)))
    for key in sorted(hidden):
        if key in running and not running[key]:
            differences.append(Difference(key, "a secret", None))
        elif key in running:
            equal += 1
        else:
            unknown.append(key)
    return Comparison(equal, tuple(differences), tuple(unknown), resolved(running))


def canonical(name: str) -> str:
    """The server's own name of an argument."""
    plain = name.lstrip("-").replace("-", "_")
    return ALIASES.get(plain, plain)


def flat(info: Mapping[str, Any]) -> Dict[str, Any]:
    """The server's arguments as one object: what stands in groups is brought up, what stands above it wins."""
    found: Dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, dict) and (key == "server_args" or _is_group(value)):
            for name, item in value.items():
                found.setdefault(name, item)
    found.update({key: value for key, value in info.items() if key != "internal_states"})
    return found


def _is_group(value: Mapping[str, Any]) -> bool:
    return len(value) > 3 and any(name in value for name in ("model_path", "tp_size", "mem_fraction_static", "port"))


def resolved(running: Mapping[str, Any]) -> Dict[str, Any]:
    """What the server made of the arguments that matter, declared or not."""
    return {name: running[name] for name in RESOLVED if running.get(name) is not None}


def same(key: str, declared: Any, running: Any) -> bool:
    """Whether two values mean the same, whatever their types say."""
    if declared == "auto" and running is not None:
        return True
    return _plain(key, declared) == _plain(key, running) or _listed(key, declared, running)


def _listed(key: str, declared: Any, running: Any) -> bool:
    """One value against a list of one; a list against the text that stands for it."""
    if isinstance(running, list) and not isinstance(declared, list):
        return len(running) == 1 and same(key, declared, running[0])
    if isinstance(declared, list) and not isinstance(running, list):
        return (len(declared) == 1 and same(key, declared[0], running)) or (
            isinstance(running, str) and re.split(r"[,\s]+", running) == [str(item) for item in declared])
    return False


def _plain(key: str, value: Any) -> Any:
    if value is None or value is False or value == "":
        return _OFF
    if value is True:
        return _ON
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(key, item) for item in value]
    if isinstance(value, dict):
        return {name: _plain("", item) for name, item in value.items()}
    return _text(key, str(value).strip())


def _text(key: str, text: str) -> Any:
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    human = _HUMAN.fullmatch(text)
    if human:
        return float(human[1]) * _HUMAN_FACTORS[human[2]]
    try:
        return float(text)
    except ValueError:
        pass
    if text[:1] in "{[":
        try:
            return _plain(key, json.loads(text))
        except ValueError:
            return text
    if key.endswith("dtype") or lowered.startswith("torch."):
        return _DTYPES.get(lowered, lowered)
    text = _SYNONYMS.get(key, {}).get(text, text)
    return text.rstrip("/") if "/" in text else text


def dtype(value: Optional[str]) -> Optional[str]:
    """One name for a KV cache dtype: ``torch.float8_e4m3fn`` and ``fp8_e4m3`` are the same."""
    return None if value is None else _DTYPES.get(value.strip().lower(), value.strip().lower())


def _passed(name: str, key: str, value: Any, argv: Sequence[str]) -> bool:
    """Whether the process's own command line holds the declared value."""
    spellings = {_dashed(name), _dashed(key)} | {_dashed(alias) for alias, target in ALIASES.items() if target == key}
    for index, word in enumerate(argv):
        flag, joined, rest = word.partition("=")
        if flag not in spellings:
            continue
        if value is True:
            return True
        following: List[str] = [rest] if joined else []
        for item in argv[index + 1:] if not joined else ():
            if item.startswith("--"):
                break
            following.append(item)
        given: Any = following if isinstance(value, list) else (following[0] if following else None)
        return same(key, value, given)
    return value is False


def _dashed(name: str) -> str:
    return "--" + name.lstrip("-").replace("_", "-")


def shown(value: Any) -> str:
    """A value as an admin would write it, cut at 80 characters."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, (dict, list)):
        text = json.dumps(value)
    else:
        text = "none" if value is None else str(value)
    return text if len(text) <= 80 else text[:77] + "..."
