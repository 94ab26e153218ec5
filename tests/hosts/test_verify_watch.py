"""The verifier against a real systemd, a real journal, and the stand-in SGLang of several releases."""

from __future__ import annotations

import json

import pytest

from deployer.protocol import records
from deployer.protocol.expectations import Expectations, Prompt
from deployer.sglang.health import health
from tests.hosts.bed import Host
from tests.hosts.verifier import gate, install, logged, verdicts, watch

GOOD = Expectations(
    release="0.5.9", port=30000, health=health("0.5.9"), gpus=("0", "1"), settle=0.0, deadline=60.0, stall=30.0,
    args={"model_path": "/models/tiny", "port": 30000, "tp_size": 2}, memory_free_mib=1024,
)


@pytest.mark.parametrize("release", ["0.4.9", "0.5.9", "0.5.23"])
def test_a_good_start(host: Host, release: str) -> None:
    install(host, release="" if release == "0.5.9" else release)
    expected = records.replace(GOOD, health=health(release), settle=1.0, prompt=Prompt("The capital of France is"))
    end = watch(host, expected).end()
    assert end["data"]["passed"], verdicts(end)
    figures = end["data"]["figures"]
    info = json.loads(host.run("curl -s http://127.0.0.1:30000/get_server_info").out)
    assert figures["max_total_num_tokens"] == info["max_total_num_tokens"]
    assert figures["seconds"] > 0 and figures["phases"] and len(figures["gpus"]) == 2
    assert figures["gpus"][0]["own"] == host.gpu.used_mib()[0]
    assert gate(end, "answer")[0] == "passed"


def test_reported_at_once_when_ready(host: Host) -> None:
    host.sglang.behave(hold=["warmup"])
    install(host)
    watching = watch(host, GOOD)
    watching.until("port", "passed")
    server = host.sglang.at(30000)
    server.wait("warmup")
    server.advance()
    end = watching.end()
    assert end["data"]["passed"], verdicts(end)
    assert end["at"] - logged(host, "fired up and ready") < 1.0, "0.1 to 0.2 s on a machine that has nothing else to do"


@pytest.mark.parametrize(("fail", "cause"), [
    ({"at": "weights", "how": "cuda-oom"}, "cuda-oom-weights"),
    ({"at": "graphs", "how": "graph-oom"}, "cuda-oom-graph-capture"),
    ({"at": "kv-cache", "how": "kv-oom"}, "kv-pool-too-small"),
    ({"at": "weights", "how": "exit", "code": 7}, "unknown"),
])
def test_a_death_ends_the_wait_with_its_cause(host: Host, fail: dict[str, object], cause: str) -> None:
    host.sglang.behave(fail=fail)
    install(host)
    end = watch(host, GOOD).end()
    assert not end["data"]["passed"]
    assert end["data"]["explanation"]["cause"] == cause, (verdicts(end), end["data"]["explanation"])
    assert end["at"] - logged(host, "Main process exited") < 2.0


def test_main_killed(host: Host) -> None:
    host.sglang.behave(hold=["weights"])
    install(host)
    watching = watch(host, GOOD)
    pid = host.sglang.at(30000).wait("weights")["pid"]
    host.run(["kill", "-9", str(pid)])
    end = watching.end()
    assert gate(end, "unit")[0] == "failed" and "KILL" in gate(end, "unit")[1], verdicts(end)
    assert end["at"] - logged(host, "Main process exited") < 2.0


def test_port_held_by_another_sglang(host: Host) -> None:
    install(host, "--model-path /models/tiny --port 30000 --device cpu --max-total-tokens 4096", unit="old")
    host.run("systemctl start old")
    host.sglang.at(30000).wait("ready")
    install(host, "--model-path /models/tiny --port 30000 --device cpu --max-total-tokens 4096")
    end = watch(host, records.replace(GOOD, gpus=(), args={})).end()
    assert not end["data"]["passed"]
    assert gate(end, "port")[0] == "failed" or gate(end, "log")[0] == "failed", verdicts(end)
    assert "old.service" in gate(end, "port")[1], verdicts(end)
    assert host.state("old")["ActiveState"] == "active"


def test_a_key_is_not_sent_to_a_stranger(host: Host) -> None:
    listener = host.popen(["python3", "-u", "-c", "import http.server as h\nclass A(h.BaseHTTPRequestHandler):\n"
                           "  def do_GET(self):\n    print(self.path, self.headers.get('Authorization'), flush=True)\n"
                           "    self.send_response(200); self.end_headers()\n"
                           "h.HTTPServer(('127.0.0.1', 30000), A).serve_forever()"])
    host.run("until (echo >/dev/tcp/127.0.0.1/30000) 2>/dev/null; do sleep 0.05; done")
    host.sglang.behave(hold=["weights"])
    install(host)
    end = watch(host, GOOD, secrets={"api_key": "canary-4711"}).end()
    listener.kill()
    heard = listener.communicate()[0]
    assert gate(end, "port")[0] == "failed", verdicts(end)
    assert "/health None" in heard and "canary-4711" not in heard


def test_a_crash_loop_ends_at_the_first_restart(host: Host) -> None:
    host.sglang.behave(fail={"at": "launched", "how": "exit", "code": 1})
    install(host, lines="Restart=on-failure\nRestartSec=100ms")
    watching = watch(host, GOOD)
    end = watching.end()
    assert gate(end, "unit")[0] == "failed", verdicts(end)
    assert end["at"] - watching.told[0]["at"] < 4.0


