"""``deployer explain`` as a person or a program calls it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from startlog import StartLog
from test_causes import OOM
from test_given_logs import CASES

KEYS = ["outcome", "cause", "evidence", "sglang_version", "phases", "max_total_num_tokens", "kv_cache_dtype",
        "findings", "remedy"]


def run(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "deployer", "explain", *args]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False,
                          env={**os.environ, "NO_COLOR": "1"})


@pytest.mark.parametrize("case", CASES[::6], ids=lambda case: case.name)
def test_json(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text())
    done = run(str(case / "startup.log"), "--unit-state", str(case / "unit.json"), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found)[: len(KEYS)] == KEYS
    for key in ("outcome", "cause", "max_total_num_tokens", "kv_cache_dtype"):
        assert found[key] == expected[key]
    assert [phase["name"] for phase in found["phases"]] == [phase["name"] for phase in expected["phases"]]
    assert set(found["phases"][0]) == {"name", "seconds"} if found["phases"] else True
    assert found["sglang_version"] is None
    assert all(isinstance(code, str) for code in found["findings"])


def test_words_in_order_and_no_secret(tmp_path: Path) -> None:
    log = StartLog("0.5.14", 2, api_key="hunter2-hunter2").to("loading").rank_dies(OOM)
    log.say("Bearer hunter2-hunter2").gone()
    file = tmp_path / "x.log"
    file.write_text("\n".join(log.lines))
    done = run(str(file))
    text = done.stdout.decode()
    assert done.returncode == 0 and not done.stderr
    places = [text.index(word) for word in (
        "[cuda-oom-weights]", "evidence", "remedy", "api-key-in-log", "\ntimeline", "\ncapacity", "\nlast lines")]
    assert places == sorted(places)
    assert "hunter2" not in text
    assert "hunter2" not in run(str(file), "--json").stdout.decode()
    assert "\x1b" not in text


def test_standard_input_and_state_as_systemctl_prints_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("ActiveState=failed\nResult=oom-kill\nExecMainCode=2\nExecMainStatus=9\nNRestarts=3\n")
    log = "\n".join(StartLog("0.5.9").to("loading").lines).encode() + b"\xff\xfe broken \x00 bytes\n"
    done = run("-", "--unit-state", str(state), "--json", stdin=log)
    found = json.loads(done.stdout)
    assert (found["outcome"], found["cause"], found["restarts"]) == ("failed", "host-oom-kill", 3)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    missing = run(str(tmp_path / "missing.log"))
    assert missing.returncode == 2 and b"missing.log" in missing.stderr and not missing.stdout
    assert run(str(tmp_path)).returncode == 2
    empty = tmp_path / "empty"
    empty.write_text("")
    assert run(str(empty)).returncode == 0
    assert run(str(empty), "--unit-state", str(tmp_path / "none")).returncode == 2
    assert run(str(empty), "--unit-state", str(empty)).returncode == 2


@pytest.mark.parametrize("form", ["plain", "short", "json"])
def test_a_journal_of_50_mb_is_read_in_seconds(tmp_path: Path, form: str) -> None:
    """About 1 s of processor time on a machine of 2020s make; the bound leaves room for a slow or busy one."""
    def written(line: str) -> str:
        if form == "json":
            return json.dumps({"__CURSOR": "s=1;i=2", "_BOOT_ID": "a" * 32, "_HOSTNAME": "gpu1",
                               "SYSLOG_IDENTIFIER": "python", "_SYSTEMD_UNIT": "x.service",
                               "_SYSTEMD_INVOCATION_ID": "b" * 32, "MESSAGE": line})
        return f"Nov 20 11:11:31 gpu1 python[3388]: {line}" if form == "short" else line

    serving = [
        "[2026-03-01 12:10:00 TP0] Decode batch, #running-req: 17, #token: 81234, token usage: 0.20, cuda graph: "
        "True, gen "
        "throughput (token/s): 812.33, #queue-req: 0, ",
        "[2026-03-01 12:10:00 TP0] Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, "
        "#running-req: 0, #queue-req: 0, cuda graph: False",
        '[2026-03-01 12:10:01] INFO:     10.0.0.7:43210 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "[2026-03-01 12:10:01 TP1] Some words of another library about nothing in particular",
    ]
    block = "".join(written(line) + "\n" for line in [*serving[:3], *serving[:3], *serving])
    file = tmp_path / "big.log"
    with file.open("w") as out:
        out.write("".join(written(line) + "\n" for line in StartLog("0.5.9", 2).to("ready").lines))
        for _ in range(50_000_000 // len(block)):
            out.write(block)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run(str(file), "--json")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(done.stdout)["outcome"] == "ready"
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 6


@pytest.mark.parametrize("stage", ["loading", "begun"])
def test_a_crash_loop_of_days(tmp_path: Path, stage: str) -> None:
    """Only the last starts are read closely; what they say is the same as in a short log."""
    log = StartLog("0.5.9").to(stage)
    missing = "ModuleNotFoundError: No module named 'sgl_kernel'"
    log = log.rank_dies(OOM) if stage == "loading" else log.main_dies(missing)
    log.gone().raw("sglang-test.service: Scheduled restart job, restart counter is at 7.")
    block = "\n".join(log.lines) + "\n"
    good = "\n".join(StartLog("0.5.9").to("ready").gone().lines) + "\n"
    file = tmp_path / "loop.log"
    size = 6_000_000 if stage == "loading" else 2_000_000
    file.write_text(good + block * (size // len(block)))
    found = json.loads(run(str(file), "--json").stdout)
    cause = "cuda-oom-weights" if stage == "loading" else "python-env-broken"
    assert (found["outcome"], found["cause"]) == ("failed", cause)
    assert (found["skipped_bytes"] > 5_000_000) is (stage == "loading")
    piped = json.loads(run("-", "--json", stdin=file.read_bytes()).stdout)
    assert piped == found


@pytest.mark.parametrize("text", [
    "", "\n\n", "-- No entries --\n", "# A page\n\nwith words about --tp-size\n",
    'Nov 30 10:00:00 h nginx[7]: 10.0.0.1 "GET / HTTP/1.1" 200\n', '{"MESSAGE": null, "_PID": "7"}\n',
    "INFO:     127.0.0.1:80 - \"GET /health HTTP/1.1\" 200 OK\n",
    "Epoch 1: 50%|#####     | 2/4 [00:03<00:03,  1.7s/it]\n", "\x00\x01\x7f\n",
])
def test_a_text_without_a_line_of_sglang_is_said_to_be_one(text: str) -> None:
    done = run("-", stdin=text.encode())
    said = done.stdout.decode()
    assert done.returncode == 0 and "still starting" not in said
    assert said.startswith("not a start-up log: ") and "journalctl -u UNIT" in said
    found = json.loads(run("-", "--json", stdin=text.encode()).stdout)
    assert (found["outcome"], found["cause"], found["phases"]) == ("foreign", None, [])


@pytest.mark.parametrize("text", [
    "Nov 30 10:00:00 h systemd[1]: Starting q.service - Q...\n", "[2026-11-30 10:00:00] hello\n",
    "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:03<00:03,  1.7s/it]\n",
])
def test_a_start_is_told_from_its_first_line_on(text: str) -> None:
    assert "still starting" in run("-", stdin=text.encode()).stdout.decode()
