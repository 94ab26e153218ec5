"""Arguments that do not go together: the releases that reject them, and their neighbours that do not."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.sglang.combinations import RULES
from deployer.sglang.rules import judge

BROKEN: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
    ("hicache-without-radix-cache", "0.5.9", {"enable-hierarchical-cache": True, "disable-radix-cache": True}, ()),
    ("api-key-with-tokenizer-workers", "0.5.9", {"tokenizer-worker-num": 4}, ("api-key",)),
    ("api-key-with-tokenizer-workers", "0.5.9", {"tokenizer_worker_num": "2", "api-key": "k"}, ()),
    ("config-not-yaml", "0.5.9", {"config": "/etc/x.json"}, ()),
    ("nodes-do-not-divide", "0.5.9", {"tp": 8, "nnodes": 3, "dist-init-addr": "a:1"}, ()),
    ("replicas-across-nodes", "0.5.9", {"dp-size": 2, "tp-size": 2, "nnodes": 2, "dist-init-addr": "a:1"}, ()),
    ("dp-attention-does-not-divide", "0.5.9", {"tp-size": 8, "dp-size": 3, "enable-dp-attention": True}, ()),
    ("dp-attention-does-not-divide", "0.5.22", {"tp-size": 8, "attn-dp-size": 3}, ()),
    ("two-dp-widths", "0.5.22", {"tp-size": 8, "attn-dp-size": 2, "dp-size": 2}, ()),
    ("deprecated-dp-attention", "0.5.23", {"tp-size": 8, "dp-size": 8, "enable-dp-attention": True}, ()),
    ("chunk-not-in-pages", "0.5.9", {"chunked-prefill-size": 100, "page-size": 64}, ()),
    ("colon-in-model-name", "0.5.9", {"served-model-name": "qwen:latest"}, ()),
    ("mixed-chunk-with-pipeline", "0.5.9", {"enable-mixed-chunk": True, "pp-size": 2}, ()),
    ("priority-policy", "0.5.9", {"enable-priority-scheduling": True, "schedule-policy": "lpm"}, ()),
    ("metrics-without-folder", "0.5.9", {"export-metrics-to-file": True}, ()),
    ("grpc-port-is-port", "0.5.16", {"grpc-port": 30000}, ()),
    ("grpc-port-with-key", "0.5.16", {"grpc-port": 30001}, ("admin-api-key",)),
    ("lora-incomplete", "0.5.9", {"enable-lora": True, "max-lora-rank": 16}, ()),
    ("padding-with-compile", "0.5.12", {"disable-cuda-graph-padding": True, "enable-torch-compile": True}, ()),
    ("no-share", "0.4.0", {"mem-fraction-static": 88}, ()),
    ("no-share", "0.5.9", {"mem-fraction-static": "1.0"}, ()),
    ("no-port", "0.5.9", {"port": 70000}, ()),
    ("nodes-do-not-meet", "0.5.9", {"nnodes": 2, "tp-size": 16}, ()),
    ("nodes-do-not-meet", "0.5.9", {"nnodes": 2, "tp-size": 16, "node-rank": 2, "dist-init-addr": "a:1"}, ()),
]

WHOLE: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("0.5.9", {"enable-hierarchical-cache": True, "disable-radix-cache": False}, ()),
    ("0.4.2", {"enable-hierarchical-cache": True, "disable-radix-cache": True}, ()),
    ("0.5.1", {"tokenizer-worker-num": 4}, ("api-key",)),
    ("0.5.9", {"tokenizer-worker-num": 1, "config": "/etc/x.YML"}, ("api-key",)),
    ("0.5.9", {"tp-size": 4, "pp-size": 3, "nnodes": 3, "dist-init-addr": "a:1"}, ()),
    ("0.5.9", {"tp-size": 8, "dp-size": 8, "enable-dp-attention": True}, ()),
    ("0.5.9", {"chunked-prefill-size": -1, "page-size": 64}, ()),
    ("0.5.9", {"chunked-prefill-size": 100, "page-size": 64, "disaggregation-mode": "decode"}, ()),
    ("0.5.9", {"served-model-name": "s3://bucket/qwen"}, ()),
    ("0.5.23", {"enable-mixed-chunk": True, "pp-size": 2}, ()),
    ("0.5.16", {"grpc-port": 30000, "smg-grpc-mode": True}, ("api-key",)),
    ("0.5.9", {"enable-lora": True, "lora-paths": ["a=b"]}, ()),
    ("0.5.9", {"mem-fraction-static": 0.88, "port": 65535}, ()),
    ("0.5.0", {"enable-hierarchical-cache": True, "disable-radix-cache": True}, ()),
]


@pytest.mark.parametrize(("code", "declared", "args", "secrets"), BROKEN)
def test_broken(code: str, declared: str, args: dict[str, Any], secrets: tuple[str, ...]) -> None:
    found = judge(args, declared, secrets=secrets)
    assert [finding.code for finding in found] == [code]
    table, name = found[0].key
    assert name in (args if table == "args" else secrets) or name == "nnodes"


@pytest.mark.parametrize(("declared", "args", "secrets"), WHOLE)
def test_whole(declared: str, args: dict[str, Any], secrets: tuple[str, ...]) -> None:
    assert judge(args, declared, secrets=secrets) == []


def test_every_rule_has_a_case() -> None:
    assert {rule.code for rule in RULES} == {code for code, *_ in BROKEN}


def test_only_the_releases_that_reject_it_are_named() -> None:
    found = judge({"tp-size": 8, "attn-dp-size": 2, "dp-size": 2}, ">=0.5.20")
    assert "SGLang 0.5.22 to " in found[0].message


def test_before_it_was_rejected_the_cache_was_left_off() -> None:
    found = judge({"enable-hierarchical-cache": True, "disable-radix-cache": True}, "0.4.6")
    assert [(f.level.value, f.code) for f in found] == [("warning", "hicache-without-radix-cache")]
    assert "leaves the cache off" in found[0].message


def test_the_old_pair_is_rewritten() -> None:
    found = judge({"tp-size": 8, "dp-size": 4, "enable-dp-attention": True}, "0.5.22")
    assert found[0].level.value == "warning"
    assert found[0].hint == "write attn-dp-size = 4 in place of the two"
