"""A container on a hypervisor: seen from outside, blind from inside, one GPU for both."""

from __future__ import annotations

from tests.hosts.bed import Hypervisor


def test_memory_of_the_outside_is_used_without_a_process_inside(hypervisor: Hypervisor) -> None:
    container = hypervisor.container
    assert container.ssh("hostname").out.strip() == container.name
    assert hypervisor.gpu.uuids() == container.gpu.uuids()
    with hypervisor.gpu.hold({0: 5000}), container.gpu.hold({1: 7000}) as inside:
        assert hypervisor.gpu.used_mib() == container.gpu.used_mib() == [5000, 7000]
        assert [row[0] for row in container.gpu.processes()] == [inside.pid], "with its number inside"
        seen = {mib: pid for pid, _, mib in hypervisor.gpu.processes()}
        assert set(seen) == {5000, 7000}
        assert "/lxc/101/" in hypervisor.read(f"/proc/{seen[7000]}/cgroup")
        spaces = [host.run("readlink /proc/1/ns/pid").out for host in (hypervisor, container)]
        assert hypervisor.run(f"readlink /proc/{seen[7000]}/ns/pid").out == spaces[1] != spaces[0]
        hypervisor.run(["kill", "-9", str(seen[7000])])
        inside.process.wait()
        assert container.gpu.used_mib() == [5000, 0]


def test_units_run_in_the_container(hypervisor: Hypervisor) -> None:
    container = hypervisor.container
    container.run("systemd-run --unit=there gpu-hold 0=9000")
    assert container.run("systemctl is-active there").out.strip() == "active"
    container.run("until nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -q .; do sleep 0.01; done")
    [(pid, _, mib)] = hypervisor.gpu.processes()
    assert mib == 9000 and "/system.slice/there.service" in hypervisor.read(f"/proc/{pid}/cgroup")
    assert hypervisor.run("systemctl is-system-running").out.strip() == "running"
