"""What speaks against a release on a host: from facts alone, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.protocol import records
from deployer.protocol.codec import Unknown
from deployer.protocol.expectations import Expectations
from deployer.protocol.facts import Facts, Gpu, GpuError, GpuReading, HostFacts, Socket, UnitFacts
from deployer.protocol.finding import Finding, Level
from deployer.protocol.holder import Holder, HolderClass
from deployer.render.model import Release
from deployer.rollout.preflight import judge
from deployer.settings.model import GpuSettings, UnitSettings, Venv
from deployer.settings.workspace import Workspace

SETTINGS = UnitSettings("q", Venv("/opt/sglang/.venv/bin/python"), "0.5.9", args={"port": 30000, "tp-size": 2})
RELEASE = Release("q.service", (), (), {}, "d", Expectations(port=30000))
HOST = HostFacts("gpu1", "b", "6", "Debian", 252, "3.11", 64 << 30, 60 << 30, {"/etc": 1 << 30, "/var/lib": 1 << 30})
GPUS = GpuReading((Gpu(0, "GPU-a", memory_total_mib=97887), Gpu(1, "GPU-b", memory_total_mib=97887)))
GOOD = Facts(HOST, UnitFacts("q.service", {}), GPUS, (), (), sglang="0.5.9")


def codes(facts: Facts, settings: UnitSettings = SETTINGS) -> list[tuple[str, str]]:
    return [(finding.code, finding.level.value) for finding in judge(settings, RELEASE, facts)]


def test_nothing_against_it() -> None:
    assert codes(GOOD) == []


def change(**changes: object) -> Facts:
    return records.replace(GOOD, **changes)  # type: ignore[arg-type]


HOLDER = Holder(7, 1, 1, "ada", ("python", "train.py"), "/user.slice", session="session-3.scope",
                memory={"GPU-b": 5000}, compute=True, holder_class=HolderClass.FOREIGN,
                proof="login session session-3.scope")


@pytest.mark.parametrize(("facts", "expected"), [
    (change(host=records.replace(HOST, systemd=246)), [("systemd-too-old", "error")]),
    (change(host=records.replace(HOST, systemd=Unknown("no answer"))), [("systemd-unknown", "error")]),
    (change(host=records.replace(HOST, free_disk={"/etc": 1})), [("disk-full", "error")]),
    (change(sglang="0.5.8"), [("sglang-version", "error")]),
    (change(sglang=Unknown("two releases")), [("sglang-unknown", "warning")]),
    (change(sockets=(Socket("0.0.0.0", 30000, 5, "other.service"),)), [("port-held", "error")]),
    (change(sockets=(Socket("0.0.0.0", 30000, 5, "q.service"),)), []),
    (change(gpus=GpuReading((), (), (GpuError("no-driver"),))), [("gpu-no-driver", "error")]),
    (change(gpus=GpuReading(GPUS.gpus[:1])), [("too-few-gpus", "error")]),
    (change(gpus=records.replace(GPUS, errors=(GpuError("partial"),))), [("gpu-partial", "warning")]),
    (change(holders=(HOLDER,)), [("foreign-holder", "error")]),
    (change(holders=(records.replace(HOLDER, holder_class=HolderClass.SYSTEM),)), []),
    (change(holders=(records.replace(HOLDER, holder_class=HolderClass.OWN, unit="q.service"),)), []),
    (change(holders=Unknown("not root")), [("holders-unknown", "warning")]),
    (change(findings=(Finding("user-missing", Level.ERROR, "x"),)), [("user-missing", "error")]),
])
def test_each_on_its_own(facts: Facts, expected: list[tuple[str, str]]) -> None:
    assert codes(facts) == expected


def test_all_at_once_errors_first() -> None:
    facts = change(sglang=Unknown("?"), host=records.replace(HOST, systemd=240), holders=(HOLDER,))
    assert codes(facts) == [("systemd-too-old", "error"), ("foreign-holder", "error"), ("sglang-unknown", "warning")]


def test_a_specifier_is_checked_against_the_installed_release() -> None:
    loose = records.replace(SETTINGS, sglang=">=0.5.4,<0.6")
    assert codes(change(sglang="0.5.23"), loose) == []
    assert codes(change(sglang="0.5.3"), loose) == [("sglang-version", "error")]


def test_a_cpu_unit_needs_no_driver() -> None:
    cpu = records.replace(SETTINGS, gpu=GpuSettings(devices=None))
    assert codes(change(gpus=GpuReading((), (), (GpuError("no-driver"),))), cpu) == []


def test_pinned_memory_of_all_ranks_against_the_host() -> None:
    wanted = records.replace(SETTINGS, args={**SETTINGS.args, "hicache-size": 48})
    assert codes(GOOD, wanted) == [("hicache-too-big", "error")]


def test_foreign_holder_on_gpus_that_are_not_meant() -> None:
    other = records.replace(SETTINGS, gpu=GpuSettings(devices=(0,)), args={"tp-size": 1})
    assert codes(change(holders=(HOLDER,)), other) == []


@pytest.mark.parametrize(("error", "words"), [
    (GpuError("no-driver", "nvidia-smi: No such file or directory"), "nvidia-smi: No such file or directory"),
    (GpuError("driver-mismatch", "NVIDIA-SMI has failed"), "NVIDIA-SMI has failed"),
    (GpuError("hang", "no answer within 10 s"), "nvidia-smi: no answer within 10 s"),
    (GpuError("hang"), "nvidia-smi: hang"),
])
def test_nvidia_smi_is_named_once(error: GpuError, words: str) -> None:
    found = judge(SETTINGS, RELEASE, change(gpus=GpuReading((), (), (error,))))
    assert [finding.message for finding in found] == [words]


def test_findings_stand_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "q.toml").write_text(
        '[args]\nmodel-path = "/m"\ntp-size = 4\nport = 30000\n\n[sglang]\nversion = "0.5.9"\npython = "/p"\n\n'
        '[gpu]\ndevices = [0, 1, 7]\n')
    settings = Workspace(tmp_path).load_unit("q").settings
    assert settings is not None
    facts = change(sglang="0.5.8", sockets=(Socket("0.0.0.0", 30000, 5, "other.service"),),
                   host=records.replace(HOST, free_disk={"/etc": 1}))
    found = judge(settings, RELEASE, facts)
    assert [finding.code for finding in found] == ["disk-full", "port-held", "sglang-version", "gpu-missing"]
    assert [finding.where.line if finding.where else None for finding in found] == [None, 4, 7, 11]
