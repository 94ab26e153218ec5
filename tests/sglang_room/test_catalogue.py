"""What the catalogue answers: facts checked against the releases' own sources by hand, and the shape of its API."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.sglang.catalogue import catalogue
from deployer.sglang.history import changes, entries, entry
from deployer.sglang.version import Unreadable

KNOWN = catalogue()
ROUTER = catalogue("router")


def test_every_base_release_is_there() -> None:
    base = [release for release in KNOWN.releases if "post" not in release]
    assert base[0] == "0.4.0"
    assert {"0.4.10", "0.5.1", "0.5.9", "0.5.20", "0.5.23"} <= set(base)
    assert "0.5.0" not in base
    assert ROUTER.releases[0] == "0.0.5"


@pytest.mark.parametrize(("release", "flags", "spellings"), [
    ("0.4.0", 82, 85), ("0.4.3", 98, 102), ("0.4.9", 166, 172), ("0.5.1", 199, 206), ("0.5.4", 273, 281),
    ("0.5.9", 331, 341), ("0.5.13", 406, 419), ("0.5.16", 460, 476), ("0.5.19", 503, 521), ("0.5.20", 494, 513),
    ("0.5.22", 521, 544), ("0.5.23", 531, 559),
])
def test_counts(release: str, flags: int, spellings: int) -> None:
    assert (len(KNOWN.flags(release)), len(KNOWN.spellings(release))) == (flags, spellings)


def test_matching() -> None:
    assert KNOWN.matching("0.5.9") == ["0.5.9"]
    assert KNOWN.matching(">=0.5.4,<0.5.5") == ["0.5.4", "0.5.4.post1", "0.5.4.post2", "0.5.4.post3"]
    assert KNOWN.matching("~=0.4.9")[-1] == "0.4.10.post2"
    assert KNOWN.matching("0.5.0") == []
    with pytest.raises(Unreadable):
        KNOWN.matching("newest")


@pytest.mark.parametrize(("release", "name", "spelling"), [
    ("0.5.9", "tp", "--tp-size"), ("0.5.9", "tensor_parallel_size", "--tp-size"), ("0.5.23", "tp-size", "--tp-size"),
    ("0.5.9", "--dp-size", "--dp-size"), ("0.4.10", "expert-parallel-size", "--ep-size"), ("0.4.0", "ep-size", None),
    ("0.5.9", "model", "--model-path"), ("0.5.9", "cuda-graph-max-bs", "--cuda-graph-max-bs"),
    ("0.5.23", "cuda-graph-max-bs", None), (">=0.5.4,<0.6", "tp_size", "--tp-size"),
    (">=0.5.4,<0.6", "cuda-graph-max-bs", None), ("0.5.23", "enable-hicache", "--enable-hierarchical-cache"),
    ("0.5.23", "no-dcp-replicate-q-proj", "--no-dcp-replicate-q-proj"), ("99", "tp-size", "--tp-size"),
])
def test_spelling(release: str, name: str, spelling: str | None) -> None:
    assert KNOWN.spelling(release, name) == spelling


def test_dest() -> None:
    assert KNOWN.dest("tensor-parallel-size") == "tp_size"
    assert KNOWN.dest("tp") == "tp_size"
    assert KNOWN.dest("fp8-gemm-backend") == "fp8_gemm_runner_backend"
    assert KNOWN.dest("never-heard-of") == "never_heard_of"


@pytest.mark.parametrize(("name", "since", "removed", "deprecated", "successor"), [
    ("cuda-graph-max-bs", "0.4.0", "0.5.20", "0.5.14", "--cuda-graph-max-bs-decode"),
    ("enable-ep-moe", "0.4.0.post1", "0.5.4.post1", "0.4.10.post2", "--ep-size"),
    ("enable-deepep-moe", "0.4.4.post2", "0.5.4.post1", "0.4.10.post2", "--moe-a2a-backend"),
    ("disable-cuda-graph", "0.4.0", None, "0.5.14", "--cuda-graph-backend-decode"),
    ("enable-dp-attention", "0.4.0", None, "0.5.22", "--attn-dp-size"),
    ("nsa-prefill-backend", "0.5.4", "0.5.20", "0.5.13", "--dsa-prefill-backend"),
    ("mamba-scheduler-strategy", "0.5.7", "0.5.20", "0.5.14", "--mamba-radix-cache-strategy"),
    ("stream-output", "0.4.2", "0.5.20", "0.5.10", "--incremental-streaming-output"),
    ("enable-prefill-context-parallel", "0.5.10", "0.5.20", "0.5.14", "--enable-prefill-cp"),
    ("grpc-mode", "0.5.3.post2", None, "0.5.16", "--smg-grpc-mode"),
    ("kv-cache-dtype", "0.4.0", None, None, None),
    ("config", "0.5.3", None, None, None),
    ("admin-api-key", "0.5.8", None, None, None),
])
def test_history(name: str, since: str, removed: str | None, deprecated: str | None, successor: str | None) -> None:
    found = entry(KNOWN, name)
    assert found is not None
    assert (found.since, found.removed, found.deprecated, found.successor) == (since, removed, deprecated, successor)


def test_changes_in_words() -> None:
    told = dict(changes(KNOWN, "kv-cache-dtype"))
    assert told["0.5.4"] == "+ bf16, bfloat16"
    assert told["0.5.21"] == "− fp4_e2m1"
    assert dict(changes(KNOWN, "hicache-ratio"))["0.5.18"] == "default 2.0 → none"
    assert dict(changes(KNOWN, "cuda-graph-bs"))["0.5.20"] == "removed, now --cuda-graph-bs-decode"


def test_entries_hold_every_spelling_once() -> None:
    every = entries(KNOWN)
    assert len({each.flag.name for each in every}) == len(every)
    newest = {each.flag.name for each in every if each.removed is None}
    assert newest == set(KNOWN.flags(KNOWN.newest))


def test_a_release_lists_what_it_registers() -> None:
    listed = [each.plain() for each in entries(KNOWN, "0.5.9")]
    assert [one["name"] for one in listed] == sorted(KNOWN.flags("0.5.9"))
    by_name = {one["name"]: one for one in listed}
    assert by_name["--port"] == {
        "name": "--port", "aliases": [], "type": "int", "choices": None, "nargs": None, "default": 30000,
        "required": False, "since": "0.4.0", "removed": None, "deprecated": None, "successor": None,
    }
    assert by_name["--tensor-parallel-size"]["aliases"] == ["--tp-size"]
    assert by_name["--model-path"]["required"] is True
    assert by_name["--trust-remote-code"]["nargs"] == 0


def test_no_help_texts_and_no_names_of_hosts() -> None:
    text = Path(__file__).parents[2].joinpath("deployer/sglang/catalogue.json").read_text("utf-8")
    assert '"help"' not in text
    assert "http" not in {word for row in json.loads(text)["sglang"]["flags"] for word in row[2]}
    assert len(text) < 250_000


def test_loading_is_quick() -> None:
    """The budget is 20 ms of an idle machine; processor time, and twice as much, since this one may be busy."""
    code = ("import time; from deployer.sglang.catalogue import catalogue; t = time.process_time();"
            "catalogue().spelling('0.5.9', 'tp-size'); print(time.process_time() - t)")
    took = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
            for _ in range(3)]
    assert min(took) < 0.04, took
