"""The stand-in SGLang behaves as its release does: processes, memory, log, health, ends."""

from __future__ import annotations

import json

import pytest

from deployer.agent.log.read import explain
from tests.hosts.bed import Host

RELEASES = ("0.4.3", "0.4.9", "0.5.2", "0.5.4", "0.5.9", "0.5.13", "0.5.18", "0.5.20", "0.5.23")
UNIT = """\
[Service]
Environment=PYTHONUNBUFFERED=1
ExecStart=/opt/sglang/.venv/bin/python -m sglang.launch_server --model-path /models/tiny --port 30000 {}
KillMode=mixed
"""


def start(host: Host, words: str = "--tp-size 2", release: str = "0.5.9") -> None:
    if release != "0.5.9":
        host.sglang.install(release)
    host.write("/etc/systemd/system/s.service", UNIT.format(words))
    host.run("systemctl daemon-reload; systemctl start s")


def status(host: Host, path: str, *options: str) -> int:
    words = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *options, f"http://127.0.0.1:30000{path}"]
    return int(host.run(words, check=False).out)


def test_phases_processes_and_memory(host: Host) -> None:
    host.sglang.behave(hold=["weights", "port", "warmup"])
    start(host)
    server = host.sglang.at(30000)
    pids = server.wait("weights")["schedulers"]
    loading = host.gpu.used_mib()
    assert host.gpu.processes() == [
        (pids[0], "sglang::scheduler_TP0", loading[0]), (pids[1], "sglang::scheduler_TP1", loading[1]),
    ]
    assert status(host, "/health") == 0, "the port opens only after the load"
    server.advance()
    server.wait("port")
    assert host.gpu.used_mib()[0] > loading[0] + 50_000
    server.advance()
    server.wait("warmup")
    assert (status(host, "/health"), status(host, "/model_info")) == (503, 200)
    server.advance()
    server.wait("ready")
    assert (status(host, "/health"), status(host, "/ready")) == (200, 404)
    info = json.loads(host.run("curl -s http://127.0.0.1:30000/server_info").out)
    assert f"max_total_num_tokens={info['max_total_num_tokens']}, " in host.journal("s")
    assert info["tp_size"] == 2 and info["version"] == "0.5.9"
    host.run("systemctl stop s")
    assert host.gpu.used_mib() == [0, 0]
    assert host.state("s")["ExecMainStatus"] == "9", "a clean stop ends by SIGKILL of itself before 0.5.19"


@pytest.mark.parametrize(("release", "early", "exit_status"), [("0.4.9", 200, "9"), ("0.5.23", 503, "0")])
def test_releases_differ(host: Host, release: str, early: int, exit_status: str) -> None:
    host.sglang.behave(hold=["warmup"])
    start(host, release=release)
    server = host.sglang.at(30000)
    server.wait("warmup")
    assert status(host, "/health") == early
    server.advance()
    server.wait("ready")
    assert status(host, "/ready") == (200 if release == "0.5.23" else 404)
    assert ("server_args={" in host.journal("s")) == (release == "0.5.23")
    host.run("systemctl stop s")
    assert host.state("s")["ExecMainStatus"] == exit_status


def test_secret_key_from_a_config_file_and_bad_flags(host: Host) -> None:
    host.write("/etc/s.yaml", 'api-key: "k-123"\n')
    start(host, "--config /etc/s.yaml")
    host.sglang.at(30000).wait("ready")
    assert (status(host, "/server_info"), status(host, "/health")) == (401, 200)
    assert status(host, "/server_info", "-H", "Authorization: Bearer k-123") == 200
    assert "api_key='k-123'" in host.journal("s"), "SGLang itself logs its key"
    host.write("/etc/s.yaml", "api_key: k-123\n")
    host.run("systemctl restart s", check=False)
    host.run("while systemctl is-active -q s; do sleep 0.01; done")
    assert host.state("s")["ExecMainStatus"] == "2"


