"""``deployer clean`` on a real host: what is ended, what is spared, and what it says."""

from __future__ import annotations

import time

from tests.hosts.bed import Host, Operator
from tests.hosts.clean_bed import UNIT, await_holders, ended, events, leave, result


def holders(host: Host) -> list[int]:
    return sorted(pid for pid, _, _ in host.gpu.processes())


def test_leftovers_of_a_stopped_unit_are_ended_and_nothing_else(host: Host, operator: Operator) -> None:
    with host.gpu.hold({1: 3000}) as foreign:
        leave(host, UNIT, "0=5000", "1=6000")
        ours = [pid for pid in holders(host) if pid != foreign.pid]
        said = operator.deployer("clean", host.name, "--dry-run")
        assert said.code == 0 and len(holders(host)) == 3 and "would end 2 processes" in said.err
        said = operator.deployer("clean", host.name, "--unit", UNIT, "--json")
        assert said.code == 0, said.err
        assert ended(said) == ours and holders(host) == [foreign.pid]
        assert host.gpu.used_mib() == [0, 3000]
        again = operator.deployer("clean", host.name, "--unit", UNIT, "--json")
        assert again.code == 0 and result(again)["outcome"] == "nothing-to-do"


def test_a_running_unit_is_spared_in_own_and_orphans(host: Host, operator: Operator) -> None:
    leave(host, UNIT, "0=5000", stop=False)
    for scope in ("own", "orphans"):
        said = operator.deployer("clean", host.name, "--unit", UNIT, "--scope", scope, "--json")
        assert said.code == 0 and ended(said) == [] and len(holders(host)) == 1
    assert host.state(UNIT)["ActiveState"] == "active"


def test_sessions_also_closing_ones_are_foreign(host: Host, operator: Operator) -> None:
    look_alike = "bash -c 'exec -a sglang::scheduler_TP0 python3 -IS /usr/local/bin/gpu-hold 0=4000'"
    host.ssh(f"DEPLOYER_UNIT={UNIT} nohup {look_alike} >/dev/null 2>&1 </dev/null &", user="admin")
    host.ssh(f"tmux new-session -d \"{look_alike.replace('0=4000', '1=4000')}\"", user="admin")
    await_holders(host, 2)
    before = holders(host)
    said = operator.deployer("clean", host.name, "--scope", "orphans", "--json")
    assert said.code == 0 and ended(said) == [] and holders(host) == before
    reasons = [one["reason"] for one in result(said)["cleaned"]["spared"]]
    assert len(reasons) == 2 and all("session" in reason for reason in reasons), reasons


def test_an_orphan_is_ended_with_its_family_in_its_own_scope_only(host: Host, operator: Operator) -> None:
    title = "exec -a sglang::scheduler_TP0 python3 -IS /usr/local/bin/gpu-hold 0=4000"
    main = f"({title} & exec -a sglang::detokenizer sleep 10000)"
    host.run(f"(setsid bash -c '{main}' >/dev/null 2>&1 </dev/null &)")
    await_holders(host, 1)
    assert result(operator.deployer("clean", host.name, "--json"))["outcome"] == "nothing-to-do"
    said = operator.deployer("clean", host.name, "--scope", "orphans", "--json")
    assert said.code == 0 and holders(host) == [] and host.pids("^sglang::") == [], said.out


def test_all_is_refused_without_a_yes_and_named_gpus(host: Host, operator: Operator) -> None:
    with host.gpu.hold({0: 3000}) as first, host.gpu.hold({1: 3000}) as second:
        for words in ([], ["--yes"], ["--gpu", "0"]):
            said = operator.deployer("clean", host.name, "--scope", "all", *words)
            assert said.code == 7 and "--gpu" in said.err, said.err
        assert holders(host) == sorted([first.pid, second.pid])
        said = operator.deployer("clean", host.name, "--scope", "all", "--yes", "--gpu", "1", "--json")
        assert said.code == 0 and ended(said) == [second.pid] and holders(host) == [first.pid]
        said = operator.deployer("clean", host.name, "--scope", "all", "--yes", "--gpu", "9")
        assert said.code == 7 and "no GPU 9" in said.err


def test_all_stops_the_unit_and_not_its_process(host: Host, operator: Operator) -> None:
    host.write("/etc/systemd/system/other.service",
               "[Service]\nExecStart=gpu-hold 0=5000\nRestart=always\nRestartSec=50ms\n")
    host.run("systemctl daemon-reload; systemctl start other")
    await_holders(host, 1)
    said = operator.deployer("clean", host.name, "--scope", "all", "--yes", "--gpu", "0", "--json")
    assert said.code == 0, said.err
    assert result(said)["cleaned"]["ended"][0]["how"] == "systemctl stop other.service"
    assert host.state("other.service")["ActiveState"] == "inactive" and holders(host) == []


