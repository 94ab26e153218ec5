"""Cleaning as a part of a push: who is in the way, what is ended, and how long it takes."""

from __future__ import annotations

import json

from tests.hosts.bed import Host, Hypervisor, Operator
from tests.hosts.clean_bed import await_holders, hidden
from tests.hosts.pushing import SERVICE, declare, events, push

CLEAN_FOR_NOTHING = 0.2
"""Seconds that cleaning may cost a push with nothing to do, nvidia-smi not counted."""


def holders(host: Host) -> set[int]:
    return {pid for pid, _, _ in host.gpu.processes()}


def test_a_foreign_holder_stops_the_push_and_is_named(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    before = host.state(SERVICE)["MainPID"]
    declare(operator, args="context-length = 1024")
    with host.gpu.hold({0: 3000}) as foreign:
        said = push(operator, host, code=7)
        assert f"pid {foreign.pid} of user root, since 0 min" in said and "3,000 MiB on GPU 0" in said
        assert "deployer clean --scope all" in said, "the choices are named"
        assert host.state(SERVICE)["MainPID"] == before and foreign.pid in holders(host)
    push(operator, host)


def test_a_foreign_holder_of_another_gpu_is_not_in_the_way(host: Host, operator: Operator) -> None:
    declare(operator)
    with host.gpu.hold({1: 3000}) as foreign:
        push(operator, host)
        assert foreign.pid in holders(host)


def test_an_orphan_is_ended_in_its_scope(host: Host, operator: Operator) -> None:
    declare(operator)
    title = "exec -a sglang::scheduler_TP0 python3 -IS /usr/local/bin/gpu-hold 0=90000"
    host.run(f"(setsid bash -c '{title}' >/dev/null 2>&1 </dev/null &)")
    await_holders(host, 1)
    assert "--clean orphans" in push(operator, host, code=7)
    push(operator, host, "--clean", "orphans")
    assert host.pids("gpu-hold") == []


def test_what_a_failed_start_leaves_is_cleaned_before_the_old_one_comes_back(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    # What keeps systemd itself from ending them, as a wrapper of its own control group would.
    host.write(f"/run/systemd/system/{SERVICE}.d/kill.conf", "[Service]\nKillMode=process\n")
    host.run("systemctl daemon-reload")
    declare(operator, args="context-length = 1024")
    host.sglang.behave({"when": {"context_length": 1024}, "orphans": True, "fail": {"at": "graphs", "how": "exit"}})
    told = events(operator, host)
    assert told[-1]["outcome"] == "rolled-back", told[-1]
    steps = [event["data"]["step"] for event in told if event["event"] == "step" and event["data"]["state"] == "done"]
    assert steps.index("back-clean") < steps.index("back-start")
    assert len(holders(host)) == 1, "the old release's own rank alone"


def test_a_hidden_holder_is_ended_from_the_hypervisor_before_anything_is_stopped(
    hypervisor: Hypervisor, operator: Operator,
) -> None:
    container = hypervisor.container
    operator.write("hosts.toml", f"[hosts.{container.name}]\n"
                                 f'hypervisor = {{ host = "{hypervisor.name}", container = 101 }}\n')
    declare(operator)
    with hidden(hypervisor, f"DEPLOYER_UNIT={SERVICE}", hold="0=83501") as stale:
        said = push(operator, container)
        assert f"{hypervisor.name} is asked" in said
        assert stale not in holders(hypervisor)
        assert container.state(SERVICE)["ActiveState"] == "active"


def test_cleaning_with_nothing_to_do_costs_a_push_next_to_nothing(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    figures = []
    for length in (1024, 2048, 3072):
        declare(operator, args=f"context-length = {length}")
        told = events(operator, host)
        steps = [event["data"] for event in told if event["event"] == "step" and event["data"]["state"] == "done"]
        (clean,) = [step for step in steps if step["step"] == "clean"]
        assert clean["text"] == "nothing to end", clean
        figures.append(clean["seconds"] - clean["cleaned"]["asked"])
    print(json.dumps({"clean seconds without nvidia-smi": [round(figure, 3) for figure in figures]}))
    assert min(figures) <= CLEAN_FOR_NOTHING
