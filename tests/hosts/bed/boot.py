"""Booting one host: a systemd of its own on the shared root file system, with a disk that outlives the boot."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.hosts.bed import cgroups
from tests.hosts.bed.network import Network

BOOT_LIMIT = 60.0
"""Seconds until a host must be up; about one is usual, many more when 32 boot at once on two cores."""


class BootError(Exception):
    """The host did not come up; the text ends with its console's last lines."""


class Machine:
    """One systemd-nspawn with what it needs; ``leader`` is its init's process in this PID namespace."""

    def __init__(self, name: str, folder: Path, image: Path, network: Network, group: str, options: list[str]) -> None:
        self.name = name
        self.folder = folder
        self.image = image
        self.network = network
        self.group = group
        self.options = options
        self.leader = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._notify: socket.socket | None = None
        for part in ("upper", "work", "root"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.console = folder / "console.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Begins to boot; ``wait`` waits for it, so that several may boot side by side."""
        self.leader = 0
        self._notify = self._listen()
        with self.console.open("ab") as console:
            self._process = subprocess.Popen(
                self.command(), env={"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"},
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
            )

    def command(self) -> list[str]:
        """What boots the host. When the test process is killed outright, the death signal takes ``unshare`` along, and
        with it the PID namespace in which all of the host is.
        """
        enter = " && ".join(f"echo $$ > {entry}" for entry in cgroups.make(self.group))
        begin = ["/bin/sh", "-euc", f'{enter}; exec "$@"', "boot"]
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        return [*begin, "setpriv", "--pdeathsig", "KILL", *apart, *self.nspawn(self.image, self.folder)]

    def nspawn(self, image: Path, folder: Path) -> list[str]:
        """Mounts the host's disk and boots it; both paths as seen from where this runs."""
        overlay = f"lowerdir={image},upperdir={folder / 'upper'},workdir={folder / 'work'}"
        mount = f'mount -t overlay overlay -o {overlay},redirect_dir=off,index=off,metacopy=off {folder / "root"}'
        environment = [f"NOTIFY_SOCKET={folder / 'notify'}", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"]
        return [
            "/bin/sh", "-euc", f'{mount}; exec "$@"', "boot", "env", *environment,
            "systemd-nspawn", "--quiet", "--settings=no", "--boot", "--register=no", "--keep-unit",
            "--notify-ready=yes", "--console=pipe", "--link-journal=no", "--resolv-conf=off", "--timezone=off",
            f"--directory={folder / 'root'}", f"--machine={self.name}", f"--hostname={self.name}",
            f"--network-namespace-path={self.network.path}", *self.options,
        ]

    def wait(self) -> None:
        """Returns once systemd says that the boot is complete. Raises ``BootError``."""
        assert self._process is not None and self._notify is not None
        deadline = time.monotonic() + BOOT_LIMIT
        ready = False
        while not ready:
            if not select.select([self._notify], [], [], 0.2)[0]:
                if self._process.poll() is not None:
                    raise BootError(f"{self.name} ended while booting:\n{self._last_words()}")
                if time.monotonic() > deadline:
                    raise BootError(f"{self.name} is not up after {BOOT_LIMIT:.0f} s:\n{self._last_words()}")
                continue
            for line in self._notify.recv(4096).decode().splitlines():
                ready = ready or line == "READY=1"
        # Nobody reads on: the queue of an open one fills with the states that follow, and blocks the host's systemd.
        self._notify.close()
        self._notify = None
        self.leader = self._find_init()

    def _find_init(self) -> int:
        """The process that is number 1 in its own PID namespace: of several, nested ones, the outermost."""
        deepest, init = 0, 0
        for pid in cgroups.members(f"{self.group}/payload"):
            numbers = cgroups.numbers(pid)
            if numbers[-1:] == [1] and (not init or len(numbers) < deepest):
                deepest, init = len(numbers), pid
        if not init:
            raise BootError(f"{self.name}: no init among its processes")
        return init

    def await_end(self, seconds: float = 30.0) -> None:
        """Waits until the host has shut down by itself (with --keep-unit nspawn ends at a reboot as well)."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise BootError(f"{self.name} has not shut down after {seconds:.0f} s:\n{self._last_words()}") from None
        self.kill()

    def kill(self) -> None:
        """The power is cut: every process of the host ends at once, and nothing says goodbye."""
        if self._process is None:
            return
        if self.running:
            if self.leader:
                os.kill(self.leader, signal.SIGKILL)
            else:
                self._process.kill()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        deadline = time.monotonic() + 10
        while left := cgroups.members(self.group):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if time.monotonic() > deadline:
                raise BootError(f"{self.name}: processes that cannot be ended: {left}")
            time.sleep(0.005)
        self._process = None
        self.leader = 0
        shutil.rmtree(Path("/run/systemd/nspawn/propagate") / self.name, ignore_errors=True)
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    def _listen(self) -> socket.socket:
        path = self.folder / "notify"
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        listener.bind(str(path))
        return listener

    def _last_words(self) -> str:
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-25:])
