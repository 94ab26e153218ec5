"""Combinations of arguments that a release rejects by itself, and values that no release can mean.

Each rule stands with the releases whose sources hold the check (``sglang/srt/server_args.py``, from 0.5.20 on
``sglang/srt/arg_groups/validation_hook.py`` and its neighbours; the server's ``http_server.py``).
"""

from __future__ import annotations

from deployer.protocol.finding import Level
from deployer.sglang.given import Broken, Given, Rule


def _hicache(given: Given) -> Broken | None:
    if given.on("enable_hierarchical_cache") and given.on("disable_radix_cache"):
        return Broken("disable_radix_cache", "`enable-hierarchical-cache` and `disable-radix-cache` exclude each "
                      "other: the hierarchical cache is a radix cache", "keep one of the two")
    return None


def _workers(given: Given) -> Broken | None:
    if given.number("tokenizer_worker_num", 1) > 1 and given.on("api_key"):
        return Broken("tokenizer_worker_num", "`api-key` does not go with several tokenizer workers",
                      "take tokenizer-worker-num out, or ask for the key in a proxy in front of the server")
    return None


def _yaml(given: Given) -> Broken | None:
    file = given.text("config")
    if file and not file.lower().endswith((".yaml", ".yml")):
        return Broken("config", f"`config` names {file}, and only .yaml and .yml are read")
    return None


def _nodes(given: Given) -> Broken | None:
    ranks, nodes = given.number("tp_size", 1) * given.number("pp_size", 1), given.number("nnodes", 1)
    if nodes > 1 and ranks % nodes:
        return Broken("nnodes", f"tp-size × pp-size = {ranks} cannot be divided among {nodes} nodes")
    return None


def _replicas(given: Given) -> Broken | None:
    if given.number("dp_size", 1) > 1 and given.number("nnodes", 1) > 1 and not given.on("enable_dp_attention"):
        return Broken("dp_size", "data-parallel replicas cannot span nodes; DP attention can",
                      "run a server on each node, with sglang-router in front")
    return None


def _dp_attention(given: Given) -> Broken | None:
    width = given.number("attn_dp_size", 1)
    dest = "attn_dp_size"
    if width <= 1 and given.on("enable_dp_attention"):
        width, dest = given.number("dp_size", 1), "dp_size"
    ranks = given.number("tp_size", 1)
    if width > 1 and ranks % width:
        return Broken(dest, f"tp-size = {ranks} cannot be divided into {width} groups of DP attention",
                      f"tp-size counts all ranks: write tp-size = {max(ranks, 1) * width}, or fewer groups")
    return None


def _two_widths(given: Given) -> Broken | None:
    if given.number("attn_dp_size", 1) > 1 and given.number("dp_size", 1) > 1:
        return Broken("dp_size", "`dp-size` and `attn-dp-size` together are not supported", "take dp-size out")
    return None


def _old_pair(given: Given) -> Broken | None:
    width = given.number("dp_size", 1)
    if given.on("enable_dp_attention") and width > 1:
        return Broken("enable_dp_attention", "`enable-dp-attention` with `dp-size` is the old way to declare DP "
                      "attention, and is to be removed", f"write attn-dp-size = {width} in place of the two")
    return None


def _page(given: Given) -> Broken | None:
    chunk, page = given.number("chunked_prefill_size"), given.number("page_size", 1)
    if chunk > 0 and page > 1 and chunk % page and given.text("disaggregation_mode") != "decode":
        return Broken("chunked_prefill_size", f"chunked-prefill-size = {chunk} is no multiple of page-size = {page}",
                      f"write chunked-prefill-size = {max(chunk // page, 1) * page}")
    return None


def _colon(given: Given) -> Broken | None:
    name = given.text("served_model_name")
    if name and ":" in name and "://" not in name:
        return Broken("served_model_name", "`served-model-name` cannot contain a colon: it stands before a LoRA "
                      "adapter's name", f"write served-model-name = \"{name.replace(':', '-')}\"")
    return None


def _mixed(given: Given) -> Broken | None:
    if given.on("enable_mixed_chunk") and given.number("pp_size", 1) > 1:
        return Broken("enable_mixed_chunk", "mixed chunked prefill does not go with pipeline parallelism",
                      "take enable-mixed-chunk out")
    return None


def _priority(given: Given) -> Broken | None:
    policy = given.text("schedule_policy")
    if given.on("enable_priority_scheduling") and policy not in (None, "fcfs", "lof"):
        return Broken("schedule_policy", f"priority scheduling does not go with schedule-policy = \"{policy}\"",
                      "write \"fcfs\" or \"lof\"")
    return None


def _export(given: Given) -> Broken | None:
    if given.on("export_metrics_to_file") and not given.on("export_metrics_to_file_dir"):
        return Broken("export_metrics_to_file", "`export-metrics-to-file` needs `export-metrics-to-file-dir`",
                      "write export-metrics-to-file-dir = \"…\"")
    return None


