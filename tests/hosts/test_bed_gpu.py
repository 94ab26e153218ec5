"""The simulated GPU tells the truth about processes, and a real driver's bad answers when it is told to."""

from __future__ import annotations

import subprocess

import pytest

from tests.hosts.bed import Host
from tests.hosts.bed.frozen import FREEZER

QUERY = ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]


def test_memory_is_held_exactly_as_long_as_its_holder_lives(host: Host) -> None:
    with host.gpu.hold({0: 5000}) as right, host.gpu.hold({1: 7000}) as wrong:
        assert host.gpu.used_mib() == [5000, 7000]
        assert [row[0] for row in host.gpu.processes()] == [right.pid, wrong.pid]
        host.run(["kill", "-9", str(wrong.pid)])
        wrong.process.wait()
        assert host.gpu.used_mib() == [5000, 0], "ending the wrong process frees nothing of the other's"
        assert f" {right.pid}" in host.run("fuser /dev/nvidia0").out
    assert host.gpu.used_mib() == [0, 0]


def test_every_user_sees_the_processes(host: Host) -> None:
    with host.gpu.hold({0: 5000}) as holding:
        out = host.ssh("nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader", user="ops").out
        assert out == f"{holding.pid}, 5000 MiB\n"
        assert "5000MiB" in host.run(["nvidia-smi"]).out
        assert host.run(["nvidia-smi", "-L"]).out.count("UUID: GPU-") == 2


def test_memory_stays_while_the_driver_tears_down(host: Host) -> None:
    host.gpu.switch(teardown={"queries": 2})
    with host.gpu.hold({0: 5000}):
        assert host.gpu.used_mib() == [5000, 0]
    assert [host.gpu.used_mib()[0] for _ in range(3)] == [5000, 5000, 0]


def test_bad_days(host: Host) -> None:
    host.gpu.answer("Failed to initialize NVML: Driver/library version mismatch\n", 18)
    said = host.run(QUERY, check=False)
    assert (said.code, said.out) == (18, "Failed to initialize NVML: Driver/library version mismatch\n")
    host.gpu.switch(hang=["query-gpu"], deaf=True)
    hung = host.popen(QUERY)
    pid = host.run("until ls /run/gpu/hung 2>/dev/null; do sleep 0.01; done").out.strip()
    host.run(f"kill -TERM {pid}; kill -0 {pid}; kill -KILL {pid}")
    assert hung.wait() != 0 and hung.communicate() == ("", "")
    assert host.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]).code == 0
    host.gpu.switch(lost=[0], fields={"1": {"memory.used": "[N/A]"}})
    said = host.run(QUERY, check=False)
    assert said.code == 15 and "GPU0: 0000:11:00.0: GPU is lost" in said.out and "1, [N/A]\n" in said.out
    host.gpu.switch(hidden={"0": 83501})
    assert host.gpu.used_mib() == [83501, 0] and host.gpu.processes() == []
    host.gpu.switch()
    assert host.gpu.used_mib() == [0, 0]


needs_freezer = pytest.mark.skipif(not FREEZER.is_dir(), reason="no freezer of control groups v1")


@needs_freezer
def test_a_holder_that_cannot_be_ended(host: Host) -> None:
    with host.gpu.hold({0: 5000}) as holding:
        with host.unkillable(holding.pid):
            host.run(["kill", "-9", str(holding.pid)])
            assert host.run(f"cut -d' ' -f3 /proc/{holding.pid}/stat").out.strip() == "D"
            assert host.gpu.used_mib() == [5000, 0]
        holding.process.wait()
        assert host.gpu.used_mib() == [0, 0]


@needs_freezer
def test_nvidia_smi_that_cannot_be_ended(host: Host) -> None:
    with host.gpu.hang_in_the_kernel():
        hung = host.popen(QUERY)
        pid = host.run("until ls /run/gpu/hung 2>/dev/null; do sleep 0.01; done").out.strip()
        host.run(f"until grep -q 'State:.D' /proc/{pid}/status; do sleep 0.01; done; kill -KILL {pid}")
        with pytest.raises(subprocess.TimeoutExpired):
            hung.wait(0.3)
    hung.communicate()
    assert host.gpu.used_mib() == [0, 0]
