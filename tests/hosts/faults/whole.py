"""What must be true of a host after every fault: looked at from outside, with no help of the product's own words."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.hosts.bed import Host, Operator
from tests.hosts.pushing import SERVICE, UNIT

FILES = (f"/etc/systemd/system/{SERVICE}", f"/etc/deployer/{UNIT}/sglang.yaml")
LENGTH = re.compile(r"--context-length[ =](\d+)")
STORE = f"/var/lib/deployer/{SERVICE}"

LOOK = f"""
put() {{ for f in "$@"; do test -e "$f" && echo "$f $(base64 -w 0 <"$f") ."; done; }}
put {" ".join(FILES)} {STORE}/current {STORE}/record.jsonl
n=$(cat {STORE}/current) && put {STORE}/releases/$n/manifest.json {STORE}/releases/$n/files/*
"""

# A server that was killed at the very end is restarted by systemd, after RestartSec.
SERVES = f"""
for i in $(seq 300); do
    health=$(curl -s -m 10 -o /dev/null -w '%{{http_code}}' http://127.0.0.1:30000/health)
    test $health = 200 && break; sleep 0.1
done
echo $health; systemctl is-active {SERVICE}
tr '\\0' ' ' </proc/$(systemctl show -P MainPID {SERVICE})/cmdline
"""

LEFT = """
ls -A /etc/systemd/system /etc/deployer /etc/deployer/* | grep -E 'deployer-(new|old|tmp)'
find /var/lib/deployer -name '.*deployer-*' -o -name '*.staging' -o -name '*.new'
ls -d /run/deployer-* 2>/dev/null
for i in $(seq 200); do pgrep -f '[d]eployer/agent/' >/dev/null || break; sleep 0.05; done
pgrep -af '[d]eployer/agent/'
for p in $(pgrep -f '[s]glang'); do grep -q qwen.service /proc/$p/cgroup || ps -o pid=,args= $p; done
flock --nonblock /var/lib/deployer/lock true || echo the lock is held
true
"""


@dataclass(frozen=True)
class Disk:
    """What lies on a host's disk of the unit: ``files`` by path."""

    files: dict[str, bytes]

    @property
    def ended(self) -> bool:
        """Whether the last transaction says that it came to its end."""
        lines = self.files[f"{STORE}/record.jsonl"].partition(b"\0")[0].splitlines()
        return any(json.loads(line)["what"] == "end" for line in lines)

    @property
    def number(self) -> str:
        return self.files[f"{STORE}/current"].decode().strip()

    def installed(self) -> dict[str, bytes]:
        return {path: self.files[path] for path in FILES if path in self.files}

    def stored(self) -> dict[str, bytes]:
        """The files of the current release, by the path where they belong."""
        home = f"{STORE}/releases/{self.number}"
        manifest: dict[str, Any] = json.loads(self.files[f"{home}/manifest.json"])
        return {entry["path"]: self.files[f"{home}/files/{index}"] for index, entry in enumerate(manifest["files"])}


def disk(host: Host) -> Disk:
    lines = [line.split(" ") for line in host.run(LOOK).out.splitlines()]
    return Disk({path: base64.b64decode(text) for path, text, _ in lines})


def wait_until(true: Callable[[], object], seconds: float, words: str) -> None:
    """Fails with ``words`` when it does not become true in time."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, words
        time.sleep(0.02)


def ended(host: Host) -> None:
    """Returns when no transaction is there any more, and none that systemd would start again."""
    transient = host.outside("/run/systemd/transient")
    wait_until(lambda: not list(transient.glob("deployer-push-*")), 60, "a transaction still runs after a minute")


def whole(operator: Operator, host: Host) -> None:
    """One release's files are whole, and it serves: by the host alone; at the next contact where it could not end."""
    found = disk(host)
    if not found.ended:
        attached = operator.deployer("attach", host.name, "-u", UNIT)
        # 130: it was cut off before anything was changed.
        assert attached.code in (0, 4, 130), f"attach exited {attached.code}: {attached.err}"
        found = disk(host)
        assert found.ended, f"attach left the record open: {attached.err}"
    assert found.installed() == found.stored(), f"the installed files are not those of release {found.number}"
    health, active, command = host.run(SERVES, timeout=90).out.split("\n", 2)
    assert (health, active) == ("200", "active")
    declared = LENGTH.search(found.installed()[FILES[0]].decode())
    running = LENGTH.search(command)
    assert declared and running and declared[1] == running[1], f"not what the unit says runs: {command}"


def nothing_left(host: Host) -> None:
    """No temporary file, no process of the agent or of an earlier server, no lock."""
    left = host.run(LEFT).out
    assert left == "", f"left over: {left}"


def seen(host: Host) -> str:
    """For the report of a failure: what the host says of itself."""
    commands = (f"cat {STORE}/record.jsonl | tr -d '\\0'", f"cat {STORE}/current",
                f"grep -ao '\"outcome\":[^,]*' {STORE}/releases/*/manifest.json",
                "ls -lA /etc/systemd/system /etc/deployer/*", f"systemctl status --no-pager -n 0 {SERVICE}",
                "systemctl list-units --all --plain --no-legend 'deployer-*'", "ps -eo pid,ppid,lstart,args --forest",
                "journalctl --no-pager -q -n 120 -o short-precise", "date --iso-8601=ns")
    if not host.machine.running:
        return "the host is off"
    return "\n".join(f"$ {text}\n{host.run(text, check=False).out}" for text in commands)
