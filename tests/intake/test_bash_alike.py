"""Scripts of this test's own, run by bash with a stand-in for python3, against what an import reads in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployer.intake.bring import How, bring_file

SCRIPTS = Path(__file__).parent / "cases" / "bash.txt"
_OWN = {"PATH", "HOME", "DUMP", "PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE", "LC_ALL"}
_STANDIN = f"""#!{sys.executable} -SI
import json, os, sys
with open(os.environ["DUMP"], "a") as dump:
    dump.write(json.dumps(dict(argv=["python3", *sys.argv[1:]], env=dict(os.environ))) + chr(10))
"""


def scripts() -> list[str]:
    return [part.strip("\n") for part in SCRIPTS.read_bytes().decode().split("\n####\n")]


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
@pytest.mark.parametrize("number", range(len(scripts())))
def test_script(number: int, tmp_path: Path) -> None:
    text = scripts()[number].replace("SERVE", "python3 -m sglang.launch_server").replace("FOLDER", str(tmp_path))
    script = tmp_path / "run.sh"
    script.write_bytes(f"#!/bin/bash\n{text}\n".encode())
    found = [unit.launch for unit in bring_file(script, How(cwd=str(tmp_path))).units]
    mine = sorted(_shown(launch.argv, launch.env) for launch in found if launch)
    assert mine == sorted(_shown(each["argv"], each["env"]) for each in _run(script, tmp_path))
    assert not (tmp_path / "EVIL").exists()


def _run(script: Path, folder: Path) -> list[dict[str, Any]]:
    programs = folder / "programs"
    programs.mkdir()
    (programs / "python3").write_text(_STANDIN, encoding="utf-8")
    (programs / "python3").chmod(0o755)
    env = {"LC_ALL": "C.UTF-8", "PATH": f"{programs}:{os.defpath}", "HOME": "/root", "DUMP": str(folder / "dump")}
    subprocess.run(["bash", script.name], cwd=folder, env=env, capture_output=True, timeout=60, check=False)
    lines = (folder / "dump").read_text(encoding="utf-8").splitlines()
    assert lines
    return [json.loads(line) for line in lines]


def _shown(argv: list[str], env: dict[str, str]) -> str:
    own = {name: value for name, value in env.items() if name not in _OWN}
    return json.dumps([argv, own], sort_keys=True).replace("${HOME}", "/root")
