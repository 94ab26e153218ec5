"""The fault matrix: after every fault the host is whole, and the next push works.

``make faults`` runs all cases (DEPLOYER_FAULTS=all); ``make test`` a sample of 60. DEPLOYER_SEED gives another order,
``DEPLOYER_CASE='power@put1,cut@*-failing'`` runs these alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from tests.hosts.bed import Pool
from tests.hosts.faults.ground import Ground
from tests.hosts.faults.kinds import FAULTS, ROOM_KIB, SMALL_DISKS, Scene
from tests.hosts.faults.matrix import Case, chosen
from tests.hosts.faults.whole import ended, nothing_left, seen, wait_until, whole
from tests.hosts.pushing import ROOT, Client

SEED = int(os.environ.get("DEPLOYER_SEED", "20261130"))
LIMIT = None if os.environ.get("DEPLOYER_FAULTS") == "all" else 60
REPORTS = ROOT / ".cache" / "faults"
NAMED = [name for name in os.environ.get("DEPLOYER_CASE", "").split(",") if name]


@pytest.fixture(scope="module")
def ground(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    made = Ground(pool, tmp_path_factory.mktemp("faults"))
    yield made
    made.close()


@pytest.mark.parametrize("case", chosen(SEED, LIMIT, NAMED), ids=str)
def test_faults(ground: Ground, case: Case) -> None:
    ground.ready()
    told: list[str] = []
    try:
        run_case(ground, case, told)
    except Exception as error:
        report = "\n".join((f"{case} (seed {SEED}): {error}", *told, seen(ground.host)))
        # At once, too: the whole run takes a while, and pytest tells of failures at its end.
        REPORTS.mkdir(parents=True, exist_ok=True)
        (REPORTS / f"{case}.txt").write_text(report)
        raise AssertionError(report) from error
    ground.spoilt = False


def run_case(ground: Ground, case: Case, told: list[str]) -> None:
    host, operator = ground.host, ground.operator
    host.run(f"rm -rf /run/fault && mkdir -p /run/fault && echo {case.point} > /run/fault/plan")
    length = ground.declare()
    if case.fails:
        host.sglang.behave({"when": {"context_length": length}, "fail": {"at": "weights", "how": "cuda-oom"}})
    place = SMALL_DISKS.get(case.fault)
    with host.small_disk(place, kib=ROOM_KIB) if place else nullcontext():
        said = break_one(ground, case)
        told.append(f"-- the push that was broken said:\n{said}")
        whole(operator, host)
    host.sglang.behave()
    ground.declare()
    code, said = Client(operator, host).end()
    told.append(f"-- the next push exited {code} and said:\n{said}")
    assert code == 0, f"the next push exited {code}"
    nothing_left(host)


def break_one(ground: Ground, case: Case) -> str:
    """A push, held at its point, broken there, healed; what it said."""
    host = ground.host
    client = Client(ground.operator, host)
    try:
        wait_until(host.outside("/run/fault/reached").exists, 30, "the push does not come to its point")
        scene = Scene(host, client)
        FAULTS[case.fault](scene)
        if case.fault in ("client", "cut", "power"):
            client.process.kill()
        ended(host)
        for heal in reversed(scene.heal):
            heal()
        _, said = client.end()
    finally:
        client.process.kill()
    host.run("rm -rf /run/fault; rm -f /etc/.full /var/lib/deployer/.full")
    return said
