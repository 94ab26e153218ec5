"""The real SGLang, pushed over SSH to a real host and watched: good starts, bad ones, and who else may be in the way.

The tests share one host and run in their order; each declares all that it needs.
"""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest

from tests.sglang.scene import LIMIT, MODEL, SERVER, Scene

UNIT, SERVICE = "tiny-gpt2", "tiny-gpt2.service"
PROBE = "probe"
"""A second unit of the same example: its failures cost no rollback, since nothing was there before."""
PROBE_PORT = 31002
LOADING = "Load weight begin"
READY = "The server is fired up and ready to roll!"
KEY = "canary-5b2d90e7-do-not-show"
SERVING = {"max-running-requests": 8}
"""What is declared of the unit from its second release on."""
PHASES = ["init", "distributed", "weights", "kv-cache", "warmup", "ready"]


def states(lines: list[dict[str, Any]]) -> dict[str, str]:
    return {line["data"]["gate"]: line["data"]["state"] for line in lines if line["event"] == "gate"}


def seconds(explanation: dict[str, Any]) -> dict[str, float]:
    return {phase["name"]: phase["seconds"] for phase in explanation["phases"]}


def failed(cause: str) -> str:
    """How a push says why the start failed."""
    return f"the push failed in the step verify: {cause}\n"


def test_first_push_with_phases_gates_and_one_real_answer(scene: Scene) -> None:
    scene.declare(UNIT)
    said = scene.push(UNIT)
    assert "release 1 serves" in said, said
    assert scene.status("/health") == 200
    running = scene.running()
    assert (running["model_path"], running["max_total_num_tokens"]) == (MODEL, 4096)

    lines = scene.ask("verify", UNIT)
    assert states(lines) == {
        "unit": "passed", "log": "passed", "port": "passed", "health": "passed", "declared": "passed",
        "memory": "skipped", "capacity": "passed", "accuracy": "skipped", "answer": "passed", "settle": "passed"}


def test_status_and_explain_know_the_start(scene: Scene) -> None:
    scene.declare(UNIT)
    scene.push(UNIT)
    said = scene.operator.deployer("status", scene.host.name, "--json")
    (unit,) = json.loads(said.out)["hosts"][0]["units"]
    assert (unit["active"], unit["release"]["number"], unit["last"]["outcome"]) == ("active", 1, "done")
    explained = scene.explain(UNIT)
    assert explained["outcome"] == "ready" and explained["cause"] is None
    assert explained["max_total_num_tokens"] == 4096
    phases = seconds(explained)
    assert list(phases) == PHASES
    assert all(value is not None for value in phases.values())
    assert phases["ready"] >= max(value for name, value in phases.items() if name != "ready")


def test_a_second_push_changes_an_argument(scene: Scene) -> None:
    scene.declare(UNIT)
    scene.push(UNIT)
    pid = scene.pid(UNIT)
    scene.declare(UNIT, args=SERVING)
    said = scene.push(UNIT)
    assert "--max-running-requests 4 → 8" in said
    assert scene.pid(UNIT) not in (0, pid)
    assert scene.running()["max_running_requests"] == 8
    assert "nothing to do" in scene.push(UNIT)


def test_a_folder_without_weights_ends_with_the_old_server_serving(scene: Scene) -> None:
    scene.declare(UNIT, args=SERVING)
    scene.push(UNIT)
    scene.host.run(f"mkdir -p /srv/models/hollow && cp {MODEL}/*.json /srv/models/hollow/")
    scene.declare(UNIT, args={**SERVING, "model-path": "/srv/models/hollow"})
    said = scene.push(UNIT, code=4)
    assert failed("model-path-missing") in said
    assert "serves again, verified" in said
    running = scene.running()
    assert (running["model_path"], running["max_running_requests"]) == (MODEL, 8)


def test_a_stop_in_the_middle_of_a_start_leaves_nothing(scene: Scene) -> None:
    """SGLang's own end of it would leave two processes to PID 1."""
    before = scene.servers()
    scene.declare(PROBE, args={"port": PROBE_PORT})
    push = scene.begin_push(PROBE)
    scene.wait_for(PROBE, LOADING)
    assert len(scene.servers() - before) >= 3
    push.send_signal(signal.SIGINT)
    _, err = push.communicate("r\n", timeout=LIMIT)
    assert "asked to roll back" in err
    assert scene.servers() == before
    assert scene.host.state(f"{PROBE}.service")["LoadState"] == "not-found"
    assert push.returncode == 5


def test_the_port_of_another_sglang(scene: Scene) -> None:
    """Of the two servers it is always the other one that answers."""
    port, host = 31005, scene.host
    scene.serve_by_hand("other", port)
    scene.wait_for("other", LOADING)
    other = scene.pid("other")
    host.run(["kill", "-STOP", str(other)])
    scene.declare(PROBE, args={"port": port})
    push = scene.begin_push(PROBE)
    scene.wait_for(PROBE, "server_args=")
    host.run(["kill", "-CONT", str(other)])
    _, err = push.communicate(timeout=LIMIT)
    assert push.returncode == 5, err
    assert f"port-in-use: port {port} is bound by process {other}" in err and "of other.service" in err
    assert scene.pid("other") == other
    assert host.state(f"{PROBE}.service")["LoadState"] == "not-found"
    scene.wait_for("other", READY)

    said = scene.push(PROBE, code=7)
    assert f"port {port} is held by other.service" in said
    assert scene.status("/health", port) == 200
    host.run(["systemctl", "stop", "other"])


