"""Removed arguments whose successor no deprecation message names: what the releases' own notes put in their place."""

from __future__ import annotations

SUCCESSORS: dict[str, dict[str, str]] = {
    "sglang": {
        "--disable-flashinfer-sampling": "--sampling-backend pytorch",
        "--dllm-block-size": "--dllm-algorithm-config",
        "--enable-beta-spec": "SGLANG_ENABLE_SPEC_V2=1",
        "--enable-flashinfer-moe": "--moe-runner-backend flashinfer_cutlass",
        "--enable-llama4-multimodal": "--enable-multimodal",
        "--file-storage-pth": "--file-storage-path",
        "--impl": "--model-impl",
        "--kt-amx-method": "--kt-method",
        "--kt-amx-weight-path": "--kt-weight-path",
        "--max-micro-batch-size": "--pp-max-micro-batch-size",
        "--multi-item-scoring-delimiter": "--enable-mis",
        "--nsa-decode": "--dsa-decode-backend",
        "--nsa-prefill": "--dsa-prefill-backend",
        "--oltp-traces-endpoint": "--otlp-traces-endpoint",
        "--return-hidden-states": "--enable-return-hidden-states",
    },
    "router": {
        "--eviction-interval": "--eviction-interval-secs",
        "--verbose": "--log-level debug",
    },
}
"""Program -> removed spelling -> what to write instead, with its value where the old argument meant one value."""