def test_a_unit_that_restarts_again_and_again_is_stopped(host: Host, operator: Operator) -> None:
    host.write(f"/etc/systemd/system/{UNIT}", (
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nKillMode=process\nRestart=always\nRestartSec=30\n"
        f"Environment=DEPLOYER_UNIT={UNIT}\nExecStart=/bin/bash -c 'setsid gpu-hold 0=5000 & sleep 0.5; exit 1'\n"))
    host.run(f"systemctl daemon-reload; systemctl start {UNIT}")
    await_holders(host, 1)
    until = time.monotonic() + 10
    while host.state(UNIT)["SubState"] != "auto-restart":
        assert time.monotonic() < until
        time.sleep(0.05)
    said = operator.deployer("clean", host.name, "--unit", UNIT, "--json")
    assert said.code == 0, said.err
    assert host.state(UNIT)["ActiveState"] in ("inactive", "failed") and holders(host) == []


def test_one_that_ignores_sigterm_is_killed(host: Host, operator: Operator) -> None:
    leave(host, UNIT, "0=5000 --ignore-term")
    said = operator.deployer("clean", host.name, "--json", timeout=60)
    assert said.code == 0 and holders(host) == []
    (one,) = result(said)["cleaned"]["ended"]
    assert one["how"] == "SIGKILL" and 10.0 <= one["seconds"] < 11.0
    assert [event["data"]["signal"] for event in events(said, "signal")] == ["SIGTERM", "SIGKILL"]


def test_one_that_cannot_be_killed_is_said_as_such(host: Host, operator: Operator) -> None:
    leave(host, UNIT, "0=5000")
    (pid,) = holders(host)
    with host.unkillable(pid):
        said = operator.deployer("clean", host.name, "--deadline", "14")
        assert said.code == 1, said.err
        assert f"pid {pid} waits in the kernel" in said.err and "reboot" in said.err, said.err
    until = time.monotonic() + 10
    while holders(host):
        assert time.monotonic() < until, "once the driver lets go, the signal that it was sent ends it"
        time.sleep(0.05)


def test_the_driver_s_teardown_is_waited_for(host: Host, operator: Operator) -> None:
    host.gpu.switch(teardown={"seconds": 2.0})
    leave(host, UNIT, "0=5000")
    said = operator.deployer("clean", host.name, "--json")
    assert said.code == 0 and host.gpu.used_mib() == [0, 0]
    cleaned = result(said)["cleaned"]
    begun = time.monotonic()
    host.run(["nvidia-smi"])
    took = time.monotonic() - begun
    print(f"free {cleaned['waited'] - 2.0:.2f} s after the driver, one nvidia-smi takes {took:.2f} s")
    # Two questions at most lie between: the one that was under way, and the one that finds it free.
    assert 2.0 <= cleaned["waited"] < 2.0 + 0.3 + 2 * max(cleaned["asked"], took), cleaned


def test_memory_that_nobody_holds_is_told_and_not_called_free(host: Host, operator: Operator) -> None:
    host.gpu.switch(hidden={"0": 83501})
    said = operator.deployer("clean", host.name)
    assert said.code == 1, said.err
    assert "83,501 MiB of GPU 0 is still held" in said.err and "PID namespace" in said.err
    assert "hypervisor" in said.err, "what to do is said"


def test_nvidia_smi_hangs_and_the_processes_are_ended_all_the_same(host: Host, operator: Operator) -> None:
    leave(host, UNIT, "0=5000")
    host.gpu.switch(hang=True, deaf=True)
    begun = time.monotonic()
    said = operator.deployer("clean", host.name, "--json")
    assert time.monotonic() - begun < 60
    host.gpu.switch()
    assert len(ended(said)) == 1 and holders(host) == []
    assert any("no answer" in error or "does not answer" in error for error in result(said)["cleaned"]["errors"])


def test_a_list_without_the_holder_does_not_hide_it(host: Host, operator: Operator) -> None:
    """nvidia-smi shows no processes, as inside a container: the open device still does."""
    leave(host, UNIT, "0=5000")
    host.gpu.switch(no_processes=True)
    said = operator.deployer("clean", host.name, "--json")
    assert said.code == 0 and len(ended(said)) == 1
    assert host.gpu.used_mib() == [0, 0]


def test_another_s_leftovers_need_the_wider_scope(host: Host, operator: Operator) -> None:
    leave(host, "other.service", "0=5000")
    leave(host, UNIT, "1=6000")
    said = operator.deployer("clean", host.name, "--unit", UNIT, "--json")
    assert said.code == 0 and len(ended(said)) == 1 and host.gpu.used_mib() == [5000, 0]
    said = operator.deployer("clean", host.name, "--unit", UNIT, "--scope", "orphans", "--json")
    assert said.code == 0 and host.gpu.used_mib() == [0, 0]


def test_a_push_under_way_keeps_others_from_cleaning(host: Host, operator: Operator) -> None:
    leave(host, UNIT, "0=5000")
    host.run("mkdir -p -m 700 /var/lib/deployer")
    lock = host.popen(["flock", "/var/lib/deployer/lock", "sleep", "30"])
    try:
        until = time.monotonic() + 5
        while host.run("flock -n /var/lib/deployer/lock true", check=False).code == 0:
            assert time.monotonic() < until
        assert operator.deployer("clean", host.name).code == 6
        assert operator.deployer("clean", host.name, "--dry-run").code == 0
    finally:
        lock.kill()
        lock.communicate()
