"""Random process layouts on a real host: what is ended equals what an independent oracle says, and nothing foreign.

A sample runs with the other tests; ``DEPLOYER_LAYOUTS=1000`` sets how many layouts are tried.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts.bed import Host, Operator
from tests.hosts.clean_bed import result
from tests.hosts.clean_layouts.oracle import OURS, STRANGERS, TARGET, Layout, config, layout, places, to_end

BUILD = Path(__file__).with_name("clean_layouts") / "build.py"
LAYOUTS = int(os.environ.get("DEPLOYER_LAYOUTS", "120"))
BATCH = 40
SEED = int(os.environ.get("DEPLOYER_LAYOUTS_SEED", "0"))


@contextmanager
def built(host: Host, layouts: list[Layout], invocations: dict[str, str]) -> Iterator[dict[int, tuple[int, int]]]:
    """The layouts' processes; pid and start time by id."""
    host.run("rm -rf /run/layouts")
    builder = host.popen(["python3", "/root/build.py"])
    assert builder.stdin and builder.stdout
    builder.stdin.write(json.dumps([dict(config(one.top, invocations), kept=one.kept) for one in layouts]))
    builder.stdin.close()
    try:
        told = json.loads(builder.stdout.readline())
        assert "missing" not in told, told
        yield {int(one): (pid, start) for one, (pid, start) in told.items()}
    finally:
        builder.kill()
        host.run("pkill -9 -f build.py", check=False)
        subprocess.Popen.wait(builder)


def living(host: Host, known: dict[int, tuple[int, int]]) -> set[int]:
    """The ids whose very process still lives."""
    pids = " ".join(str(pid) for pid, _ in known.values())
    out = host.run(f"for p in {pids}; do cat /proc/$p/stat 2>/dev/null; done", check=False).out
    alive = set()
    for line in out.splitlines():
        fields = line.rpartition(")")[2].split()
        if fields[0] not in "ZX":
            alive.add((int(line.split()[0]), int(fields[19])))
    return {one for one, key in known.items() if key in alive}


def sessions(host: Host) -> tuple[str, str, str, subprocess.Popen[str]]:
    """Control groups of a login session that is open, of one that is closing, and of the account's manager."""
    host.ssh("nohup sleep 10001 >/dev/null 2>&1 </dev/null &", user="admin")
    command = ["ssh", "-F", str(host.keys.config), "-l", "admin", host.name, "echo ready; exec sleep 10002"]
    open_one = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert open_one.stdout and open_one.stdout.readline() == "ready\n"
    paths = []
    for name in ("10002", "10001"):
        text = host.read(f"/proc/{host.await_pid(f'^sleep {name}')}/cgroup")
        match = re.search(r"(/user\.slice/user-(\d+)\.slice/session-\w+\.scope)", text)
        assert match, text
        paths.append(match.group(1))
        user = f"/user.slice/user-{match.group(2)}.slice/user@{match.group(2)}.service"
    return paths[0], paths[1], user, open_one


def prepare(host: Host, live: set[str]) -> dict[str, str]:
    """The units, those in ``live`` running; their present INVOCATION_IDs."""
    for name in (*OURS, *STRANGERS):
        host.write(f"/etc/systemd/system/{name}", "[Service]\nKillMode=process\nExecStart=/bin/sleep 100000\n")
    kept = " ".join(f"/var/lib/deployer/{name}" for name in OURS)
    host.run(f"systemctl daemon-reload; mkdir -p -m 700 /var/lib/deployer; mkdir -p {kept}")
    host.run("systemctl stop " + " ".join((*OURS, *STRANGERS)))
    host.run("systemctl start " + " ".join(sorted(live)))
    return {name: host.state(name)["InvocationID"] for name in live}


def test_what_is_ended_is_what_the_oracle_says(host: Host, operator: Operator) -> None:
    host.write("/root/build.py", BUILD.read_text())
    rng = random.Random(SEED)
    tried = ended = spared = 0
    session, closing, user, open_one = sessions(host)
    try:
        where = places(session, closing, user)
        while tried < LAYOUTS:
            live = {"third.service", "vllm.service"} | ({TARGET} if rng.random() < 0.3 else set())
            scope, unit = rng.choice((("own", TARGET), ("own", None), ("orphans", TARGET), ("orphans", None)))
            invocations = prepare(host, live)
            layouts = [layout(rng, where, 100 * number) for number in range(min(BATCH, LAYOUTS - tried))]
            with built(host, layouts, invocations) as known:
                words = ["clean", host.name, "--scope", scope, "--json", *(["--unit", unit] if unit else [])]
                said = operator.deployer(*words)
                alive = living(host, known)
                expected = set().union(*(to_end(one, live, scope, unit) for one in layouts))
                there = {one.id for each in layouts for one in each.processes() if not one.leaves}
                told = f"seed {SEED}, after {tried} layouts, scope {scope} of {unit}, live {sorted(live)}"
                wrong = describe(layouts, (there - alive) ^ expected, known)
                assert there - alive == expected, f"{told}:\n{wrong}\n{result(said)['text']}\n{said.err}"
            tried += len(layouts)
            ended += len(expected)
            spared += len(alive)
    finally:
        open_one.kill()
        open_one.wait()
    assert ended > tried / 10 and spared > tried / 10, "the layouts are no trial of anything"
    print(f"{tried} layouts: {ended} processes ended, {spared} spared")


def describe(layouts: list[Layout], ids: set[int], known: dict[int, tuple[int, int]]) -> str:
    lines = []
    for each in layouts:
        if ids & {one.id for one in each.processes()}:
            lines += [f"  {one} {'WRONG' if one.id in ids else ''} {known.get(one.id)} kept={each.kept}"
                      for one in each.processes()]
    return "\n".join(lines[:40])


@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_has_opinions_of_every_kind(seed: int) -> None:
    rng = random.Random(seed)
    user = "/user.slice/user-1.slice"
    where = places(f"{user}/session-1.scope", f"{user}/session-2.scope", f"{user}/user@1.service")
    counts = [len(to_end(layout(rng, where, 0), {TARGET}, "orphans", TARGET)) for _ in range(300)]
    assert 0 in counts and max(counts) > 1
