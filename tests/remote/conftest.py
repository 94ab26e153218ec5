"""Real SSH servers on loopback, each with its own keys and configuration, ended with the test that started them."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deployer.remote import bootstrap

SSHD = shutil.which("sshd") or ("/usr/sbin/sshd" if Path("/usr/sbin/sshd").exists() else None)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("var")


@pytest.fixture(autouse=True)
def agent_folder(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The agent is unpacked into a folder of this run's, once, and never into this machine's /var/lib."""
    return _agents_under(unpacked, monkeypatch)


@pytest.fixture
def fresh_folder(tmp_path: Path, agent_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One where no agent is yet."""
    return _agents_under(tmp_path / "fresh", monkeypatch)


def _agents_under(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = place / "deployer" / "agent"
    monkeypatch.setattr(bootstrap, "ROOT_FOLDER", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    return folder


_RSA: dict[str, str] = {}


def keygen(path: Path, kind: str = "ed25519", passphrase: str = "", *words: str) -> Path:
    """A key pair at ``path``. Plain RSA keys are made once: they take a second each."""
    if (kind, passphrase, words) == ("rsa", "", ()) and _RSA:
        path.write_text(_RSA["private"])
        path.chmod(0o600)
        Path(f"{path}.pub").write_text(_RSA["public"])
        return path
    if passphrase:
        words = (*words, "-a", "1")                  # one round: the time is not what is tried
    if kind == "rsa" and "-b" not in words:
        words = (*words, "-b", "2048")
    _make(path, kind, passphrase, *words)
    if (kind, passphrase) == ("rsa", "") and "-m" not in words:
        _RSA.update(private=path.read_text(), public=Path(f"{path}.pub").read_text())
    return path


def _make(path: Path, kind: str, passphrase: str, *words: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path), *words], check=True)
    return path


class Sshd:
    """One server. ``key`` is the user's key that it takes; ``log`` what it said."""

    def __init__(self, folder: Path, settings: str = "", host_kinds: tuple[str, ...] = ("ed25519",),
                 address: str = "127.0.0.1", certificate: str = "") -> None:
        assert SSHD
        folder.mkdir(parents=True)
        self.folder = folder
        self.address = address
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((address, 0))
            self.port: int = probe.getsockname()[1]
        self.host_keys = [keygen(folder / f"host_{kind}", kind) for kind in host_kinds]
        self.authorized = folder / "authorized"
        self.authorized.touch()
        self.log = folder / "log"
        lines = [f"ListenAddress [{address}]:{self.port}" if ":" in address else f"ListenAddress {address}:{self.port}",
                 *[f"HostKey {key}" for key in self.host_keys], f"AuthorizedKeysFile {self.authorized}",
                 "StrictModes no", "UsePAM no", "PermitRootLogin yes", "PidFile none", "LogLevel VERBOSE",
                 "PasswordAuthentication no", "KbdInteractiveAuthentication no",
                 f"HostCertificate {certificate}" if certificate else "", settings]
        self.config = folder / "config"
        self.config.write_text("\n".join(lines) + "\n")
        self.process = subprocess.Popen([SSHD, "-D", "-f", str(self.config), "-E", str(self.log)],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._await()

    def _await(self) -> None:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                socket.create_connection((self.address, self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.02)
        raise AssertionError("sshd did not come up")

    def accept(self, *keys: Path) -> None:
        self.authorized.write_text("".join(Path(f"{key}.pub").read_text() for key in keys))

    def known_line(self, name: str | None = None, number: int = 0, marker: str = "") -> str:
        kind, blob = Path(f"{self.host_keys[number]}.pub").read_text().split()[:2]
        return f"{marker + ' ' if marker else ''}{name or f'[{self.address}]:{self.port}'} {kind} {blob}\n"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(5)


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """``sshd(settings)`` starts a server; all end with the test."""
    if not SSHD or not shutil.which("ssh-keygen"):
        pytest.skip("no sshd installed")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    started: list[Sshd] = []

    def start(settings: str = "", **more: object) -> Sshd:
        made = Sshd(tmp_path / f"sshd{len(started)}", settings, **more)  # type: ignore[arg-type]
        started.append(made)
        return made

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def user_key(tmp_path: Path) -> Path:
    """A key without a passphrase."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("no ssh-keygen")
    return keygen(tmp_path / "user_ed25519")


@pytest.fixture
def me() -> str:
    return getpass.getuser()