def _native_grpc(given: Given) -> bool:
    """The older gRPC server of --smg-grpc-mode comes first where both are asked for."""
    return given.on("grpc_port") and not given.on("smg_grpc_mode") and not given.on("grpc_mode")


def _grpc_port(given: Given) -> Broken | None:
    if _native_grpc(given) and given.number("grpc_port") == given.number("port", 30000):
        return Broken("grpc_port", "`grpc-port` and `port` are the same", "choose another port")
    return None


def _grpc_key(given: Given) -> Broken | None:
    key = next((dest for dest in ("api_key", "admin_api_key") if given.on(dest)), None)
    if _native_grpc(given) and key:
        return Broken("grpc_port", f"`grpc-port` does not go with `{given.names[key]}`: gRPC would be open without it",
                      "take grpc-port out, or ask for the key in a proxy in front of the server")
    return None


def _lora(given: Given) -> Broken | None:
    declared = given.on("max_lora_rank") and given.on("lora_target_modules")
    if given.on("enable_lora") and not given.on("lora_paths") and not declared:
        return Broken("enable_lora", "`enable-lora` needs `lora-paths`, or both `max-lora-rank` and "
                      "`lora-target-modules`", "write max-lora-rank = 16 and lora-target-modules = [\"all\"]")
    return None


def _padding(given: Given) -> Broken | None:
    if given.on("disable_cuda_graph_padding") and given.on("enable_torch_compile"):
        return Broken("disable_cuda_graph_padding", "`disable-cuda-graph-padding` does not go with "
                      "`enable-torch-compile`", "keep one of the two")
    return None


def _share(given: Given) -> Broken | None:
    text = given.written("mem_fraction_static") or "0.5"
    try:
        share = float(text)
    except ValueError:
        return None
    if not 0 < share < 1:
        hint = f"write mem-fraction-static = {share / 100:g}" if 10 <= share < 100 else "write for example 0.85"
        return Broken("mem_fraction_static", f"`mem-fraction-static` is a share of the GPU memory between 0 and 1, "
                      f"not {text}", hint)
    return None


def _ports(given: Given) -> Broken | None:
    for dest in ("port", "nccl_port", "grpc_port", "disaggregation_bootstrap_port"):
        if given.on(dest) and not 0 < given.number(dest, 1) < 65536:
            return Broken(dest, f"{given.number(dest)} is no port: ports go from 1 to 65535")
    return None


def _alone(given: Given) -> Broken | None:
    if given.number("nnodes", 1) > 1 and not given.on("dist_init_addr"):
        return Broken("nnodes", "`nnodes` needs `dist-init-addr`: without it the nodes do not find each other",
                      "write dist-init-addr = \"ADDRESS-OF-NODE-0:5000\" in the settings of every node")
    if given.number("node_rank") >= max(given.number("nnodes", 1), 1):
        return Broken("node_rank", f"node-rank = {given.number('node_rank')} does not exist among "
                      f"{given.number('nnodes', 1)} nodes: ranks count from 0")
    return None


RULES = (
    Rule("hicache-without-radix-cache", _hicache, "0.5.1"),
    Rule("hicache-without-radix-cache", _hicache, "0.4.3", "0.5.1", level=Level.WARNING, verb="leaves the cache off"),
    Rule("api-key-with-tokenizer-workers", _workers, "0.5.2"),
    Rule("config-not-yaml", _yaml, "0.5.3"),
    Rule("nodes-do-not-divide", _nodes, "0.4.0"),
    Rule("replicas-across-nodes", _replicas, "0.4.1.post7"),
    Rule("dp-attention-does-not-divide", _dp_attention, "0.4.1.post7"),
    Rule("two-dp-widths", _two_widths, "0.5.22"),
    Rule("deprecated-dp-attention", _old_pair, "0.5.22", level=Level.WARNING, verb="still takes it"),
    Rule("chunk-not-in-pages", _page, "0.4.4"),
    Rule("colon-in-model-name", _colon, "0.5.5.post1"),
    Rule("mixed-chunk-with-pipeline", _mixed, "0.4.6.post2", "0.5.11"),
    Rule("priority-policy", _priority, "0.5.3"),
    Rule("metrics-without-folder", _export, "0.5.5.post3"),
    Rule("grpc-port-is-port", _grpc_port, "0.5.16"),
    Rule("grpc-port-with-key", _grpc_key, "0.5.16"),
    Rule("lora-incomplete", _lora, "0.4.9.post3"),
    Rule("padding-with-compile", _padding, "0.5.12"),
    Rule("no-share", _share),
    Rule("no-port", _ports),
    Rule("nodes-do-not-meet", _alone),
)
