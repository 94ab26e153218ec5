"""What must be true of a host after every fault: looked at from outside, with no help of the product's own words."""

from __future__ import annotations

import json
import re
import time

from tests.hosts.bed import Host, Operator
from tests.hosts.pushing import SERVICE, UNIT, argv

FILES = (f"/etc/systemd/system/{SERVICE}", f"/etc/deployer/{UNIT}/sglang.yaml")
STORE = f"/var/lib/deployer/{SERVICE}"


def whole(operator: Operator, host: Host) -> None:
    """After the next contact one release's files are whole, and it serves: also where nothing could before."""
    attached = operator.deployer("attach", host.name, "-u", UNIT)
    # 130: it was cut off before anything was changed.
    assert attached.code in (0, 4, 130), f"attach exited {attached.code}: {attached.err}"
    installed = {path: host.read(path) for path in FILES if host.exists(path)}
    number = host.read(f"{STORE}/current").strip()
    manifest = json.loads(host.read(f"{STORE}/releases/{number}/manifest.json"))
    stored = {entry["path"]: host.read(f"{STORE}/releases/{number}/files/{index}")
              for index, entry in enumerate(manifest["files"])}
    assert installed == stored, f"the installed files are not those of release {number}"
    serving(host, installed[FILES[0]])


def serving(host: Host, unit: str) -> None:
    """It answers, and what runs is what the unit file says."""
    # A server that was killed at the very end is restarted by systemd, after RestartSec.
    health = host.run("for i in $(seq 300); do h=$(curl -s -m 10 -o /dev/null -w '%{http_code}' "
                      "http://127.0.0.1:30000/health); test $h = 200 && break; sleep 0.1; done; echo -n $h").out
    assert host.state(SERVICE)["ActiveState"] == "active"
    assert health == "200"
    declared = re.search(r"--context-length[ =](\d+)", unit)
    words = argv(host)
    assert declared and words[words.index("--context-length") + 1] == declared[1], words


def nothing_left(host: Host) -> None:
    """No temporary file, no process of the agent or of an earlier server, no lock."""
    left = host.run("ls -A /etc/systemd/system /etc/deployer /etc/deployer/* | grep -E 'deployer-(new|old|tmp)'; "
                    "find /var/lib/deployer -name '.*deployer-*' -o -name '*.staging' -o -name '*.new'; "
                    "ls -d /run/deployer-* 2>/dev/null; "
                    "for i in $(seq 200); do pgrep -f '[d]eployer/agent/' >/dev/null || exit 0; "
                    "sleep 0.05; done; pgrep -af '[d]eployer/agent/'", check=False).out
    assert left == "", f"left over: {left}"
    stray = host.run("for p in $(pgrep -f '[s]glang'); do grep -q qwen.service /proc/$p/cgroup || ps -o pid=,args= $p; "
                     "done", check=False).out
    assert stray == "", f"servers outside the unit: {stray}"
    free = host.run("flock --nonblock /var/lib/deployer/lock true", check=False)
    assert free.code == 0, "the lock is held"


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


def ended(host: Host, seconds: float = 60.0) -> None:
    """Returns when no transaction runs any more."""
    until = time.monotonic() + seconds
    while host.run("systemctl list-units --plain --no-legend 'deployer-push-*'").out.strip():
        assert time.monotonic() < until, f"a transaction still runs after {seconds:.0f} s"
        time.sleep(0.05)
