"""``make bench``: what a push costs, as ratios against peers in the same run. Medians of RUNS; a table at the end.

Nothing here fails on a slow machine: it prints, and whoever quotes a figure quotes this command.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.peers import prepare
from tests.hosts.bed import Host, Operator, Pool
from tests.hosts.pushing import SERVICE, UNIT, declare

RUNS = 5
COUNTS = tuple(int(count) for count in os.environ.get("DEPLOYER_BENCH_HOSTS", "1,8,32").split(","))


def median(act: Callable[[], object]) -> float:
    """Median wall time in seconds, after one run that does not count."""
    act()
    times = []
    for _ in range(RUNS):
        begun = time.monotonic()
        act()
        times.append(time.monotonic() - begun)
    return statistics.median(times)


def run(operator: Operator, words: Sequence[str]) -> None:
    done = subprocess.run(words, cwd=operator.workspace, env=operator.env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"


def deployer(*words: str) -> list[str]:
    return [sys.executable, "-m", "deployer", *words]


def row(name: str, figure: str, text: str = "") -> None:
    print(f"{name:<58} {figure:>10}  {text}", flush=True)


def test_no_op_push_against_peers(hosts: Callable[[int], list[Host]], pool: Pool, tmp_path: Path) -> None:
    every = hosts(max(COUNTS))
    operator = Operator(pool.keys, tmp_path / "home")      # its ssh_config names the hosts that are there by now
    declare(operator, version="0.5.23", python=every[0].sglang.install("0.5.23"))
    for host in every[1:]:
        host.sglang.install("0.5.23")
    names = [host.name for host in every]
    run(operator, deployer("push", *names, "-u", UNIT, "--parallel", "8"))
    print(f"\nno-op push, all checks, medians of {RUNS}:")
    ssh = median(lambda: run(operator, ["ssh", "-F", str(operator.config), "-l", "admin", names[0], "true"]))
    row("ssh HOST true", f"{ssh:.2f} s")
    for count in COUNTS:
        mine = median(lambda count=count: run(  # type: ignore[misc]
            operator, deployer("push", *names[:count], "-u", UNIT, "--parallel", "32")))
        row(f"deployer, {count} hosts", f"{mine:.2f} s", f"{mine / ssh:.2f} × ssh HOST true" if count == 1 else "")
        for peer, words in prepare(operator, every[:count]).items():
            theirs = median(lambda words=words: run(operator, words))  # type: ignore[misc]
            row(f"{peer}, {count} hosts", f"{theirs:.2f} s", f"deployer takes {mine / theirs:.2f} ×")
    memory = peak_mib(operator, deployer("push", *names, "-u", UNIT, "--parallel", "32"))
    row(f"memory of the client with {max(COUNTS)} hosts", f"{memory} MiB")


def peak_mib(operator: Operator, words: list[str]) -> int:
    """The largest resident set of one command."""
    program = "import resource, subprocess, sys; " \
        "subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL); " \
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=operator.workspace, env=operator.env,
                          capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


def test_push_with_a_change(host: Host, operator: Operator) -> None:
    """Time beyond what the server itself takes, against stop, copy and start by hand on the host."""
    declare(operator)
    run(operator, deployer("push", host.name, "-u", UNIT))
    unit = f"/etc/systemd/system/{SERVICE}"
    by_hand = median(lambda: host.run(
        f"systemctl stop {SERVICE} && cp {unit} {unit}.x && mv {unit}.x {unit} && systemctl daemon-reload && "
        f"systemctl start {SERVICE} && until curl -sf -o /dev/null http://127.0.0.1:30000/health; do sleep 0.02; done"))
    length = [1024]

    def change() -> None:
        length[0] += 8
        declare(operator, args=f"context-length = {length[0]}")
        run(operator, deployer("push", host.name, "-u", UNIT))

    mine = median(change)
    ssh = median(lambda: run(operator, ["ssh", "-F", str(operator.config), "-l", "admin", host.name, "true"]))
    print(f"\npush with a change, medians of {RUNS}:")
    row("stop, copy, start and healthy, by hand on the host", f"{by_hand:.2f} s")
    row("deployer push with a change", f"{mine:.2f} s", f"{mine - by_hand - ssh:.2f} s beyond that and ssh HOST true")
    history = operator.deployer("history", host.name, "-u", UNIT, "--json").out
    down = [entry["figures"].get("down_s") for entry in json.loads(history)["units"][0]["releases"]]
    row("downtime, from stop to start", f"{statistics.median([d for d in down if d]):.2f} s")


def test_the_agents_own_cost(host: Host, operator: Operator) -> None:
    """CPU time of the transaction's unit over a start of 60 s, children (nvidia-smi) apart."""
    host.sglang.behave({"delay": {"weights": 60.0}})
    declare(operator, deadline="3min")
    begun = time.monotonic()
    push = operator.start("push", host.name, "-u", UNIT)
    used = 0.0
    while push.poll() is None:
        said = host.run("for p in $(pgrep -f '[a]gent.*transact'); do cut -d' ' -f14,15 /proc/$p/stat; done",
                        check=False).out
        ticks = [sum(map(int, line.split())) for line in said.splitlines()]
        used = max(used, max(ticks, default=0) / 100)
        time.sleep(1.0)
    took = time.monotonic() - begun
    print(f"\nthe agent over a start of {took:.0f} s:")
    row("CPU time of the transaction itself", f"{used:.2f} s", f"{100 * used / took:.1f} % of one core")


def test_start_up(operator: Operator) -> None:
    print(f"\nstart-up of the program, medians of {RUNS}:")
    peer = median(lambda: run(operator, [sys.executable, "-c", "import click, rich.console"]))
    mine = median(lambda: run(operator, deployer("--help")))
    row("python -c 'import click, rich.console'", f"{peer:.2f} s")
    row("deployer --help", f"{mine:.2f} s", f"{mine / peer:.2f} ×")
    declare(operator)
    one = median(lambda: run(operator, deployer("render", UNIT)))
    row("deployer render of one unit", f"{one:.2f} s")
    for number in range(999):
        declare(operator, f"unit{number}")
    begun = time.monotonic()
    run(operator, deployer("render", "-o", "out"))
    row("deployer render of 1,000 units", f"{time.monotonic() - begun:.2f} s")
