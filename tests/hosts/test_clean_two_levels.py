"""A host inside a host: what holds memory out of the inner one's sight is ended from the outer one, nothing else."""

from __future__ import annotations

import json

import pytest

from tests.hosts.bed import Hypervisor, Operator
from tests.hosts.clean_bed import UNIT, await_holders, hidden, result


@pytest.fixture
def declared(hypervisor: Hypervisor, operator: Operator) -> Hypervisor:
    """The operator knows which hypervisor the container runs on."""
    operator.write("hosts.toml", f"[hosts.{hypervisor.container.name}]\n"
                                 f'hypervisor = {{ host = "{hypervisor.name}", container = 101 }}\n')
    return hypervisor


def other_container(hypervisor: Hypervisor, hold: str) -> int:
    """A holder in container 102, with a PID namespace of its own; its pid on the hypervisor."""
    hypervisor.run(
        "for h in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do if [ -e $h/cgroup.procs ]; then "
        "mkdir -p $h/lxc/102; echo $$ > $h/lxc/102/cgroup.procs; fi; done; "
        f"(DEPLOYER_UNIT={UNIT} setsid unshare --pid --fork --mount-proc gpu-hold {hold} >/dev/null 2>&1 </dev/null &)")
    await_holders(hypervisor, 1)
    return max(hypervisor.pids(f"gpu-hold {hold}"))


def alive(hypervisor: Hypervisor) -> set[int]:
    return {pid for pid, _, _ in hypervisor.gpu.processes()}


def test_a_hidden_holder_is_ended_from_the_hypervisor_and_nobody_else(declared: Hypervisor, operator: Operator) -> None:
    name = declared.container.name
    with hidden(declared, f"DEPLOYER_UNIT={UNIT}", hold="0=83501") as stale, declared.gpu.hold({1: 4000}) as outers_own:
        neighbour = other_container(declared, "0=2000")
        await_holders(declared, 3)
        told = json.loads(operator.deployer("gpus", name, "--json").out)
        assert {holder["class"] for holder in told["holders"]} == {"hidden"}, told["holders"]
        said = operator.deployer("clean", name, "--unit", UNIT, "--gpu", "0", "--dry-run")
        assert said.code == 0, said.err
        assert f"pid {stale} (" in said.err and "inside)" in said.err, "both pids are named"
        assert f"pid {neighbour} " not in said.err and f"pid {outers_own.pid} " not in said.err
        said = operator.deployer("clean", name, "--unit", UNIT, "--gpu", "0", "--json", "--yes")
        told = result(said)
        assert [one["holder"]["pid"] for one in told["hypervisor"]["ended"]] == [stale], said.out + said.err
        assert told["cleaned"]["ended"] == []
        assert alive(declared) == {neighbour, outers_own.pid}
        # The neighbour's 2,000 MiB stay, out of sight of the container: it says so instead of calling the GPU free.
        assert said.code == 1 and told["cleaned"]["held"][0]["used_mib"] == 2000


def test_an_unproven_hidden_holder_stays_unless_the_scope_reaches_it(declared: Hypervisor, operator: Operator) -> None:
    name = declared.container.name
    with hidden(declared, "X=1", hold="0=83501") as stale:
        said = operator.deployer("clean", name, "--unit", UNIT, "--scope", "orphans", "--json")
        assert result(said)["hypervisor"]["ended"] == [] and said.code == 1
        assert alive(declared) == {stale}
        said = operator.deployer("clean", name, "--scope", "all", "--gpu", "0", "--yes", "--json")
        assert [one["holder"]["pid"] for one in result(said)["hypervisor"]["ended"]] == [stale], said.out + said.err
        assert said.code == 0 and declared.gpu.used_mib() == [0, 0]


def test_what_may_be_of_a_live_unit_inside_is_spared(declared: Hypervisor, operator: Operator) -> None:
    """Marked, and its unit runs inside: not told apart from the unit's own processes."""
    container = declared.container
    container.write(f"/etc/systemd/system/{UNIT}", "[Service]\nExecStart=/bin/sleep 10000\n")
    container.run(f"systemctl daemon-reload; systemctl start {UNIT}")
    with hidden(declared, f"DEPLOYER_UNIT={UNIT}", hold="0=83501") as stale:
        said = operator.deployer("clean", container.name, "--unit", UNIT, "--json")
        assert result(said)["hypervisor"]["ended"] == [] and said.code == 1
        assert alive(declared) == {stale}


def test_a_container_inside_the_container_is_a_descendant_and_a_stranger_is_not(
    declared: Hypervisor, operator: Operator,
) -> None:
    """One PID namespace further in counts as inside; the container's control group alone does not."""
    name = declared.container.name
    inside = declared.container.run
    inside("(setsid unshare --pid --fork gpu-hold 0=7000 >/dev/null 2>&1 </dev/null &)")
    await_holders(declared, 1)
    (nested,) = alive(declared)
    for pid in declared.container.pids("gpu-hold 0=7000"):
        inside(f"mount -t tmpfs hidden /proc/{pid}")
    declared.run("for h in /sys/fs/cgroup/unified /sys/fs/cgroup/systemd /sys/fs/cgroup; do "
                 "g=$h/lxc/101/payload/cgroup.procs; if [ -e $g ]; then echo $$ > $g; fi; done; "
                 "(setsid gpu-hold 0=6000 >/dev/null 2>&1 </dev/null &)")
    await_holders(declared, 2)
    (stranger,) = alive(declared) - {nested}
    said = operator.deployer("clean", name, "--scope", "all", "--gpu", "0", "--yes", "--json")
    assert [one["holder"]["pid"] for one in result(said)["hypervisor"]["ended"]] == [nested], said.out + said.err
    assert alive(declared) == {stranger}


def test_without_a_declared_hypervisor_it_says_what_to_do(hypervisor: Hypervisor, operator: Operator) -> None:
    with hidden(hypervisor, f"DEPLOYER_UNIT={UNIT}", hold="0=83501") as stale:
        said = operator.deployer("clean", hypervisor.container.name, "--unit", UNIT)
        assert said.code == 1 and "hosts.toml" in said.err and "PID namespace" in said.err, said.err
        assert alive(hypervisor) == {stale}