def test_the_ready_line_of_a_server_that_never_had_the_port(scene: Scene) -> None:
    """Its warm-up reaches the other server, so it says that it is ready, after it could not bind."""
    port = 31000
    scene.declare(UNIT, args=SERVING)
    scene.push(UNIT)
    scene.serve_by_hand("late", port)
    scene.until("systemctl is-failed --quiet late.service")
    assert READY in scene.host.journal("late.service")
    explained = scene.explain("late")
    assert (explained["outcome"], explained["cause"]) == ("failed", "port-in-use")
    assert "98" in explained["evidence"]


def test_the_router_is_as_ready_as_its_workers(scene: Scene) -> None:
    scene.declare(UNIT, args=SERVING)
    scene.push(UNIT)
    worker = {"worker-urls": ["http://127.0.0.1:31000"], "host": "127.0.0.1", "worker-startup-timeout-secs": 60}
    scene.declare("sglang-router", args=worker, verify={"settle": "1s"})
    said = scene.push("sglang-router")
    assert scene.status("/readiness", 8080) == 200
    nobody = {**worker, "worker-urls": ["http://127.0.0.1:31999"]}
    scene.declare("sglang-router", args=nobody, verify={"settle": "1s", "deadline": "15s", "stall": "10s"})
    said = scene.push("sglang-router", code=4)
    assert "/readiness" in said
    assert "serves again, verified" in said
    assert scene.status("/readiness", 8080) == 200
    scene.host.run(["systemctl", "stop", "sglang-router"])


@pytest.mark.parametrize(("words", "cause"), [
    (["--no-such-flag"], "bad-flag"),
    (["--attention-backend", "no-such-backend"], "bad-choice"),
    (["--model-path", "/srv/models/nowhere"], "model-path-missing"),
])
def test_arguments_that_only_the_server_refuses(scene: Scene, words: list[str], cause: str) -> None:
    before = scene.servers()
    scene.declare(PROBE, args={"port": PROBE_PORT})
    scene.append_arguments(*words)
    try:
        said = scene.push(PROBE, code=5)
    finally:
        scene.append_arguments()
    assert failed(cause) in said
    assert scene.explain(PROBE)["cause"] == cause
    assert scene.servers() == before


@pytest.mark.parametrize(("name", "victim", "line", "cause"), [
    ("TERM", "main", LOADING, "sigterm-during-start"),
    ("KILL", "main", LOADING, "unknown"),
    ("KILL", "scheduler", READY, "host-oom-kill"),
])
def test_processes_that_are_killed(scene: Scene, name: str, victim: str, line: str, cause: str) -> None:
    before = scene.servers()
    scene.declare(PROBE, args={"port": PROBE_PORT}, verify={"settle": "2min"})
    push = scene.begin_push(PROBE)
    scene.wait_for(PROBE, line)
    main = scene.pid(PROBE)
    if victim == "main":
        scene.host.run(["kill", f"-{name}", str(main)])
    else:
        scene.host.run(["pkill", f"-{name}", "-P", str(main), "-f", "^sglang::scheduler"])
    _, err = push.communicate(timeout=LIMIT)
    assert push.returncode == 5, err
    assert failed(cause) in err
    assert scene.explain(PROBE)["cause"] == cause
    assert scene.servers() == before


def test_the_key_is_in_use_and_nowhere_else(scene: Scene) -> None:
    scene.operator.env["TINY_KEY"] = KEY
    scene.declare(UNIT, args=SERVING, secrets={"api-key": {"env": "TINY_KEY"}})
    said = scene.push(UNIT)
    assert [scene.status(path) for path in ("/health", "/v1/models", "/server_info")] == [200, 401, 401]
    assert scene.status("/v1/models", key=KEY) == 200
    assert states(scene.ask("verify", UNIT))["answer"] == "passed"

    host, here = scene.host, ("-u", UNIT)
    for command, *words in (("logs", *here), ("status", "--json"), ("history", *here, "--json"), ("diff", *here),
                            ("verify", *here, "--json"), ("push", *here, "--json", "--dry-run")):
        ran = scene.operator.deployer(command, host.name, *words)
        assert ran.code == 0, ran.err
        said += ran.out + ran.err
    said += scene.operator.deployer("render", UNIT, "--host", host.name).out
    assert KEY not in said
    found = host.run(f"grep -rlsa {KEY} /etc /var/lib /var/cache /run /tmp /root /home 2>/dev/null", check=False).out
    allowed = re.compile(r"/etc/deployer/tiny-gpt2/|/run/credentials/"
                         r"|/var/lib/deployer/tiny-gpt2\.service/releases/\d+/(files/|secrets\.json)")
    assert [path for path in found.splitlines() if not allowed.match(path)] == []
    world = host.run(f"su -s /bin/sh nobody -c 'systemctl show {SERVICE}; cat /proc/*/cmdline /proc/*/environ; "
                     f"cat /etc/systemd/system/{SERVICE}' 2>/dev/null", check=False).out
    assert SERVER in world and KEY not in world
