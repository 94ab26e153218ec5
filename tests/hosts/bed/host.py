"""One test host: a real systemd with a real sshd, that tests run things on, break, and get back clean."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.bed import cgroups
from tests.hosts.bed.boot import Machine
from tests.hosts.bed.frozen import frozen
from tests.hosts.bed.furnish import PROGRAMS, furnish, interpreters
from tests.hosts.bed.gpu import Gpus
from tests.hosts.bed.keys import Keys
from tests.hosts.bed.network import Network
from tests.hosts.bed.reset import Baseline
from tests.hosts.bed.sglang import Sglang
from tests.hosts.bed.slot import Slot

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/root", "USER": "root", "LOGNAME": "root",
               "SHELL": "/bin/bash"}


@dataclass(frozen=True)
class Ran:
    """What a command on a host left."""

    code: int
    out: str
    err: str


class CommandFailed(AssertionError):
    """A command on a host that had to succeed did not."""


class Host:
    """``name`` is also its name in the ssh_config that the run writes; ``address`` is reachable from the test."""

    def __init__(self, slot: Slot, number: int, image: Path, keys: Keys, options: Sequence[str] = ()) -> None:
        self.number = number
        self.name = f"{slot.name}-h{number}"
        self.network = Network(slot, number)
        self.address = self.network.address
        self.keys = keys
        self.group = f"{slot.name}/h{number}"
        self.special = bool(options)
        self.image = image
        self.folder = slot.folder / f"h{number}"
        self._baseline: Baseline | None = None
        self.root_group = ""
        """Path of the control group that is the host's own root."""
        self._inner_group = ""
        self.gpu = Gpus(self)
        self.sglang = Sglang(self)
        self.machine = self._make_machine(list(options))
        furnish(self)

    def _make_machine(self, options: list[str]) -> Machine:
        pythons = [f"--bind-ro={place}" for place in interpreters()]
        lent = self.folder.parent
        binds = [f"--bind-ro={lent / name}:/usr/local/lib/{name}" for name in PROGRAMS]
        return Machine(self.name, self.folder, self.image, self.network, self.group, [*binds, *pythons, *options])

    # -- running things -------------------------------------------------------------------------------------------

    def run(self, command: str | Sequence[str], *, input: str = "", timeout: float = 60.0, check: bool = True) -> Ran:
        """Runs as root in the host, not through SSH (a few ms). A text goes to bash, words run as they are."""
        done = subprocess.run(self._enter(command), input=input, capture_output=True, text=True, errors="replace",
                              timeout=timeout, env=ENVIRONMENT)
        if check and done.returncode:
            raise CommandFailed(f"{self.name}: {command!r} exited {done.returncode}\n{done.stdout}{done.stderr}")
        return Ran(done.returncode, done.stdout, done.stderr)

    def popen(self, command: str | Sequence[str]) -> subprocess.Popen[str]:
        """Like ``run``, without waiting; pipes for all three streams. Killing it kills the program on the host."""
        return subprocess.Popen(self._enter(command, "setpriv", "--pdeathsig", "KILL"), env=ENVIRONMENT, text=True,
                                errors="replace", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ssh(self, command: str, *, user: str = "root", input: str = "", timeout: float = 60.0, check: bool = True,
            options: Sequence[str] = ()) -> Ran:
        """Runs through a real SSH session of ``user`` (root, admin, ops)."""
        words = ["ssh", "-F", str(self.keys.config), *options, "-l", user, self.name, command]
        done = subprocess.run(words, input=input, capture_output=True, text=True, errors="replace", timeout=timeout)
        if check and done.returncode:
            raise CommandFailed(f"{self.name}: ssh {command!r} exited {done.returncode}\n{done.stdout}{done.stderr}")
        return Ran(done.returncode, done.stdout, done.stderr)

    def _enter(self, command: str | Sequence[str], *before: str) -> list[str]:
        words = ["/bin/bash", "-c", command] if isinstance(command, str) else list(command)
        entries = [str(hierarchy / self._inner_group / "cgroup.procs") for hierarchy in cgroups.hierarchies()]
        join = " ".join(f"echo $$ > {shlex.quote(entry)};" for entry in entries)
        return ["/bin/sh", "-c", f'{join} exec "$@"', "run",
                "nsenter", f"--target={self.machine.leader}", "--all", *before, *words]

    # -- files ----------------------------------------------------------------------------------------------------

    def read(self, path: str) -> str:
        return self.run(["cat", path]).out

    def outside(self, path: str) -> Path:
        """The path as this machine sees it; only for one without links in it."""
        return Path(f"/proc/{self.machine.leader}/root{path}")

    def exists(self, path: str) -> bool:
        return self.run(["test", "-e", path], check=False).code == 0

    def write(self, path: str, text: str, *, mode: int = 0o644, owner: str = "root:root") -> None:
        """Writes a file with its folders."""
        self.run(
            f'mkdir -p "$(dirname {shlex.quote(path)})" && cat > {shlex.quote(path)} && chmod {mode:o} '
            f"{shlex.quote(path)} && chown {shlex.quote(owner)} {shlex.quote(path)}", input=text,
        )

    @contextmanager
    def small_disk(self, path: str, kib: int = 0) -> Iterator[None]:
        """``path`` becomes a disk of its own with what it held, and ``kib`` KiB free beyond that."""
        self.run(["/usr/local/lib/bed/small-disk", "on", path, str(kib)])
        try:
            yield
        finally:
            if self.machine.running:
                self.run(["/usr/local/lib/bed/small-disk", "off", path])

    @contextmanager
    def read_only(self, path: str) -> Iterator[None]:
        """``path`` cannot be written to, by root neither."""
        quoted = shlex.quote(path)
        self.run(f"mkdir -p {quoted} && mount --bind {quoted} {quoted} && mount -o remount,bind,ro {quoted}")
        try:
            yield
        finally:
            if self.machine.running:
                self.run(f"umount -l {quoted}")

    def unkillable(self, pid: int) -> AbstractContextManager[None]:
        """The process hangs in the kernel while the block lasts, deaf even to SIGKILL (state D). Raises ``Unable``."""
        return frozen(self, pid)

    # -- looking --------------------------------------------------------------------------------------------------

    def journal(self, unit: str | None = None, *options: str) -> str:
        """The journal's messages since the test began."""
        words = ["journalctl", "--no-pager", "--quiet", "-o", "cat", *options]
        return self.run([*words, "-u", unit] if unit else words).out

    def state(self, unit: str) -> dict[str, str]:
        """``systemctl show`` as a table."""
        lines = self.run(["systemctl", "show", unit]).out.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def pids(self, pattern: str) -> list[int]:
        """Processes whose full command line matches, as numbered inside the host."""
        return [int(word) for word in self.run(["pgrep", "-f", "--", pattern], check=False).out.split()]

    def await_pid(self, pattern: str, seconds: float = 10.0) -> int:
        """The first such process, as soon as it is there: one that was just started may not have its name yet."""
        until = time.monotonic() + seconds
        while not (found := self.pids(pattern)):
            assert time.monotonic() < until, f"{self.name}: no process {pattern!r} after {seconds:.0f} s"
            time.sleep(0.02)
        return found[0]

    def unvisited(self) -> None:
        """Takes away what the tool's earlier visits left: hosts of the bed have its agent already."""
        self.run("rm -rf /var/lib/deployer")

    # -- power ----------------------------------------------------------------------------------------------------

    def start_boot(self) -> None:
        self.machine.start()

    def finish_boot(self) -> None:
        self.machine.wait()
        self._inner_group = self._find_inner_group()

    def boot(self) -> None:
        """Boots with the disk as it is: pristine at first, and after ``power_cut`` as it was left."""
        self.start_boot()
        self.finish_boot()

    def power_cut(self) -> None:
        """All processes end at once; the disk stays."""
        self.machine.kill()

    def reboot(self) -> None:
        """An orderly reboot, as by an admin's hand."""
        self.run(["systemctl", "reboot"], check=False)
        self.await_reboot()

    def await_reboot(self) -> None:
        """Waits for a reboot that was asked for in the host, and for the boot after it."""
        self.machine.await_end()
        self.boot()

    def remember(self) -> None:
        """What the host is now is what ``reset`` brings back."""
        self.run(["systemctl", "start", "user@0.service"])
        self._baseline = Baseline(self, self.image, self.folder)

    def reset(self) -> bool:
        """As just after the boot: disk, units, processes, mounts, journal, network. False: it needs a new boot."""
        try:
            return self._baseline is not None and self._baseline.restore()
        except (CommandFailed, OSError, subprocess.TimeoutExpired):
            return False

    def wipe(self) -> None:
        """Back to a pristine disk; the host must be off."""
        for part in ("upper", "work"):
            shutil.rmtree(self.folder / part)
            (self.folder / part).mkdir()
        furnish(self)

    def delete(self) -> None:
        self.machine.kill()
        self.network.delete()
        cgroups.remove(self.group)
        shutil.rmtree(self.folder)

    def _find_inner_group(self) -> str:
        """The group that is the host's own root: where its init's ``init.scope`` lies."""
        lines = Path(f"/proc/{self.machine.leader}/cgroup").read_text().splitlines()
        paths = [line.split(":", 2)[2] for line in lines if line.split(":", 2)[1] in ("", "name=systemd")]
        self.root_group = max(paths, key=len).removesuffix("/init.scope").lstrip("/")
        group = f"{self.root_group}/bed"
        cgroups.make(group)
        return group
