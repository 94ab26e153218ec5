"""``deployer gpus local --json`` with a stand-in of nvidia-smi first on PATH: the whole way, agent included."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

CASES = sorted((Path(__file__).parent / "cases" / "nvidia-smi").iterdir())

STAND_IN = """#!/bin/sh
case "$*" in
    *--query-gpu=*) name=gpus code=$1 ;;
    *--query-compute-apps=*) name=apps code=$2 ;;
    *) exit 2 ;;
esac
"""


def stand_in(folder, case):
    gpus, apps = (case / "exit").read_text().split()
    hung = (case / "hang").read_text().split() if (case / "hang").exists() else []
    lines = [STAND_IN.replace("$1", gpus).replace("$2", apps)]
    lines += [f'[ $name = {name} ] && exec sleep 300' for name in hung]
    lines.append(f'cat "{case}/$name.out"\nexit $code\n')
    program = folder / "nvidia-smi"
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    return dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")


def ask(env, cwd):
    done = subprocess.run([sys.executable, "-m", "deployer", "gpus", "local", "--json"], env=env, cwd=cwd, text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded(case, tmp_path):
    expected = json.loads((case / "expected.json").read_text())
    begun = time.monotonic()
    told = ask(stand_in(tmp_path, case), tmp_path)
    assert told["gpus"] == expected["gpus"]
    assert told["processes"] == expected["processes"]
    assert sorted(told["errors"], key=str) == sorted(expected["errors"], key=str)
    assert {one["code"] for one in told["findings"]} >= {one["code"] for one in expected["errors"]}
    assert time.monotonic() - begun < 25, "two queries that hang cost one time limit"


def test_memory_that_nobody_visible_holds_is_a_hidden_holder(tmp_path):
    told = ask(stand_in(tmp_path, next(case for case in CASES if case.name.startswith("12"))), tmp_path)
    (holder,) = [one for one in told["holders"] if one["class"] == "hidden"]
    assert list(holder["memory"].values()) == [41877]
    assert holder["clean"]["scope"] is None


def test_a_row_whose_pid_is_another_process_here_is_not_taken_for_it(tmp_path):
    case = tmp_path / "case"
    case.mkdir()
    first = CASES[0]
    (case / "gpus.out").write_text((first / "gpus.out").read_text())
    uuid = json.loads((first / "expected.json").read_text())["gpus"][0]["uuid"]
    (case / "apps.out").write_text(f"{uuid}, {os.getpid()}, sglang::scheduler_TP0, 71178\n")
    (case / "exit").write_text("0 0\n")
    told = ask(stand_in(tmp_path, case), tmp_path)
    assert told["processes"][0]["pid"] == os.getpid()
    named = [holder for holder in told["holders"] if holder["pid"] == os.getpid()]
    assert [holder["class"] for holder in named] == ["hidden"]


def test_the_program_is_missing(tmp_path):
    env = dict(os.environ, PATH="/usr/sbin:/usr/bin:/sbin:/bin")
    assert ask(env, tmp_path)["errors"] == [{"code": "no-driver"}]


def test_what_this_machine_s_path_comes_to_is_kept(tmp_path):
    """The caller's folder is searched before the system's."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    env = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert ask(env, tmp_path)["errors"] == [{"code": "no-devices"}]
