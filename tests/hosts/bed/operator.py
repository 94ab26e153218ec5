"""The admin at the other end: a home folder of their own with the run's SSH set-up, from which ``deployer`` is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.bed import forked
from tests.hosts.bed.keys import Keys


@dataclass(frozen=True)
class Said:
    """What a command on the operator's machine left."""

    code: int
    out: str
    err: str


class Operator:
    """``home`` is the operator's HOME, ``workspace`` the folder that commands run in."""

    def __init__(self, keys: Keys, home: Path) -> None:
        self.home = home
        self.ssh = home / ".ssh"
        self.workspace = home / "workspace"
        self.workspace.mkdir(parents=True)
        self.ssh.mkdir(mode=0o700)
        self.identity = self.ssh / "id_ed25519"
        self.known_hosts = self.ssh / "known_hosts"
        self.config = self.ssh / "config"
        shutil.copy(keys.identity, self.identity)
        shutil.copy(keys.known_hosts, self.known_hosts)
        text = keys.config.read_text().replace(str(keys.folder), str(self.ssh)).replace("  BatchMode yes\n", "")
        self.config.write_text(text)
        self.env = {**os.environ, "HOME": str(home), "TERM": "dumb", "COLUMNS": "120"}
        self.env.pop("SSH_AUTH_SOCK", None)

    def write(self, path: str, text: str) -> Path:
        """Writes a file of the workspace: ``units/x.toml``, ``hosts.toml``, ``secrets/key``."""
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def deployer(self, *words: str, input: str = "", timeout: float = 120.0) -> Said:
        """Runs ``deployer WORDS`` in the workspace, without a terminal."""
        with tempfile.TemporaryDirectory(dir=self.home, prefix=".said-") as folder:
            streams = [Path(folder) / name for name in ("in", "out", "err")]
            for stream, text in zip(streams, (input, "", ""), strict=True):
                stream.write_text(text)
            process = forked.begin(words, self.env, self.workspace, [str(stream) for stream in streams])
            process.join(timeout)
            out, err = (stream.read_text(errors="replace") for stream in streams[1:])
            if process.exitcode is None:
                process.kill()
                process.join()
                raise AssertionError(f"deployer {' '.join(words)} goes on after {timeout:.0f} s:\n{out}{err}")
            return Said(process.exitcode, out, err)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Like ``deployer``, from the start and without waiting; the test ends it."""
        return subprocess.Popen([sys.executable, "-m", "deployer", *words], cwd=self.workspace, env=self.env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                errors="replace")
