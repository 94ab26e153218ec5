"""Ends that are not one exception (ports, nodes, watchdogs, systemd, restarts), and what only looks like one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from startlog import RELEASES, StartLog
from test_causes import OOM, failed

from deployer.agent.log.read import LogReader, explain

BOUND = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): {}"
DEAD = {"ActiveState": "failed", "Result": "signal", "ExecMainCode": 2, "ExecMainStatus": 9, "NRestarts": 0}
ALIVE = {"ActiveState": "active", "Result": "success", "ExecMainCode": 0, "ExecMainStatus": 0, "NRestarts": 0}
DEEPGEMM = ("Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins) if you have "
            "not run "
            "`sglang.compile_deep_gemm`.")
TIMEOUT = ("[rank3]:[E309 12:40:43.526290891 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation "
           "timeout: "
           "WorkNCCL(SeqNum=11, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
           "milliseconds before "
           "timing out.")


# -- ports -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("words",
    ["address already in use", "die adresse wird bereits verwendet", "adresse déjà utilisée"])
@pytest.mark.parametrize("state", [None, ALIVE, DEAD])
def test_the_port_is_taken(words: str, state: Any) -> None:
    log = StartLog("0.5.23").to("capacity").say("INFO:     Application startup complete.").say(BOUND.format(words))
    found = failed(explain(log.lines, state), "port-in-use", "[Errno 98] error while attempting to bind on address",
        "--port", "30000")
    assert [phase.name for phase in found.phases][-1] == "cuda-graph"


@pytest.mark.parametrize("before", [True, False])
def test_a_ready_line_beside_a_taken_port_is_about_another_server(before: bool) -> None:
    log = StartLog("0.5.23").to("capacity")
    ready = "The server is fired up and ready to roll!"
    if before:
        log.say(ready)
    log.say(BOUND.format("address already in use"))
    reader = LogReader()
    for line in log.lines:
        reader.feed(line)
    assert reader.fatal and not reader.ready and reader.cause == "port-in-use"
    reader.feed(log.wait(2).say(ready).lines[-1])
    assert reader.fatal and not reader.ready
    failed(reader.explanation(ALIVE), "port-in-use", "[Errno 98]")
    failed(explain(log.exited("3/NOTIMPLEMENTED").lines), "port-in-use", "[Errno 98]")


def test_a_warmup_error_behind_a_taken_port_is_not_the_cause() -> None:
    log = StartLog("0.5.18").to("capacity").say(BOUND.format("address already in use")).wait(120)
    log.say("Initialization failed. warmup error: Traceback (most recent call last):")
    log.raw("AssertionError: res=<Response [404]>, res.text='404 page not found'").gone()
    failed(explain(log.lines), "port-in-use", "[Errno 98]")


def test_a_cause_of_the_internal_ports() -> None:
    log = StartLog("0.5.9", 2).to("arguments").say(
        "Port is already in use. dist_init_port=30233 port_base=30234 detokenizer_port=30235 nccl_port=45117 "
        "scheduler_input_port=30238")
    log.main_dies("ValueError: port_base at 30234 is not available in 30 seconds. ").exited()
    failed(explain(log.lines), "dist-port-in-use", "Port is already in use. dist_init_port=30233", "--dist-init-addr",
        "30233")


# -- the other ranks and nodes ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("last", [
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
    "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
    "(10.0.0.1, 5000).",
    "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (node0, "
    "5000).",
    "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0",
    "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
])
def test_the_other_node_never_joins(release: str, last: str) -> None:
    log = StartLog(release, 2, nnodes=2, node_rank=0, dist_init_addr="10.0.0.1:5000").to("arguments")
    log.wait(10).all_ranks("Init torch distributed begin.")
    log.raw("[W309 12:00:14.1 socket.cpp:764] [c10d] The client socket has failed to connect to [node0]:5000 (errno: "
            "111 - "
            "Connection refused).").wait(600)
    log.rank_dies(last).gone()
    failed(explain(log.lines), "peer-node-missing", last[-30:], "--dist-init-addr", "--node-rank", "firewall")


def test_waiting_for_the_other_node_is_no_failure() -> None:
    log = StartLog("0.5.9", 2, nnodes=2).to("arguments").all_ranks("Init torch distributed begin.")
    log.raw("[W309 12:00:14.1 socket.cpp:764] [c10d] The client socket has failed to connect to [node0]:5000 (errno: "
            "111 - "
            "Connection refused).")
    assert explain(log.lines, ALIVE).outcome == "starting"
    assert explain(log.lines).outcome == "starting"


def test_a_node_of_rank_1_is_ready_without_the_ready_line() -> None:
    log = StartLog("0.5.9", 2, nnodes=2, node_rank=1).to("captured")
    assert explain(log.lines).outcome == "starting"
    log.say("Dummy health check server started in background thread at 0.0.0.0:30000")
    assert explain(log.lines).outcome == "ready"


def test_a_collective_that_times_out_while_kernels_are_compiled() -> None:
    log = StartLog("0.5.4", 4).to("capturing").say(DEEPGEMM, 0)
    assert explain(log.lines, ALIVE).findings == ("deepgemm-slow",)
    log.wait(600).raw(TIMEOUT)
    log.rank_dies("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3. Original reason: "
                  "watchdog timeout", 3)
    found = failed(explain(log.gone().lines), "deepgemm-slow", "Entering DeepGEMM JIT Pre-Compile session",
                   "sglang.compile_deep_gemm", "--dist-timeout")
    assert found.findings == ()


def test_kernels_that_were_compiled_are_no_matter_later() -> None:
    log = StartLog("0.5.9", 2).to("capturing").say(DEEPGEMM, 0)
    for stage in ("captured", "capacity", "listening", "ready"):
        getattr(log, f"_{stage}")()
    assert explain(log.lines).findings == ()
    log.say("Watchdog timeout (self.watchdog_timeout=300)", 0)
    failed(explain(log.lines), "watchdog-timeout", "Watchdog timeout (", "--watchdog-timeout")


def test_a_store_error_while_kernels_are_compiled_in_a_release_that_misspells_it() -> None:
    log = StartLog("0.4.6",
        2).to("capturing").say("Entering DeepGEMM JIT Pre-Complie session. And it may takes a long time", 0)
    log.wait(700).rank_dies("torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg",
        1).gone()
    failed(explain(log.lines), "deepgemm-slow", "Entering DeepGEMM", "--dist-timeout")


def test_the_word_of_nccl_beside_an_error() -> None:
    log = StartLog("0.5.9", 2).to("arguments").all_ranks("Init torch distributed begin.")
    log.raw("gpu1:1:1 [0] misc/shmutils.cc:72 NCCL WARN Error while creating shared memory segment "
            "/dev/shm/nccl-jH3kP2 (size 9637888)")
    log.rank_dies("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)").gone()
    failed(explain(log.lines), "nccl-shm-too-small", "/dev/shm/nccl-jH3kP2", "--shm-size")


# -- memory ----------------------------------------------------------------------------------------------------------

OTHER = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 250.00 MiB. GPU 0 has a total capacity of "
         "79.10 GiB of which "
         "162.31 MiB is free. Process 28316 has {} GiB memory in use. Including non-PyTorch memory, this process "
         "has 17.10 GiB "
         "memory in use.")


def test_another_process_in_an_out_of_memory_error() -> None:
    log = StartLog("0.5.9").to("distributed").say("Load weight begin. avail mem=17.62 "
                                                  "GB").rank_dies(OTHER.format("61.20")).gone()
    failed(explain(log.lines), "gpu-memory-held-by-other", "Process 28316 has 61.20 GiB memory in use", "nvidia-smi",
        "28316")


@pytest.mark.parametrize("held", ["0.50", "77.00"])
def test_a_small_other_process_or_our_own_seen_from_outside_is_no_cause(held: str) -> None:
    log = StartLog("0.5.9").to("loading").rank_dies(OTHER.format(held)).gone()
    failed(explain(log.lines), "cuda-oom-weights", "CUDA out of memory")


@pytest.mark.parametrize("release", ["0.4.3", "0.4.9", "0.5.4", "0.5.9"])
def test_exit_code_9_up_to_0_5_9(release: str) -> None:
    log = StartLog(release, 2, enable_hierarchical_cache=True).to("loading")
    log.say("Rank 1 scheduler is dead. Please check if there are relevant "
            "logs.").say("Exit code: -9").main_dies("EOFError").exited()
    failed(explain(log.lines), "host-oom-kill", "Exit code: -9", "--hicache-size", "dmesg", "MemoryMax")


def test_exit_code_9_from_0_5_10() -> None:
    log = StartLog("0.5.20", 4).to("loading").main_dies(
        "RuntimeError: Rank 2 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a "
        "common cause is "
        "the OS OOM killer. Run `dmesg -T | grep -i oom` to check.")
    failed(explain(log.lines), "host-oom-kill", "Rank 2 scheduler died during initialization (exit code: -9)", "dmesg")


def test_exit_code_9_of_a_rank_after_another_failed_is_its_end_only() -> None:
    log = StartLog("0.5.20", 4).to("loading").rank_dies(OOM, 1)
    log.main_dies("RuntimeError: Rank 2 scheduler died during initialization (exit code: -9). If exit code is "
                  "-9").gone()
    failed(explain(log.lines), "cuda-oom-weights", "CUDA out of memory")


def test_systemd_names_the_oom_killer() -> None:
    log = StartLog("0.5.9").to("loading").raw("sglang-test.service: A process of this unit has been killed by the OOM "
                                              "killer.")
    log.gone(result="oom-kill")
    failed(explain(log.lines), "host-oom-kill", "killed by the OOM killer", "dmesg")
    quiet = StartLog("0.5.9").to("loading").gone(result="oom-kill")
    failed(explain(quiet.lines), "host-oom-kill", "oom-kill")
    mute = StartLog("0.5.9").to("loading")
    failed(explain(mute.lines, {**DEAD, "Result": "oom-kill"}), "host-oom-kill", "oom-kill")


def test_the_kernel_names_the_process() -> None:
    log = StartLog("0.5.4", 2).to("ready").raw(
        "Mar 01 12:10:00 gpu1 kernel: Out of memory: Killed process 4711 (sglang::schedul) total-vm:98765432kB, "
        "anon-rss:7654321kB")
    log.gone()
    failed(explain(log.lines), "host-oom-kill", "Killed process 4711 (sglang::schedul)")
    other = StartLog("0.5.4").to("ready").raw("Mar 01 12:10:00 gpu1 kernel: Out of memory: Killed process 99 (chrome) "
                                              "total-vm:1kB")
    assert explain(other.lines).outcome == "ready"


# -- warm-up, watchdogs, silence -------------------------------------------------------------------------------------

@pytest.mark.parametrize("release", RELEASES)
def test_the_warmup_fails(release: str) -> None:
    log = StartLog(release).to("listening").wait(120).say("Initialization failed. warmup error: Traceback (most "
            "recent call last):")
    log.raw("AssertionError: res=<Response [503]>, res.text='proxy: cannot reach 0.0.0.0:30000'").gone()
    found = failed(explain(log.lines), "warmup-failed", "Initialization failed. warmup error:", "no_proxy")
    assert found.phases[-1] == ("warmup", None) or (found.phases[-1].name, found.phases[-1].seconds) == ("warmup", None)


def test_a_rank_that_dies_during_the_warmup_is_the_root() -> None:
    log = StartLog("0.5.9").to("listening").rank_dies("RuntimeError: CUDA error: an illegal memory access was "
            "encountered")
    log.say("Initialization failed. warmup error: Traceback (most recent call "
            "last):").raw("requests.exceptions.ConnectionError: x").gone()
    failed(explain(log.lines), "scheduler-exception", "illegal memory access")


@pytest.mark.parametrize(("line", "fatal"), [
    ("Watchdog timeout (self.watchdog_timeout=300)", True),
    ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", True),
    ("Scheduler watchdog timeout (self.watchdog_timeout=20, self.soft=True)", False),
])
def test_watchdogs(line: str, fatal: bool) -> None:
    log = StartLog("0.5.9", 2).to("ready").say("Pyspy dump for PID 4711:",
        0).raw("Thread 0x7f (active): \"MainThread\"").say(line, 0)
    if not fatal:
        assert explain(log.lines).outcome == "ready"
        return
    log.say("SIGQUIT received. signum=3, frame=None. It usually means one child failed.").gone()
    failed(explain(log.lines), "watchdog-timeout", "atchdog timeout (", "--watchdog-timeout", "300")


def test_death_without_a_word_is_unknown() -> None:
    found = failed(explain(StartLog("0.5.9", 2).to("loading").gone().lines), "unknown", "")
    assert found.evidence and any("Main process exited" in line for line in found.last_lines)


def test_an_exception_of_the_main_process_without_a_rule_is_unknown_and_shown() -> None:
    log = StartLog("0.5.9").to("arguments").main_dies("AssertionError: --tp-size must be a multiple of the "
            "moon").exited()
    failed(explain(log.lines), "unknown", "multiple of the moon")


# -- systemd ---------------------------------------------------------------------------------------------------------

STEPS = [
    ("exec-failed", "EXEC", "203/EXEC", "ExecStart", "Failed to locate executable /opt/gone/bin/python: {}"),
    ("user-missing", "USER", "217/USER", "User=", "Failed to determine user credentials: {}"),
    ("chdir-failed", "CHDIR", "200/CHDIR", "WorkingDirectory",
        "Changing to the requested working directory failed: {}"),
    ("namespace-failed", "NAMESPACE", "226/NAMESPACE", "ReadWritePaths", "Failed to set up mount namespacing: /x: {}"),
    ("credentials-failed", "CREDENTIALS", "243/CREDENTIALS", "LoadCredential", "Failed to set up credentials: {}"),
]


@pytest.mark.parametrize(("cause", "step", "status", "mention", "first"), STEPS)
@pytest.mark.parametrize("words", ["No such file or directory", "Datei oder Verzeichnis nicht gefunden"])
def test_steps_of_systemd(cause: str, step: str, status: str, mention: str, first: str, words: str) -> None:
    lines = ["Started x.service - X.", "x.service: " + first.format(words),
             f"x.service: Failed at step {step} spawning /opt/gone/bin/python: {words}",
             f"x.service: Main process exited, code=exited, status={status}",
                 "x.service: Failed with result 'exit-code'."]
    state = {"ActiveState": "failed", "Result": "exit-code", "ExecMainCode": "1",
        "ExecMainStatus": status.split("/")[0]}
    for given in (lines, ["Mar 01 12:00:00 gpu1 systemd[1]: " + line for line in lines]):
        for values in (None, state):
            found = failed(explain(given, values), cause, "", mention)
            assert found.phases == () and found.max_total_num_tokens is None
    failed(explain([], state), cause, status.split("/")[0], mention)
    older = StartLog("0.5.9").to("ready").lines
    assert failed(explain(older, state), cause, "").phases == ()
    again = [*lines, "x.service: Scheduled restart job, restart counter is at 1."]
    loop = [*again * 5, "x.service: Start request repeated too quickly."]
    failed(explain(loop, state), cause, "")


def test_a_start_that_systemd_ends() -> None:
    log = StartLog("0.5.9", 2).raw("Starting sglang-test.service - SGLang...")
    for stage in ("arguments", "distributed", "loading"):
        getattr(log, f"_{stage}")()
    log.raw("sglang-test.service: start operation timed out. Terminating.")
    log.main_dies("RuntimeError: Rank 1 scheduler died during initialization (exit code: -15). If exit code is -9")
    log.gone("killed", "15/TERM", "timeout").raw("Failed to start sglang-test.service - SGLang.")
    failed(explain(log.lines), "start-timeout", "operation timed out. Terminating.", "TimeoutStartSec")
    mute = StartLog("0.5.9", 2).to("loading")
    failed(explain(mute.lines, {**DEAD, "Result": "timeout", "ExecMainStatus": 15}), "start-timeout", "timeout",
        "TimeoutStartSec")


def test_a_ready_server_that_systemd_never_heard_of() -> None:
    log = StartLog("0.5.9").raw("Starting sglang-test.service - SGLang...")
    for stage in ("arguments", "distributed", "loading", "loaded", "pooled", "capturing", "captured", "capacity",
        "listening", "ready"):
        getattr(log, f"_{stage}")()
    log.raw("sglang-test.service: start operation timed out. Terminating.")
    failed(explain(log.lines), "start-timeout", "timed out")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("status", ["15/TERM", "9/KILL"])
def test_stopped_while_it_started(release: str, status: str) -> None:
    log = StartLog(release, 2).to("loading").raw("Stopping sglang-test.service - SGLang inference server...")
    log.rank_dies("BrokenPipeError: [Errno 32] Broken "
                  "pipe").main_dies("RuntimeError: Rank 0 scheduler died during initialization "
                                                                      "(exit code: -9). If exit code is -9 (SIGKILL)")
    log.gone("killed", status)
    failed(explain(log.lines), "sigterm-during-start", "15/TERM" if status == "15/TERM" else "Stopping")


@pytest.mark.parametrize(("stage", "outcome"), [("loading", "failed"), ("ready", "stopped")])
def test_sigterm_to_the_main_process_alone(stage: str, outcome: str) -> None:
    """Not by systemctl: systemd calls it a clean end, and its log tells neither "Stopping" nor a status."""
    log = StartLog("0.5.23").to(stage).raw(
        "sglang-test.service: Killing process 1672 (sglang::schedul) with signal SIGKILL.",
        "sglang-test.service: Deactivated successfully.", "Stopped sglang-test.service - SGLang.")
    found = explain(log.lines)
    assert (found.outcome, found.cause) == (outcome, "sigterm-during-start" if outcome == "failed" else None)
    assert found.evidence == "sglang-test.service: Deactivated successfully."


def test_stopped_while_it_started_without_systemds_word() -> None:
    log = StartLog("0.5.9").to("loading")
    failed(explain(log.lines,
        {"ActiveState": "inactive", "Result": "success", "ExecMainCode": 2, "ExecMainStatus": 15}),
           "sigterm-during-start", "")
    log.gone("killed", "15/TERM")
    failed(explain(log.lines), "sigterm-during-start", "status=15/TERM")


def test_a_failure_before_the_stop_stays_the_cause() -> None:
    log = StartLog("0.5.9",
        2).to("loading").rank_dies(OOM).raw("Stopping sglang-test.service - SGLang...").gone("killed", "15/TERM")
    failed(explain(log.lines), "cuda-oom-weights", "CUDA out of memory")


@pytest.mark.parametrize("clean", [True, False])
def test_a_ready_server_that_is_stopped_is_no_failure(clean: bool) -> None:
    log = StartLog("0.5.9",
        2).to("ready").say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    log.raw("Stopping sglang-test.service - SGLang...").say("Gracefully exiting... Remaining number of requests 0.")
    log.say("Subprocess scheduler_0 (pid=4711) crashed with exit code -15. Triggering SIGQUIT for cleanup...")
    log.gone(*(("exited", "0/SUCCESS", "success") if clean else ("killed", "9/KILL", "signal")))
    assert (explain(log.lines).outcome, explain(log.lines).cause) == ("stopped", None)
    assert explain(log.lines, {**DEAD}).outcome == "stopped"


@pytest.mark.parametrize("died", [True, False])
def test_a_ready_server_that_crashes(died: bool) -> None:
    log = StartLog("0.5.13",
        2).to("ready").say('INFO:     10.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error')
    log.raw("Traceback (most recent call last):", "ModuleNotFoundError: No module named 'request_plugin'")
    assert explain(log.lines).outcome == "ready"
    if died:
        log.rank_dies("RuntimeError: CUDA error: an illegal memory access was encountered", 1).gone()
        failed(explain(log.lines), "scheduler-exception", "illegal memory access")
    else:
        log.gone()
        failed(explain(log.lines), "unknown", "")


# -- several starts --------------------------------------------------------------------------------------------------

def test_the_last_start_counts() -> None:
    old = StartLog("0.5.9").to("ready").gone().lines
    new = StartLog("0.5.9").to("loading").rank_dies(OOM).gone().lines
    failed(explain(old + new), "cuda-oom-weights", "out of memory")
    assert explain(new + old[:-2]).outcome == "ready"
    found = explain(new + StartLog("0.5.9").to("loading").lines)
    assert found.outcome == "starting" and found.attempts == ({"outcome": "failed", "cause": "cuda-oom-weights",
        "count": 1},)


def test_starts_in_a_file_without_systemd() -> None:
    old = StartLog("0.5.9").to("ready").lines[1:]
    new = StartLog("0.5.9").to("loading").rank_dies(OOM).lines[1:]
    failed(explain(old + new), "cuda-oom-weights", "out of memory")
    assert explain(new + old).outcome == "ready"
    usage = ["usage: launch_server.py [-h] --model-path MODEL_PATH",
        "launch_server.py: error: unrecognized arguments: --foo"]
    failed(explain(old + usage), "bad-flag", "--foo")


def test_identical_attempts_share_one_diagnosis() -> None:
    attempt = StartLog("0.5.4").to("begun").main_dies("RuntimeError: No accelerator (CUDA, XPU, HPU) is "
            "available.").exited().lines
    again = ["sglang-test.service: Scheduled restart job, restart counter is at {}."]
    loop = [line for n in range(4) for line in (*attempt, again[0].format(n + 1))]
    failed(explain(loop), "no-cuda-device", "No accelerator")
    failed(explain([*loop, "sglang-test.service: Start request repeated too quickly.",
        "sglang-test.service: Failed with result 'exit-code'.",
                    "Failed to start sglang-test.service - SGLang."]), "no-cuda-device", "No accelerator")
    begun = [*loop, "Started sglang-test.service - SGLang inference server."]
    failed(explain(begun), "no-cuda-device", "No accelerator")
    assert explain(begun, ALIVE).outcome == "starting"
    lost = [*loop, "Started sglang-test.service - SGLang inference server.", *attempt[-2:]]
    failed(explain(lost), "no-cuda-device", "No accelerator")


def test_old_systemd_gives_descriptions_only() -> None:
    lines = ["Started SGLang inference server.", *StartLog("0.4.9").to("ready").lines[1:]]
    lines += ["sglang.service: Main process exited, code=killed, status=9/KILL",
        "sglang.service: Failed with result 'signal'.",
              "sglang.service: Scheduled restart job, restart counter is at 1.", "Stopped SGLang inference server.",
              "Started SGLang inference server."]
    lines += StartLog("0.4.9").to("loading").rank_dies(OOM).lines[1:]
    failed(explain(lines), "cuda-oom-weights", "out of memory")


def test_a_reboot_between() -> None:
    lines = [*StartLog("0.5.9").to("loading").lines, "-- Boot 0123456789abcdef0123456789abcdef --",
        *StartLog("0.5.9").to("ready").lines]
    assert explain(lines).outcome == "ready"


def test_other_units_in_the_same_journal_are_passed_over() -> None:
    log = StartLog("0.5.9").to("loading").raw(
        "Mar 01 12:00:20 gpu1 systemd[1]: Starting apt-daily.service - Daily apt download activities...",
        "Mar 01 12:00:20 gpu1 systemd[1]: Started session-3.scope - Session 3 of User root.",
        "Mar 01 12:00:21 gpu1 systemd[1]: apt-daily.service: Main process exited, code=exited, status=203/EXEC",
        "Mar 01 12:00:21 gpu1 systemd[1]: apt-daily.service: Failed with result 'exit-code'.",
        "Mar 01 12:00:22 gpu1 systemd[1]: Stopping apt-daily.service - Daily apt download activities...",
        "Mar 01 12:00:22 gpu1 sshd[77]: error: kex_exchange_identification: Connection closed by remote host")
    assert explain(log.lines).outcome == "starting"
    for stage in ("loaded", "pooled", "capturing", "captured", "capacity", "listening", "ready"):
        getattr(log, f"_{stage}")()
    assert explain(log.lines).outcome == "ready"


# -- what only looks like an end -------------------------------------------------------------------------------------

NOISE = [
    "The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=17.0, "
    "local=78.0",
    "Setup Custom allreduce failed with CUDART error: peer access is not supported between these two devices.",
    "Failed to import deep_gemm: No module named 'deep_gemm'",
    "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
    "Ignore import error when loading sglang.srt.models.foo: cannot import name 'x' from 'y'",
    "Receive: obj=GenerateReqInput(text='torch.OutOfMemoryError: CUDA out of memory. The server is fired up and "
    "ready to roll!')",
    "[Autotuner]: Failed when profiling tactic 3: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=3072, K=1536, num_groups=1 with all Ms.",
    "max_total_tokens=900000 is larger than the profiled value 400000. Use the profiled value instead.",
]


@pytest.mark.parametrize("noise", NOISE)
def test_warnings_on_the_way_to_ready(noise: str) -> None:
    log = StartLog("0.5.9", 2).to("distributed").all_ranks(noise).raw(noise)
    for stage in ("loading", "loaded", "pooled", "capturing", "captured", "capacity"):
        getattr(log, f"_{stage}")()
        log.all_ranks(noise)
        assert explain(log.lines).outcome == "starting"
        assert explain(log.lines, ALIVE).outcome == "starting"
    log._listening()
    log._ready()
    log.all_ranks(noise)
    found = explain(log.lines)
    assert (found.outcome, found.cause, found.findings) == ("ready", None, ())


def test_a_traceback_that_did_not_end_anything() -> None:
    log = StartLog("0.5.9").to("begun").raw(
        "Traceback (most recent call last):", "ModuleNotFoundError: No module named 'deep_ep'")
    for stage in ("arguments", "distributed", "loading", "loaded"):
        getattr(log, f"_{stage}")()
    assert explain(log.lines).outcome == "starting"
    log.rank_dies("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
                  "0.8").gone()
    failed(explain(log.lines), "kv-pool-too-small", "Not enough memory")


def test_the_driver_warning_counts_only_where_it_explains() -> None:
    warning = ("/opt/venv/torch/cuda/__init__.py:182: UserWarning: CUDA initialization: The NVIDIA driver on your "
               "system is too old (found "
               "version 12020). Please update your GPU driver")
    log = StartLog("0.5.4").to("begun").raw(warning).main_dies("RuntimeError: No accelerator (CUDA, XPU, HPU) is "
            "available.").exited()
    failed(explain(log.lines), "nvidia-driver-too-old", "(found version 12020)", "driver", "12.2")
    other = StartLog("0.5.4").to("begun").raw(warning,
        "launch_server.py: error: unrecognized arguments: --foo").exited("2/INVALIDARGUMENT")
    failed(explain(other.lines), "bad-flag", "--foo")


def test_no_ready_line_in_a_log_of_another_kind() -> None:
    assert explain([]).outcome == "starting"
    assert explain(["", "hello", "The server is not fired up"]).cause is None


@pytest.mark.parametrize("last", [
    [TIMEOUT, "terminate called after throwing an instance of 'c10::DistBackendError'",
     "  what():  [PG ID 2 PG GUID 3 Rank 3] Process group watchdog thread terminated with exception: [Rank 3] "
     "Watchdog caught "
     "collective operation timeout: WorkNCCL(SeqNum=11, OpType=ALLREDUCE)"],
    [TIMEOUT.replace("[Rank 3] W", "[PG ID 2 PG GUID 3 Rank 3] W")],
])
def test_a_collective_that_times_out_without_an_exception(last: list[str]) -> None:
    log = StartLog("0.5.9", 4).to("captured").wait(600).raw(*last)
    log.say("Rank 3 scheduler is dead. Please check if there are relevant "
            "logs.").say("Exit code: -6").main_dies("EOFError").exited()
    failed(explain(log.lines), "nccl-error", "Watchdog caught collective operation timeout", "NCCL_DEBUG=INFO")


def test_a_library_that_ends_the_process_by_itself() -> None:
    log = StartLog("0.5.4").to("captured").raw(
        "CUDA error (/src/flash_fwd_launch_template.h:191): no kernel image is available for execution on the device")
    log.say("Rank 0 scheduler is dead. Please check if there are relevant "
            "logs.").say("Exit code: 1").main_dies("EOFError").exited()
    failed(explain(log.lines), "arch-kernel-missing", "no kernel image is available", "sgl-kernel")


def test_a_host_pool_that_cannot_be_pinned_without_its_own_line() -> None:
    log = StartLog("0.5.4").to("capacity").rank_dies([
        '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/mem_cache/memory_pool_host.py", line 240, in '
        'init_kv_buffer',
        "    return torch.empty(", "RuntimeError: CUDA error: invalid argument"]).gone()
    failed(explain(log.lines), "pinned-memory-failure", "CUDA error: invalid argument", "LimitMEMLOCK=infinity")


@pytest.mark.parametrize(("bars", "stalled"), [
    ([(0, 0), (16, 40), (17, 1390), (18, 1393)], True),
    ([(0, 0), (1, 3), (2, 5), (3, 610)], True),
    ([(0, 0), (1, 360), (2, 700), (3, 1065), (4, 1420)], False),
    ([(0, 0), (13, 26), (26, 52), (39, 80)], False),
    ([(0, 0), (1, 1200)], True),
    ([(0, 0), (1, 100)], False),
])
@pytest.mark.parametrize("ready", [True, False])
def test_a_shard_that_takes_many_minutes(bars: list[tuple[int, int]], stalled: bool, ready: bool) -> None:
    log = StartLog("0.5.4").to("distributed").say("Load weight begin. avail mem=78.00 GB")
    for done, elapsed in bars:
        log.raw(f"\rLoading safetensors checkpoint shards: {done * 100 // 64:3}% Completed | {done}/64 "
                f"[{elapsed // 60:02}:{elapsed % 60:02}<05:00,  1.20it/s]")
    if ready:
        for stage in ("loaded", "pooled", "capturing", "captured", "capacity", "listening", "ready"):
            getattr(log, f"_{stage}")()
    found = explain(log.lines)
    assert found.outcome == ("ready" if ready else "starting")
    assert found.findings == (("weights-stalled",) if stalled else ())
    if stalled and not ready:
        assert "/64 [" in found.evidence and "disk" in found.remedy


@pytest.mark.parametrize(("line", "code"), [
    ("KV pool holds 20000 tokens, fewer than --context-length 32768. One full-length request cannot "
     "fit", "kv-pool-below-context"),
    ("max_running_requests is capped to 20 by the mamba state cache "
     "(max_mamba_cache_size=60)", "max-running-requests-capped"),
    ("HiCache kv host pool (1000 tokens) is smaller than the device pool (2000 tokens);L2 cache effectiveness is "
     "reduced.",
     "hicache-host-pool-small"),
    ("HiCache host KV pool (1000 tokens) is smaller than the device pool (2000 tokens);L2", "hicache-host-pool-small"),
    ("Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of "
     "1.0.", "fp8-kv-no-scales-line"),
    ("max_total_num_tokens=20000, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, "
     "context_len=32768, available_gpu_mem=12.00 GB", "kv-pool-below-context"),
])
def test_findings(line: str, code: str) -> None:
    log = StartLog("0.5.18", 2).to("captured").all_ranks(line)
    assert explain(log.lines).findings == (code,)


@pytest.mark.parametrize("release", ["0.4.3", "0.5.23"])
@pytest.mark.parametrize(("key", "found"), [("sk-1", True), ("", False), (None, False)])
def test_a_key_in_the_arguments(release: str, key: str | None, found: bool) -> None:
    reader = LogReader()
    for line in StartLog(release, api_key=key).to("arguments").lines:
        reader.feed(line)
    assert reader.explanation().findings == (("api-key-in-log",) if found else ())
    assert reader.secrets == (("sk-1",) if found else ())


def test_a_rank_that_lost_its_parent_tells_nothing_of_itself() -> None:
    log = StartLog("0.5.23").to("capacity").rank_dies("BrokenPipeError: [Errno 32] Broken pipe")
    failed(explain(log.lines[:-1]), "unknown", "BrokenPipeError")
    failed(explain(log.lines[:-1], {**DEAD, "ExecMainStatus": 15}), "sigterm-during-start", "")
    failed(explain(log.gone("killed", "15/TERM").lines), "sigterm-during-start", "status=15/TERM")
