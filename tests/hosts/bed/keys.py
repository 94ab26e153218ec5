"""The run's own SSH keys, known hosts and ssh_config: nothing of the admin's own is read or written."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HostKey:
    private: str
    public: str


class Keys:
    """A folder laid out as ``~/.ssh`` is: ``id_ed25519``, ``known_hosts``, ``config``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.identity = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        self.config = folder / "config"
        self.known_hosts.touch()
        self._names: set[str] = set()
        self._host_keys: dict[int, HostKey] = {}
        _generate(self.identity)
        self.public = self.identity.with_suffix(".pub").read_text()
        self.config.write_text(
            f"Host *\n  User root\n  IdentityFile {self.identity}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n"
            "  BatchMode yes\n  ConnectTimeout 5\n  LogLevel ERROR\n"
        )

    def add(self, name: str, address: str, number: int) -> None:
        """Makes the host known by name and address."""
        if name in self._names:
            return
        self._names.add(name)
        self.config.write_text(f"Host {name}\n  HostName {address}\n" + self.config.read_text())
        with self.known_hosts.open("a") as file:
            file.write(f"{name},{address} {self.host_key(number).public.strip()}\n")

    def host_key(self, number: int) -> HostKey:
        if number not in self._host_keys:
            path = self.folder / f"host{number}"
            _generate(path)
            self._host_keys[number] = HostKey(path.read_text(), path.with_suffix(".pub").read_text())
        return self._host_keys[number]


def _generate(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bed", "-f", str(path)], check=True)
