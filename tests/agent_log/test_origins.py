"""The same start from any origin: journal formats, interleaved ranks, cut logs, arbitrary bytes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from startlog import RELEASES, StartLog
from test_causes import OOM
from test_given_logs import CASES, check, lines_of

from deployer.agent.log.lines import Splitter
from deployer.agent.log.read import LogReader, explain

PLAIN = [case for case in CASES if not lines_of(case)[0].startswith("Nov ")]
BY_SYSTEMD = ("Started ", "Starting ", "Stopping ", "Stopped ", "Failed to start ")


def systemds(line: str) -> bool:
    return line.startswith(BY_SYSTEMD) or ".service: " in line[:60]


def short(line: str) -> str:
    return f"Nov 20 11:11:31 gpu1 {'systemd[1]' if systemds(line) else 'python[3388]'}: {line}"


PREFIXES = {
    "short": short,
    "german": lambda line: short(line).replace("Nov 20", "Dez 03"),
    "french": lambda line: short(line).replace("Nov 20", "févr. 03"),
    "chinese": lambda line: short(line).replace("Nov 20", "11月 20"),
    "short-precise": lambda line: short(line).replace("11:11:31", "11:11:31.123456", 1),
    "short-iso": lambda line: short(line).replace("Nov 20 11:11:31", "2025-11-20T11:11:31+0100", 1),
    "short-iso-precise": lambda line: short(line).replace("Nov 20 11:11:31", "2025-11-20T11:11:31.123456+01:00", 1),
    "short-full": lambda line: short(line).replace("Nov 20 11:11:31", "Thu 2025-11-20 11:11:31 CET", 1),
    "short-unix": lambda line: short(line).replace("Nov 20 11:11:31", "1763633491.123456", 1),
    "short-monotonic": lambda line: short(line).replace("Nov 20 11:11:31", "[ 1234.567890]", 1),
    "docker": lambda line: line if systemds(line) else f"2025-11-20T11:11:31.123456789Z {line}",
    "compose": lambda line: line if systemds(line) else f"sglang-1  | {line}",
}


def as_json(line: str, number: int, bytes_: bool = False) -> str:
    by_systemd = systemds(line)
    message: object = line
    if "\r" in line or "\x1b" in line or bytes_:
        message = list(line.encode())
    entry = {"__REALTIME_TIMESTAMP": str(1763633491000000 + number * 1000), "_PID": "1" if by_systemd else "3388",
             "SYSLOG_IDENTIFIER": "systemd" if by_systemd else "python", "MESSAGE": message, "PRIORITY": "6"}
    entry.update({"UNIT": "x.service"} if by_systemd else {"_SYSTEMD_UNIT": "x.service", "_STREAM_ID": "ab"})
    return json.dumps(entry)


@pytest.mark.parametrize("form", PREFIXES)
@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_a_prefix_changes_nothing(case: Path, form: str) -> None:
    check(case, [PREFIXES[form](line) for line in lines_of(case) if line])


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_journal_objects_change_nothing(case: Path) -> None:
    lines = [line for line in lines_of(case) if line]
    check(case, [as_json(line, number) for number, line in enumerate(lines)])
    check(case, [as_json(line, number, True) for number, line in enumerate(lines)])


@pytest.mark.parametrize("size", [500, 4096])
@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_lines_split_by_the_journal_are_joined(case: Path, size: int) -> None:
    out = []
    for number, line in enumerate(line for line in lines_of(case) if line):
        parts = [line[at:at + size] for at in range(0, len(line), size)]
        for part in parts[:-1]:
            entry = json.loads(as_json(part, number))
            out.append(json.dumps({**entry, "_LINE_BREAK": "line-max", "_PID": "3388"}))
        entry = json.loads(as_json(line, number))
        entry["MESSAGE"] = parts[-1]
        out.append(json.dumps(entry))
    check(case, out)


def test_lines_that_the_journal_does_not_give_are_named() -> None:
    log = StartLog("0.5.9").to("ready").lines
    entries = [as_json(line, number) for number, line in enumerate(log)]
    at = next(number for number, line in enumerate(log) if "server_args=" in line)
    entries[at] = json.dumps({**json.loads(entries[at]), "MESSAGE": None})
    found = explain(entries)
    assert found.outcome == "ready" and "MESSAGE null" in found.gaps[0]


@pytest.mark.parametrize("line", [
    "Nov 20 11:11:40 gpu1 systemd-journald[321]: Suppressed 27501 messages from sglang-test.service",
    json.dumps({"MESSAGE": "Suppressed 27501 messages from sglang-test.service", "_PID": "321",
                "SYSLOG_IDENTIFIER": "systemd-journald", "__REALTIME_TIMESTAMP": "1763633491000000"}),
])
def test_a_rate_limit_is_named(line: str) -> None:
    log = StartLog("0.5.9").to("capacity").lines
    found = explain([*log, line])
    assert found.outcome == "starting" and "27501" in found.gaps[0]


def test_blobs_are_lost_bars() -> None:
    log = [short(line) if not line.startswith("\r") else "Nov 20 11:11:31 gpu1 python[3388]: [1.2K blob data]"
           for line in StartLog("0.5.9").to("ready").lines]
    found = explain(log)
    assert found.outcome == "ready" and not found.gaps


def test_an_invocation_begins_a_start() -> None:
    def entries(lines: list[str], invocation: str) -> list[str]:
        return [json.dumps({**json.loads(as_json(line, 0)), "_SYSTEMD_INVOCATION_ID": invocation}) for line in lines]

    old, new = StartLog("0.5.9").to("ready").lines[1:], StartLog("0.5.9").to("begun").lines[1:]
    assert explain(entries(old, "a" * 32) + entries(new, "b" * 32)).outcome == "starting"


# -- interleaving ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("seed", range(5))
def test_tracebacks_of_several_ranks_interleaved(release: str, seed: int) -> None:
    chance = random.Random(seed)
    log = StartLog(release, 4).to("loading")
    head = len(log.lines)
    blocks = []
    for rank in range(4):
        last = OOM if rank == 2 else "RuntimeError: [../gloo/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:5"
        log.rank_dies(last, rank)
        blocks.append([line for line in log.lines[head:] if "Received sigquit" not in line])
        del log.lines[head:]
    while any(blocks):
        block = chance.choice([block for block in blocks if block])
        log.lines.append(block.pop(0))
    found = explain(log.gone().lines)
    assert (found.outcome, found.cause) == ("failed", "cuda-oom-weights") and "out of memory" in found.evidence


@pytest.mark.parametrize("seed", range(8))
def test_an_unknown_exception_among_its_consequences(seed: int) -> None:
    chance = random.Random(seed)
    log = StartLog("0.5.14", 4).to("loading")
    ranks = list(range(4))
    chance.shuffle(ranks)
    for rank in ranks:
        log.rank_dies("KeyError: 'model.layers.7'" if rank == 2 else "RuntimeError: Connection reset by peer", rank)
    found = explain(log.gone().lines)
    assert found.cause == "scheduler-exception" and "KeyError" in found.evidence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", [case for case in CASES if case.name[:2] in ("02", "04", "07", "12", "31")],
                         ids=lambda case: case.name)
def test_ranks_in_another_order(case: Path, seed: int) -> None:
    """Neighbouring lines of different ranks change places."""
    chance = random.Random(seed)
    lines = lines_of(case)
    for _ in range(400):
        at = chance.randrange(len(lines) - 1)
        first, second = lines[at][:28], lines[at + 1][:28]
        ranks = " TP" in first and " TP" in second and first[-5:] != second[-5:]
        if ranks and "max_total" not in lines[at] + lines[at + 1]:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
    check(case, lines)


# -- cut and broken logs ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cut_anywhere(case: Path) -> None:
    """Never ready before the ready line, and never a cause that is not in the part that is left."""
    expected = json.loads((case / "expected.json").read_text())
    lines = lines_of(case)
    ready_at = next((number for number, line in enumerate(lines) if "fired up" in line), len(lines) + 1)
    allowed = {None, "unknown", "scheduler-exception", "start-pre-failed", expected["cause"]}
    step = max(1, len(lines) // 150)
    for end in range(0, len(lines) + 1, step):
        found = explain(lines[:end])
        assert found.cause in allowed | ({"no-cuda-device"} if expected["cause"] == "nvidia-driver-too-old" else set())
        assert (found.outcome == "failed") == (found.cause is not None)
        if end <= ready_at:
            assert found.outcome != "ready"
        reader = LogReader()
        for line in lines[:end]:
            reader.feed(line)
        if reader.fatal and reader.cause not in (None, "unknown"):
            assert reader.cause in (expected["cause"], "start-pre-failed")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cut_at_the_head(case: Path) -> None:
    lines = lines_of(case)
    for begin in range(0, len(lines), max(1, len(lines) // 40)):
        found = explain(lines[begin:])
        assert found.outcome in ("ready", "failed", "starting", "stopped")


@given(st.lists(st.binary(max_size=300), max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_bytes(raw: list[bytes]) -> None:
    reader = LogReader()
    for line in raw:
        reader.feed(line.decode("utf-8", "replace"))
    found = reader.explanation()
    assert found.outcome == "starting" or found.cause


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_logs(data: st.DataObject) -> None:
    """Bytes lost, doubled or changed in a real log: no crash, and no ready without the whole ready line."""
    case = data.draw(st.sampled_from(CASES))
    text = bytearray((case / "startup.log").read_bytes())
    for _ in range(data.draw(st.integers(1, 30))):
        at = data.draw(st.integers(0, len(text) - 1))
        kind = data.draw(st.integers(0, 2))
        if kind == 0:
            text[at] = data.draw(st.integers(0, 255))
        elif kind == 1:
            del text[at:at + data.draw(st.integers(1, 200))]
        else:
            text[at:at] = text[at:at + data.draw(st.integers(1, 200))]
    lines = bytes(text).decode("utf-8", "replace").split("\n")
    found = explain(lines)
    if found.outcome == "ready":
        assert any("The server is fired up and ready to roll!" in line for line in lines)


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_the_splitter_loses_no_text(text: str) -> None:
    parts = [line.text for line in Splitter().split("[2025-01-01 10:00:00 TP0] x" + text.replace("\r", ""))]
    assert parts and parts[0].startswith("[2025-01-01 10:00:00 TP0] x")


@pytest.mark.parametrize("form", ["{at},123 - sglang.srt.x - INFO - "
                                  "{text}", "{at} INFO sglang: {text}", "[{at}] [INFO] {text}"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_log_format_of_ones_own(form: str, release: str) -> None:
    """SGLANG_LOGGING_CONFIG_PATH: another format, in which no rank is named."""
    log = StartLog(release, 4).to("ready")
    lines = [form.format(at=line[1:20], text=line.split("] ", 1)[1]) if line.startswith("[20") else line
             for line in log.lines]
    found = explain(lines)
    assert (found.outcome, found.max_total_num_tokens, found.kv_cache_dtype) == ("ready", 400000, "bfloat16")
    seconds = {phase.name: phase.seconds for phase in found.phases}
    assert (seconds["weights"], seconds["cuda-graph"], seconds["ready"]) == (10, 6, 31)
    assert explain(lines[:-1]).outcome == "starting"


@pytest.mark.parametrize("release", ["0.5.9", "0.5.23"])
def test_arguments_cut_by_the_journal_in_two_lines(release: str) -> None:
    """journalctl -o short shows the pieces of a line over LineMax= as lines."""
    lines = StartLog(release, 2, port=31234, api_key="sk-made-up").to("ready").lines
    at = next(number for number, line in enumerate(lines) if "server_args=" in line)
    for cut in range(60, len(lines[at]), 7):
        reader = LogReader()
        for line in [*lines[:at], lines[at][:cut], lines[at][cut:], *lines[at + 1:]]:
            reader.feed(short(line))
        found = reader.explanation()
        assert found.outcome == "ready" and found.findings == ("api-key-in-log",)
        assert reader.secrets == ("sk-made-up",)
