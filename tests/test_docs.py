"""Documentation held to the code: every command is in the README, every command has an example, contracts stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deployer import exits
from deployer.cli.program import COMMANDS, program
from deployer.protocol.outcome import Outcome

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = program.get_command(click.Context(program), name)
    # click keeps the help option of its first use, which may have been another test's, without the program around it.
    monkeypatch.setattr(command, "_help_option", None)
    result = CliRunner().invoke(program, [name, "-h"], prog_name="deployer")
    assert result.exit_code == 0
    assert re.search(rf"^\s+deployer {name}\b", result.output, re.MULTILINE), result.output


def test_the_readme_names_every_command_and_no_other() -> None:
    text = (ROOT / "README.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `deployer ")]
    named = set(re.findall(r"`(?:deployer )?([a-z]+)", " ".join(row.split("|")[1] for row in rows)))
    elsewhere = set(re.findall(r"deployer ([a-z]+)", text))
    assert named <= set(COMMANDS)
    assert set(COMMANDS) - named - elsewhere == {"completion"}


def test_every_outcome_has_its_exit_code() -> None:
    assert {outcome: exits.exit_code(outcome) for outcome in Outcome}[Outcome.ROLLED_BACK] == 4
    assert exits.gravest([0, 7, 5, 4]) == 5
    assert exits.gravest([]) == 0
    assert {exits.exit_code(outcome) for outcome in Outcome} == {0, 1, 3, 4, 5, 6, 7, 8, 130}


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from deployer.cli.program import program\n" \
        "try: program.main(['--help'], prog_name='deployer')\n" \
        "except SystemExit: print(sorted({'paramiko', 'jinja2', 'rich', 'pydantic', 'packaging'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_nothing_of_this_machine_is_committed() -> None:
    """No path of a machine that the project was made on, and no registry by its host name."""
    words = re.compile("|".join(["/work" + "/", "/root/" + "\\.pyenv", "pypi" + "\\.org", "deb" + "\\.debian\\.org",
                                 "files\\.python" + "hosted"]))
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = []
    for name in tracked.split("\0")[:-1]:
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        found += [f"{name}: {line[:200]}" for line in text.splitlines() if words.search(line)]
    assert found == []