@pytest.mark.parametrize(("release", "words", "complaint"), [
    ("0.5.23", "--cuda-graph-max-bs 8", "ambiguous option: --cuda-graph-max-bs could match"),
    ("0.5.9", "--enable-ep-moe", "unrecognized arguments: --enable-ep-moe"),
    ("0.4.9", "--kv-cache-dtype bf16", "argument --kv-cache-dtype: invalid choice: 'bf16'"),
    ("0.5.4", "--context-length 32k", "argument --context-length: invalid int value: '32k'"),
])
def test_arguments_that_a_release_does_not_take(host: Host, release: str, words: str, complaint: str) -> None:
    python = host.sglang.install(release)
    said = host.run(f"{python} -m sglang.launch_server --model-path /models/tiny {words}", check=False)
    assert said.code == 2 and complaint in said.err


def test_port_held_by_another_sglang_lies(host: Host) -> None:
    start(host)
    host.sglang.at(30000).wait("ready")
    said = host.run("/opt/sglang/.venv/bin/python -m sglang.launch_server --model-path /models/tiny --port 30000 "
                    "--device cpu --max-total-tokens 4096", check=False)
    assert said.code == 3
    assert "[Errno 98]" in said.err and "The server is fired up and ready to roll!" in said.err


@pytest.mark.parametrize(("fail", "words", "main_status"), [
    ({"at": "weights", "how": "cuda-oom"}, "CUDA out of memory", "9"),
    ({"at": "weights", "how": "scheduler-kill", "rank": 1}, "Rank 1 scheduler is dead", "1"),
    ({"at": "ready", "how": "exit", "code": 7}, "fired up", "7"),
])
def test_failures(host: Host, fail: dict[str, object], words: str, main_status: str) -> None:
    host.sglang.behave(fail=fail)
    start(host)
    host.run("while systemctl is-active -q s; do sleep 0.01; done")
    assert words in host.journal("s")
    assert host.state("s")["ExecMainStatus"] == main_status
    assert host.gpu.used_mib() == [0, 0]


def test_an_early_end_leaves_orphans(host: Host) -> None:
    host.sglang.behave(orphans=True)
    host.write("/etc/systemd/system/s.service", UNIT.format("--tp-size 2").replace("mixed", "process"))
    host.run("systemctl daemon-reload; systemctl start s")
    pids = host.sglang.at(30000).wait("ready")["schedulers"]
    host.run("systemctl kill --kill-whom=main -s KILL s; while systemctl is-active -q s; do sleep 0.01; done")
    assert [row[0] for row in host.gpu.processes()] == pids
    assert all(mib > 50_000 for mib in host.gpu.used_mib())


def test_a_stop_of_the_whole_group_looks_like_a_crash(host: Host) -> None:
    host.sglang.install("0.5.23")
    host.write("/etc/systemd/system/s.service", UNIT.format("--tp-size 2").replace("mixed", "control-group"))
    host.run("systemctl daemon-reload; systemctl start s")
    host.sglang.at(30000).wait("ready")
    host.run("systemctl stop s")
    assert "crashed with exit code -15" in host.journal("s")
    assert host.state("s")["ExecMainStatus"] == "9"


def test_a_drain_waits_for_the_answer(host: Host) -> None:
    host.sglang.behave(hold_requests=True)
    start(host, release="0.5.23")
    server = host.sglang.at(30000)
    server.wait("ready")
    request = json.dumps({"prompt": "x", "stream": True, "max_tokens": 3})
    asking = host.popen(["curl", "-sN", "http://127.0.0.1:30000/v1/completions", "-d", request])
    host.run("until curl -s 127.0.0.1:30000/health -o /dev/null; do :; done")
    while not server.status()["requests"]:
        pass
    stopping = host.popen("systemctl stop s")
    host.run("while curl -sf 127.0.0.1:30000/health; do :; done")
    assert stopping.poll() is None
    server.finish()
    assert asking.communicate()[0].count("data: ") == 5, "three tokens, the usage, the end"
    assert stopping.wait() == 0 and host.state("s")["Result"] == "success"


@pytest.mark.parametrize("release", RELEASES)
def test_the_log_of_a_good_start_reads_as_one(host: Host, release: str) -> None:
    start(host, "--tp-size 2 --mem-fraction-static 0.5", release)
    host.sglang.at(30000).wait("ready")
    said = explain(host.journal("s").splitlines(), host.state("s"))
    info = json.loads(host.run("curl -s http://127.0.0.1:30000/get_server_info").out)
    assert (said.outcome, said.cause) == ("ready", None)
    assert said.max_total_num_tokens == info["max_total_num_tokens"] > 100_000
