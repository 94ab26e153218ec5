"""``make demo`` goes through, says what an admin wants to see, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.hosts.bed import Pool
from tests.hosts.bed.image import CHECKOUT


def test_the_demo_goes_through(pool: Pool) -> None:
    before = folders()
    command = [sys.executable, "-m", "scripts.demo", "--quick"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    pushes = [line for line in done.stdout.splitlines() if line.startswith("$ deployer push")]
    assert len(pushes) == 3 and "(exit code 4)" in done.stdout and done.stdout.count("\n200\n") == 1
    assert "demo-key-4711" not in done.stdout + done.stderr
    assert folders() == before


def folders() -> set[Path]:
    """The workspaces of demos."""
    return set(Path("/tmp").glob("deployer-demo-*"))


def test_without_a_host_it_renders_the_examples_and_says_what_is_missing() -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.demo"], cwd=CHECKOUT, capture_output=True, text=True,
                          env={"PATH": "/nonexistent"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ExecStart=" in done.stdout and "no apt-get" in done.stdout.splitlines()[-2]