@pytest.mark.parametrize(("text", "says"), [
    ("[Service]\nExecStart=/nowhere/python -m sglang.launch_server\n", "203/EXEC"),
    ("[Service]\nUser=nobody-there\nExecStart=/bin/sleep 9\n", "217/USER"),
    ("[Service]\nEnvironmentFile=/nowhere/env\nExecStart=/bin/sleep 9\n", "file that the unit needs"),
    ("[Service]\nExecStart=sleep 9 \"\n", "bad-setting"),
    ("[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n", "its process has ended"),
    ("[Unit]\nConditionPathExists=/nowhere\n[Service]\nExecStart=/bin/sleep 9\n", "condition"),
    ("[Service]\nExecStart=/bin/sleep 0.3\n", "has ended"),
])
def test_units_that_do_not_start(host: Host, text: str, says: str) -> None:
    install(host)
    host.write("/etc/systemd/system/s.service", text)
    host.run("systemctl daemon-reload")
    watching = watch(host, GOOD)
    end = watching.end()
    assert gate(end, "unit")[0] == "failed" and says in gate(end, "unit")[1], verdicts(end)
    assert end["at"] - watching.told[0]["at"] < 5.0


def test_start_limit(host: Host) -> None:
    install(host)
    host.write("/etc/systemd/system/s.service", "[Unit]\nStartLimitBurst=1\nStartLimitIntervalSec=600\n"
               "[Service]\nExecStart=/bin/false\n")
    host.run("systemctl daemon-reload; systemctl start s; systemctl start s", check=False)
    end = watch(host, GOOD).end()
    assert "too often" in gate(end, "unit")[1], verdicts(end)


def test_stuck_says_where(host: Host) -> None:
    host.sglang.behave(hold=["weights"])
    install(host)
    end = watch(host, records.replace(GOOD, stall=3.0)).end()
    assert "stuck" in gate(end, "log")[1] and "pid" in gate(end, "log")[1], verdicts(end)


def test_what_runs_is_not_what_was_declared(host: Host) -> None:
    host.sglang.behave(server_info={"mem_fraction_static": 0.5})
    install(host)
    end = watch(host, records.replace(GOOD, args={**GOOD.args, "mem_fraction_static": 0.88})).end()
    assert gate(end, "declared") == ("failed", "--mem-fraction-static: declared 0.88, running 0.5"), verdicts(end)


def test_foreign_memory_and_headroom(host: Host) -> None:
    install(host)
    with host.gpu.hold({1: 500}):
        end = watch(host, records.replace(GOOD, memory_free_mib=90_000)).end()
    state, text = gate(end, "memory")
    assert state == "failed" and "GPU 1 is also held by process" in text and "free" in text, verdicts(end)


def test_nvidia_smi_hangs(host: Host) -> None:
    host.gpu.switch(hang=True)
    install(host, "--model-path /models/tiny --port 30000 --device cpu --max-total-tokens 4096")
    end = watch(host, records.replace(GOOD, args={})).end()
    assert end["data"]["passed"], verdicts(end)
    assert gate(end, "memory")[0] == "skipped" and "no answer" in gate(end, "memory")[1]


def test_a_key_is_sent_and_shown_nowhere(host: Host) -> None:
    host.write("/etc/s.yaml", 'api-key: "canary-4711"\n')
    install(host, "--config /etc/s.yaml --model-path /models/tiny --port 30000 --tp-size 2")
    expected = records.replace(GOOD, secret_args=("api_key",), prompt=Prompt("x"))
    watching = watch(host, expected, secrets={"api-key": "canary-4711"})
    end = watching.end()
    assert end["data"]["passed"], verdicts(end)
    assert "canary-4711" not in json.dumps(watching.told)
    end = watch(host, expected, start=False, secrets={"api-key": "another"}).end()
    assert "refuses the declared key" in gate(end, "declared")[1], verdicts(end)


def test_what_runs_already_is_judged_alone(host: Host) -> None:
    install(host)
    assert watch(host, GOOD).end()["data"]["passed"]
    watching = watch(host, GOOD, start=False)
    end = watching.end()
    assert end["data"]["passed"], verdicts(end)
    assert end["at"] - watching.told[0]["at"] < 2.0
    host.run("systemctl stop s")
    end = watch(host, GOOD, start=False).end()
    assert gate(end, "unit")[0] == "failed"


def test_the_journal_loses_lines(host: Host) -> None:
    install(host, lines="LogRateLimitIntervalSec=5s\nLogRateLimitBurst=8")
    text = host.read("/etc/systemd/system/s.service").replace("LogRateLimitBurst=1000000\n", "")
    host.write("/etc/systemd/system/s.service", text)
    host.run("systemctl daemon-reload")
    end = watch(host, GOOD).end()
    assert "fired up" not in host.journal("s"), "the ready line is among what was lost"
    assert end["data"]["passed"] and "lost" in gate(end, "log")[1], verdicts(end)


def test_a_log_that_does_not_go_to_the_journal(host: Host) -> None:
    install(host, lines="StandardOutput=append:/var/log/s.log\nStandardError=append:/var/log/s.log")
    end = watch(host, GOOD).end()
    assert end["data"]["passed"] and "does not log to the journal" in gate(end, "log")[1], verdicts(end)


def test_a_flood_of_lines(host: Host) -> None:
    flood = "ExecStartPre=/bin/sh -c 'yes \"[2026-11-01 10:00:05 TP0] noise\" | head -n 20000'"
    install(host, lines=flood)
    end = watch(host, GOOD).end()
    assert end["data"]["passed"], verdicts(end)
    assert end["data"]["cpu_own"] < 10.0


def test_it_goes_sick_while_settling(host: Host) -> None:
    install(host)
    watching = watch(host, records.replace(GOOD, settle=30.0))
    watching.until("health", "passed")
    host.sglang.at(30000).set(health=503)
    end = watching.end()
    assert gate(end, "health")[0] == "failed" and "503" in gate(end, "health")[1], verdicts(end)
