"""The fault matrix: after every fault the host is whole, and the next push works.

``make faults`` runs all cases (DEPLOYER_FAULTS=all); ``make test`` a sample of 60. DEPLOYER_SEED reproduces an order.
"""

from __future__ import annotations

import json
import os
from contextlib import nullcontext

import pytest

from tests.hosts.bed import Host, Operator
from tests.hosts.faults.kinds import FAULTS, ROOM_KIB, SMALL_DISKS, Scene
from tests.hosts.faults.matrix import Case, batches
from tests.hosts.pushing import SERVICE, UNIT, Client, declare

SEED = int(os.environ.get("DEPLOYER_SEED", "20261130"))
LIMIT = None if os.environ.get("DEPLOYER_FAULTS") == "all" else 60
BATCHES = batches(SEED, 6, LIMIT)
FILES = (f"/etc/systemd/system/{SERVICE}", f"/etc/deployer/{UNIT}/sglang.yaml")


@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_faults(host: Host, operator: Operator, number: int) -> None:
    operator.env["QWEN_KEY"] = "canary-of-the-first-release"
    length = 1024
    state(operator, host, length)
    code, said = Client(operator, host).end()
    assert code == 0, said
    for case in BATCHES[number]:
        length += 64
        run_case(operator, host, case, length)


def state(operator: Operator, host: Host, length: int) -> None:
    declare(operator, args=f"context-length = {length}", deadline="45s",
            more='[secrets]\napi-key = { env = "QWEN_KEY" }')


def run_case(operator: Operator, host: Host, case: Case, length: int) -> None:
    host.run(f"rm -rf /run/fault && mkdir -p /run/fault && echo {case.point} > /run/fault/plan")
    if case.fails:
        host.sglang.behave({"when": {"context_length": length}, "fail": {"at": "weights", "how": "cuda-oom"}})
    state(operator, host, length)
    place = SMALL_DISKS.get(case.fault)
    with host.small_disk(place, kib=ROOM_KIB) if place else nullcontext():
        break_one(operator, host, case, f"{case} (seed {SEED})")
    host.sglang.behave()
    state(operator, host, length + 1)
    code, said = Client(operator, host).end()
    assert code == 0, f"{case} (seed {SEED}): the next push exited {code}\n{said}"
    nothing_left(host, f"{case} (seed {SEED})")


def break_one(operator: Operator, host: Host, case: Case, told: str) -> None:
    """A push, held at its point, broken there, healed; then what must be true."""
    client = Client(operator, host)
    host.run("for i in $(seq 600); do test -e /run/fault/reached && exit 0; sleep 0.05; done; exit 1")
    scene = Scene(host, client)
    FAULTS[case.fault](scene)
    if case.fault in ("client", "cut", "power"):
        client.process.kill()
    host.run("for i in $(seq 1200); do systemctl list-units --plain --no-legend 'deployer-push-*' | grep -q . "
             "|| exit 0; sleep 0.05; done; exit 1")
    for heal in reversed(scene.heal):
        heal()
    _, said = client.end()
    host.run("rm -rf /run/fault")
    host.run("rm -f /etc/.full /var/lib/deployer/.full")
    whole(operator, host, told + "\n" + said, dark="NOTHING SERVES" in said and case.fault == "systemctl")


def whole(operator: Operator, host: Host, told: str, dark: bool) -> None:
    """What must be true after the next contact: one release's files whole, and it serves, or was loudly reported."""
    attached = operator.deployer("attach", host.name, "-u", UNIT)
    # 130: it was cut off before anything was changed.
    assert attached.code in (0, 4, 130), f"{told}\nattach exited {attached.code}: {attached.err}"
    now = installed(host)
    number = host.read(f"/var/lib/deployer/{SERVICE}/current").strip()
    stored = {path: host.run(["cat", f"/var/lib/deployer/{SERVICE}/releases/{number}/files/{index}"]).out
              for index, path in enumerate(paths(host, number))}
    assert now == stored, f"{told}\nthe installed files are not those of release {number}"
    if dark:
        return
    # A server that was killed at the very end is restarted by systemd, after RestartSec.
    health = host.run("for i in $(seq 300); do h=$(curl -s -m 10 -o /dev/null -w '%{http_code}' "
                      "http://127.0.0.1:30000/health); test $h = 200 && break; sleep 0.1; done; echo -n $h").out
    assert host.state(SERVICE)["ActiveState"] == "active", told
    assert health == "200", f"{told}\nhealth {health}"


def nothing_left(host: Host, told: str) -> None:
    """No temporary file, no stray process, no lock."""
    left = host.run("ls -A /etc/systemd/system /etc/deployer /etc/deployer/* | grep -E 'deployer-(new|old|tmp)'; "
                    "ls -d /run/deployer-* 2>/dev/null; "
                    "for i in $(seq 200); do pgrep -f '[d]eployer/agent/' >/dev/null || exit 0; "
                    "sleep 0.05; done; pgrep -af '[d]eployer/agent/'", check=False).out
    assert left == "", f"{told}\nleft over: {left}"
    free = host.run("flock --nonblock /var/lib/deployer/lock true", check=False)
    assert free.code == 0, f"{told}\nthe lock is held"


def installed(host: Host) -> dict[str, str]:
    return {path: host.read(path) for path in FILES if host.exists(path)}


def paths(host: Host, number: str) -> list[str]:
    manifest = json.loads(host.read(f"/var/lib/deployer/{SERVICE}/releases/{number}/manifest.json"))
    return [entry["path"] for entry in manifest["files"]]
