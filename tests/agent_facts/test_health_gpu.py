"""Xid errors, ECC and the fabric manager: what the texts mean."""

import pytest

from deployer.agent.door import Ran
from deployer.agent.facts.health_gpu import (
    ecc_findings,
    fabric_findings,
    parse_xids,
    remap_findings,
    xid_findings,
)
from deployer.agent.facts.systemd import UnitState
from deployer.protocol.finding import Level

JOURNAL = """\
1796076000.123456 gpu1 kernel: NVRM: Xid (PCI:0000:c3:00): 79, pid='<unknown>', name=?, GPU has fallen off the bus.
1796076001.000001 gpu1 kernel: NVRM: GPU 0000:c3:00.0: GPU has fallen off the bus.
1796076002.000001 gpu1 kernel: NVRM: Xid (PCI:0000:11:00): 31, pid=812, name=python3, Ch 00000008, MMU Fault
1796076003.000001 gpu1 kernel: NVRM: Xid (PCI:0000:11:00): 31, pid=813, name=python3, Ch 00000008, MMU Fault
"""
DMESG = "[  812.104] NVRM: Xid (PCI:0000:C3:00): 48, pid=1, DBE (double bit error)\n[  900.1] usb 1-1: new device\n"


def answer(out, code=0):
    return Ran(("nvidia-smi",), code, out, "", 0.0)


def test_xids_of_the_journal_and_of_dmesg():
    lost, fault, again = parse_xids(JOURNAL)
    assert (lost.bus_id, lost.number, lost.at) == ("0000:c3:00", 79, 1796076000.123456)
    assert fault.number == again.number == 31
    assert [(xid.number, xid.at) for xid in parse_xids(DMESG)] == [(48, None)]


def test_what_needs_a_reset_is_a_warning_and_an_application_s_fault_a_note():
    fatal, note = xid_findings(parse_xids(JOURNAL))
    assert (fatal.level, note.level) == (Level.WARNING, Level.NOTE)
    assert "fallen off the bus" in fatal.message and "nvidia-smi --gpu-reset -i 0000:c3:00" in fatal.hint
    assert "(2 times)" in note.message
    assert xid_findings(()) == []


@pytest.mark.parametrize("out, codes", [
    ("0, GPU-1, 0, No\n1, GPU-2, 0, No\n", []), ("0, GPU-1, 3, No\n", ["gpu-ecc"]),
    ("0, GPU-1, 0, Yes\n", ["gpu-reset-pending"]),
    ("0, GPU-1, [N/A], [N/A]\n", []), ("No devices were found\n", []), ("", []),
    ("0, GPU-1, 00000000:11:00.0, NVIDIA L4, 23034, 9, 1, 1, [N/A], 580\n", []),
])
def test_ecc(out, codes):
    assert [finding.code for finding in ecc_findings(answer(out))] == codes


@pytest.mark.parametrize("out, code, codes", [
    ("GPU-1, 0, 0\n", 0, []), ("GPU-1, 1, 0\n", 0, ["gpu-reset-pending"]), ("GPU-1, 0, 1\n", 0, ["gpu-row-remap"]),
    ("Option --query-remapped-rows is not recognized\n", 2, []), ("GPU-1, [N/A], [N/A]\n", 0, []),
])
def test_remapped_rows(out, code, codes):
    assert [finding.code for finding in remap_findings(answer(out, code))] == codes


def test_the_fabric_manager():
    assert fabric_findings(UnitState("active", load="loaded")) == []
    (down,) = fabric_findings(UnitState("failed", load="loaded"))
    assert down.level is Level.ERROR and down.hint == "systemctl start nvidia-fabricmanager.service"
    assert "not installed" in fabric_findings(UnitState())[0].message
