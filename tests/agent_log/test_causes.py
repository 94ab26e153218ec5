"""Each cause, with the words of the libraries that say it, in the formats of the releases."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from startlog import RELEASES, STAGES, StartLog

from deployer.agent.log.causes import BY_CODE, CAUSES
from deployer.agent.log.explanation import Explanation
from deployer.agent.log.read import LogReader, explain
from deployer.protocol.redact import Redactor

OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a total capacity of 79.10 "
       "GiB of which "
       "114.75 MiB is free. Including non-PyTorch memory, this process has 78.90 GiB memory in use.")
SOLUTIONS = ("Possible solutions:", "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)")


def failed(found: Explanation, cause: str, evidence: str, *mentions: str) -> Explanation:
    assert (found.outcome, found.cause) == ("failed", cause), found.evidence
    assert evidence in found.evidence
    for mention in mentions:
        assert mention in found.remedy, found.remedy
    assert Redactor().text(found.remedy) == found.remedy
    return found


RANK = [
    # cause, stage, last lines of the rank's traceback, evidence, mentions
    ("cuda-oom-weights", "loading", OOM, "CUDA out of memory", ["--tp-size", "--quantization"]),
    ("cuda-oom-weights", "loading", OOM.replace("torch.Out", "torch.cuda.Out"), "CUDA out of memory", ["nvidia-smi"]),
    ("cuda-oom-weights", "loaded", OOM, "CUDA out of memory", ["--mem-fraction-static"]),
    ("cuda-oom-graph-capture", "capturing",
     [OOM, "During handling of the above exception, another exception occurred:", "Traceback (most recent call last):",
      "Exception: Capture cuda graph failed: " + OOM.split(": ", 1)[1], *SOLUTIONS],
     "Capture cuda graph failed: CUDA out of memory", ["--mem-fraction-static", "--cuda-graph-max-bs"]),
    ("cuda-oom-graph-capture", "capturing",
     ["Exception: Capture prefill CUDA graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.", *SOLUTIONS],
     "Capture prefill CUDA graph failed: CUDA out of memory", ["--mem-fraction-static"]),
    ("cuda-oom-graph-capture", "capturing", ["Exception: Capture single-CG draft extend failed: CUDA out of memory."],
     "draft extend failed", ["--mem-fraction-static"]),
    ("kv-pool-too-small", "loaded", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
     "Not enough memory. Please try to increase", ["--mem-fraction-static", "--tp-size"]),
    ("kv-pool-too-small", "loaded",
     "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.7. Raise "
     "--mem-fraction-static above 0.853 (minimum viable = 1 - available/pre = 0.8521). If using speculative "
     "decoding, draft "
     "weights are now counted.", "Loaded weights leave no GPU memory for the KV cache",
         ["--mem-fraction-static", "0.853"]),
    ("kv-pool-too-small", "loaded",
     "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
     "max_mamba_cache_size=0",
     "Not enough GPU memory for hybrid", ["--mem-fraction-static"]),
    ("gpu-memory-held-by-other", "distributed",
     "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other "
     "processes.", "unbalanced", ["nvidia-smi"]),
    ("gpu-memory-held-by-other", "distributed",
     "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
     "pre_model_load_memory=17.05, local_gpu_memory=78.39, local_gpu_memory * "
     "0.9=70.55", "unbalanced", ["nvidia-smi", "17.1 GB"]),
    ("gpu-memory-held-by-other", "arguments", "torch.AcceleratorError: CUDA error: out of memory",
        "CUDA error: out of memory",
     ["nvidia-smi"]),
    ("hicache-not-enough-host-memory", "captured",
     "ValueError: Not enough host memory available. Requesting 168.57 GB but only have 102.77 GB free. Please "
     "reduce the size of "
     "the hierarchical cache.", "Not enough host memory available. Requesting",
         ["--hicache-ratio", "--hicache-size", "168.57"]),
    ("hicache-not-enough-host-memory", "captured",
     "ValueError: Not enough host memory for DSA indexer hierarchical cache. Requesting 12.00 "
     "GB", "Not enough host memory", []),
    ("pinned-memory-failure", "pinning",
     "RuntimeError: cudaHostRegister failed (rc=1, invalid argument) at offset=0 size=34760392704 (total=34760392704, "
     "chunk_limit=274877906944); host buffer is not pinned and device transfers may silently return stale data.",
     "cudaHostRegister failed", ["LimitMEMLOCK=infinity", "--hicache-size"]),
    ("pinned-memory-failure", "pinning", ["RuntimeError: CUDA error: invalid argument",
                                          "CUDA kernel errors might be asynchronously reported at some other API call"],
     "CUDA error: invalid argument", ["LimitMEMLOCK"]),
    ("pinned-memory-failure", "pinning", "torch.AcceleratorError: CUDA error: out of memory",
        "CUDA error: out of memory",
     ["LimitMEMLOCK"]),
    ("dist-port-in-use", "distributed",
     "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
     "port: 30412, "
     "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use", "EADDRINUSE",
     ["--dist-init-addr", "--nccl-port", "--port", "30412"]),
    ("dist-port-in-use", "distributed",
     "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The "
     "server socket "
     "has failed to bind to [::]:30412 (errno: 98 - Address already in use). The server socket has failed to bind to "
     "0.0.0.0:30412 (errno: 98 - Address already in use).", "errno: 98", ["--nccl-port"]),
    ("dist-port-in-use", "arguments", "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:30234')",
     "Address already in use", ["30234"]),
    ("nccl-error", "distributed",
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
     "NCCL error: unhandled", ["NCCL_DEBUG=INFO", "NCCL_P2P_DISABLE"]),
    ("nccl-error", "distributed",
     ["torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356, "
      "invalid usage "
      "(run with NCCL_DEBUG=WARN for details), NCCL version 2.27.5",
      "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", "Last error:",
      "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000"], "NCCL error", []),
    ("nccl-shm-too-small", "distributed",
     ["torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled "
      "system error "
      "(run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2",
      "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device "
      "error.", "Last error:",
      "Error while creating shared memory segment /dev/shm/nccl-jH3kP2 (size 9637888), error: No space left on "
      "device (28)"],
     "Error while creating shared memory segment /dev/shm/nccl-", ["--shm-size", "--ipc=host"]),
    ("model-path-missing", "loading", "RuntimeError: Cannot find any model weights with `/srv/models/test-8b`",
     "Cannot find any model weights with", ["--model-path"]),
    ("model-path-missing", "loading",
     "FileNotFoundError: No such file or directory: "
     "\"/srv/models/test-8b/model-00003-of-00004.safetensors\"", "No such file", []),
    ("no-cuda-device", "arguments", "RuntimeError: CUDA error: invalid device ordinal", "invalid device ordinal",
        ["--tp-size"]),
    ("no-cuda-device", "arguments", "torch.AcceleratorError: CUDA error: invalid device ordinal",
        "invalid device ordinal",
     ["CUDA_VISIBLE_DEVICES"]),
    ("no-cuda-device", "arguments", "RuntimeError: No CUDA GPUs are available", "No CUDA GPUs", ["PrivateDevices"]),
    ("fabric-manager-not-ready", "arguments",
     "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
     "NumCudaDevices() "
     "that might have already set an error? Error 802: system not yet "
     "initialized", "Error 802", ["nvidia-fabricmanager"]),
    ("arch-kernel-missing", "loading",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
     "no kernel image is available", ["sgl-kernel", "torch"]),
    ("arch-kernel-missing", "capturing",
     ["Exception: Capture cuda graph failed: CUDA error: no kernel image is available for execution on the device",
         *SOLUTIONS],
     "no kernel image is available", ["sgl-kernel"]),
    ("jit-compile-failed", "capturing",
     ["Exception: Capture cuda graph failed: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't "
      "exist", *SOLUTIONS],
     "Could not find nvcc", ["CUDA_HOME", "nvcc"]),
    ("jit-compile-failed", "capturing",
     ["RuntimeError: Ninja build failed. Ninja output:", "ninja: Entering directory `/root/.cache/flashinfer'",
      "[1/2] /usr/local/cuda/bin/nvcc -c a.cu", "FAILED: a.cuda.o",
      "nvcc fatal   : Unsupported gpu architecture 'compute_120a'", "ninja: build stopped: subcommand failed."],
     "nvcc fatal", ["CUDA_HOME"]),
    ("jit-compile-failed", "capturing",
     ["RuntimeError: Ninja build failed. Ninja output:",
         "/tmp/x/utils.cuh:21:10: Schwerwiegender Fehler: cuda_fp8.h: Datei oder "
      "Verzeichnis nicht gefunden", "ninja: build stopped: subcommand failed."], "cuda_fp8.h", ["CUDA_HOME"]),
    ("jit-compile-failed", "loading", "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "'ninja'",
        ["ninja"]),
    ("jit-compile-failed", "capturing",
     "FileNotFoundError: [Errno 2] No such file or directory: "
     "'/usr/local/cuda/bin/nvcc'", "nvcc", ["nvcc", "CUDA_HOME"]),
    ("jit-compile-failed", "capturing",
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
     "Failed to find C compiler", []),
    ("jit-compile-failed", "capturing",
     ["main.c:1:10: fatal error: Python.h: No such file or directory",
      "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpk/main.c', '-O3']' returned non-zero exit "
      "status 1."],
     "Python.h", ["python3-dev"]),
    ("python-env-broken", "arguments",
     "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory", "libnuma", ["libnuma"]),
    ("python-env-broken", "arguments", "ModuleNotFoundError: No module named 'flashinfer'", "flashinfer",
        ["flashinfer"]),
    ("permission-denied-cache", "loading", "PermissionError: [Errno 13] Permission denied: '/.cache'", "'/.cache'",
     ["HOME", "CacheDirectory="]),
    ("permission-denied-cache", "capturing", "OSError: [Errno 30] Read-only file system: '/root/.triton/cache'",
        "[Errno 30]",
     ["CacheDirectory="]),
    ("permission-denied-cache", "capturing",
        "PermissionError: [Errno 13] Keine Berechtigung: '/var/empty/.cache/flashinfer'",
     "[Errno 13]", ["HOME"]),
    ("disk-full", "capturing", "OSError: [Errno 28] No space left on device: '/var/lib/sglang/.cache/tmp1'",
        "[Errno 28]", ["df"]),
    ("disk-full", "loading",
        "OSError: [Errno 28] Auf dem Gerät ist kein Speicherplatz mehr verfügbar: '/data/hf/blobs/x'",
     "[Errno 28]", ["df"]),
    ("nccl-shm-too-small", "loading", "OSError: [Errno 28] No space left on device: '/dev/shm/psm_12ab'", "/dev/shm",
        ["--shm-size"]),
    ("jit-compile-failed", "capturing", ["/usr/bin/ld: cannot find -lcuda: No such file or directory",
                                         "RuntimeError: Error building extension "
                                         "'x'"], "cannot find -lcuda", ["CUDA_HOME"]),
    ("jit-compile-failed", "capturing", ["RuntimeError: Internal Triton PTX codegen error", "`ptxas` stderr:",
                                         "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"],
     "ptxas fatal", ["CUDA"]),
    ("disk-full", "capturing", ["/usr/bin/ld: final link failed: No space left on device",
                                "RuntimeError: Error building extension 'x'"], "No space left on device", ["df"]),
    ("scheduler-exception", "loading", "KeyError: 'model.layers.7.mlp.experts.w2_weight_zp'",
        "KeyError: 'model.layers.7", []),
    ("scheduler-exception", "pooled",
     "AssertionError: The host memory should be larger than the device memory with the current "
     "protocol", "host memory should",
     ["--hicache-ratio"]),
    ("scheduler-exception", "listening", OOM, "CUDA out of memory", ["--mem-fraction-static"]),
]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("cause", "stage", "last", "evidence", "mentions"), RANK,
                         ids=[f"{index}-{case[0]}" for index, case in enumerate(RANK)])
@pytest.mark.parametrize("ranks", [1, 4])
def test_a_rank_dies(release: str, cause: str, stage: str, last: object, evidence: str, mentions: list[str],
    ranks: int) -> None:
    log = StartLog(release, ranks, enable_hierarchical_cache=stage == "pinning").to(stage)
    for rank in range(ranks):
        log.rank_dies(last, rank)  # type: ignore[arg-type]
    failed(explain(log.gone().lines), cause, evidence, *mentions)
    cut = log.lines[: next(i for i,
        line in enumerate(log.lines) if "Received sigquit" in line or "Main process" in line)]
    failed(explain(cut), cause, evidence, *mentions)


MAIN = [
    ("trust-remote-code-needed",
        ["RuntimeError: Failed to load the tokenizer. If the tokenizer is a custom tokenizer not yet "
                                  "available in the HuggingFace transformers library, consider setting "
                                  "`trust_remote_code=True` in "
                                  "LLM or using the `--trust-remote-code` flag in the "
                                  "CLI."], "Failed to load the tokenizer",
     ["--trust-remote-code"]),
    ("trust-remote-code-needed",
        ["ValueError: Loading /srv/models/test-8b requires you to execute the configuration file in that "
                                  "repo on your local machine. Make sure you have read the code there to avoid "
                                  "malicious use, then "
                                  "set the option `trust_remote_code=True` to remove this "
                                  "error."], "trust_remote_code=True", []),
    ("model-path-missing", ["huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
                            "'namespace/repo_name': '/srv/models/gone'. Use `repo_type` argument if needed.",
                            "OSError: Incorrect path_or_model_id: '/srv/models/gone'. Please provide either the "
                            "path to a local "
                            "folder or the repo_id of a model on the "
                            "Hub."], "Repo id must be in the form", ["--model-path"]),
    ("model-path-missing", ["OSError: /srv/models/test-8b does not appear to have a file named config.json. Checkout "
                            "'https://huggingface.co//srv/models/test-8b/tree/main' for available "
                            "files."], "config.json", []),
    ("hf-download-failed",
        ["huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for "
                            "the specified revision on the local disk and outgoing traffic has been disabled. To "
                            "enable repo "
                            "look-ups and downloads online, pass 'local_files_only=False' as input."],
     "outgoing traffic has been disabled", ["HF_TOKEN", "HF_HUB_OFFLINE", "HF_HOME"]),
    ("hf-download-failed",
        ["OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in "
                            "the cached files.",
                                "Check your internet connection or see how to run the library in offline mode"],
     "couldn't connect", ["HF_HOME", "HF_TOKEN"]),
    ("hf-download-failed", ["huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1-66)",
                            "Repository Not Found for url: https://huggingface.co/a/b/resolve/main/config.json.",
                            "OSError: a/b is not a local folder and is not a valid model identifier listed on "
                            "'https://huggingface.co/models'"], "", ["HF_TOKEN"]),
    ("no-cuda-device", ["RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA) is available."], "No accelerator",
     ["CUDA_VISIBLE_DEVICES"]),
    ("python-env-broken", ["ModuleNotFoundError: No module named 'sgl_kernel'"], "sgl_kernel", ["sgl-kernel", "torch"]),
    ("python-env-broken",
        ["ImportError: /opt/venv/lib/python3.12/site-packages/sgl_kernel/common_ops.abi3.so: undefined symbol: "
                           "_ZN3c104cuda9SetDeviceEi"], "undefined symbol", ["sgl-kernel", "torch"]),
    ("python-env-broken",
        ["Exception: sgl-kernel is installed with version 0.1.2, which is less than the minimum required version "
                           "0.3.9. Please reinstall the latest version with `pip install sgl-kernel "
                           "--force-reinstall`"],
     "minimum required version", ["sgl-kernel"]),
    ("permission-denied-cache", ["PermissionError: [Errno 13] Permission denied: '/.cache/huggingface'",
                                 "OSError: PermissionError at /.cache/huggingface when downloading a/b. Check cache "
                                 "directory "
                                 "permissions."], "'/.cache/huggingface'", ["HF_HOME"]),
    ("disk-full", ["OSError: [Errno 28] No space left on device"], "[Errno 28]", ["df"]),
    ("dist-port-in-use",
        ["ValueError: port_base at 30334 is not available in 30 seconds. port_base is used by a process already. "
                          "process.name()='python' process.status()='sleeping' "
                          "pid=39811"], "30334", ["--dist-init-addr", "30334"]),
]


@pytest.mark.parametrize("stage", ["begun", "arguments"])
@pytest.mark.parametrize(("cause", "last", "evidence", "mentions"), MAIN,
    ids=[f"{i}-{case[0]}" for i, case in enumerate(MAIN)])
def test_the_main_process_dies(stage: str, cause: str, last: list[str], evidence: str, mentions: list[str]) -> None:
    log = StartLog("0.5.14").to(stage).main_dies(last)
    failed(explain(log.lines), cause, evidence, *mentions)
    failed(explain(log.exited().lines), cause, evidence, *mentions)


WITHOUT_A_TRACEBACK = [
    ("python-env-broken", "/opt/venv/bin/python: No module named sglang.launch_server", "No module named sglang"),
    ("python-env-broken", "/opt/venv/bin/python3.12: Error while finding module specification for "
                          "'sglang.launch_server' "
     "(ModuleNotFoundError: No module named 'sglang')", "No module named 'sglang'"),
    ("python-env-broken", "/opt/venv/bin/python: error while loading shared libraries: libpython3.12.so.1.0: cannot "
                          "open "
     "shared object file: No such file or directory", "libpython3.12.so.1.0"),
    ("python-env-broken", "/opt/venv/bin/python: symbol lookup error: /opt/x.so: undefined symbol: ncclDevCommDestroy",
     "undefined symbol"),
    ("python-env-broken", "/opt/venv/bin/python: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found "
                          "(required "
     "by /opt/venv/bin/python)", "GLIBC_2.38"),
]


@pytest.mark.parametrize(("cause", "line", "evidence"), WITHOUT_A_TRACEBACK)
def test_the_interpreter_or_the_loader_gives_up(cause: str, line: str, evidence: str) -> None:
    log = StartLog("0.5.9").raw("Started sglang-test.service - SGLang inference server.", line)
    failed(explain(log.lines), cause, evidence, "torch", "sgl-kernel")
    failed(explain(log.exited("127/n/a").lines), cause, evidence)


ARGPARSE = [
    ("bad-flag", "launch_server.py: error: unrecognized arguments: --enable-ep-moe --foo bar",
        ["--enable-ep-moe", "--ep-size", "--foo"]),
    ("bad-flag", "sglang serve: error: unrecognized arguments: --api_key sk-1234567890abcdef1234",
        ["--api-key", "api-key"]),
    ("bad-flag", "usage: x\nlaunch_server.py: error: the following arguments are required: --model-path/--model",
        ["--model-path"]),
    ("ambiguous-flag",
        "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, "
                       "--cuda-graph-max-bs-prefill", ["--cuda-graph-max-bs-decode"]),
    ("bad-choice",
        "launch_server.py: error: argument --kv-cache-dtype: invalid choice: 'bf16' (choose from 'auto', 'fp8_e5m2')",
     ["--kv-cache-dtype", "auto", "fp8_e5m2"]),
    ("bad-choice", "sglang serve: error: argument --kv-cache-dtype: invalid choice: 'fp16' (choose from auto, bf16)",
        ["auto", "bf16"]),
    ("bad-choice", "launch_server.py: error: argument --context-length: invalid int value: '32k'",
        ["--context-length", "int"]),
    ("bad-choice", "launch_server.py: error: argument --tensor-parallel-size/--tp-size: invalid int value: 'all'",
        ["--tp-size"]),
    ("bad-choice", "launch_server.py: error: argument --port: expected one argument", ["--port"]),
]


@pytest.mark.parametrize(("cause", "text", "mentions"), ARGPARSE)
def test_argparse(cause: str, text: str, mentions: list[str]) -> None:
    log = StartLog("0.5.9").to("begun").raw("usage: launch_server.py [-h] --model-path MODEL_PATH", *text.split("\n"))
    assert "sk-1234567890" not in explain(log.lines).remedy
    failed(explain(log.lines), cause, text.split("\n")[-1][:40], *mentions)
    failed(explain(log.exited("2/INVALIDARGUMENT").lines), cause, "error: ", *mentions)


def test_every_cause_says_what_to_do() -> None:
    assert len({cause.code for cause in CAUSES}) == len(CAUSES) == len(BY_CODE)
    for cause in CAUSES:
        assert cause.meaning and callable(cause.remedy)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("release", RELEASES)
def test_a_start_that_goes_well(release: str, stage: str) -> None:
    log = StartLog(release, 2, enable_hierarchical_cache=True).to(stage)
    reader = LogReader()
    for line in log.lines:
        reader.feed(line)
        assert not reader.fatal
    found = reader.explanation()
    assert (found.outcome, found.cause, found.findings) == ("ready" if stage == "ready" else "starting", None, ())
    if stage == "ready":
        assert found.max_total_num_tokens == 400000 and found.kv_cache_dtype == "bfloat16"
        seconds = {phase.name: phase.seconds for phase in found.phases}
        assert seconds["weights"] == 10 and seconds["cuda-graph"] == 6 and seconds["ready"] == 31
        assert (seconds["distributed"] == 2) is (log.release >= (0, 4, 4))
