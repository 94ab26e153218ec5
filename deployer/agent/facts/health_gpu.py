"""Whether the GPUs are well: Xid errors in the kernel log, uncorrected ECC errors, the fabric manager.

Xid numbers and what to do: NVIDIA, "XID Errors", GPU Deployment and Management documentation.
"""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple, Union

from deployer.agent.door import Ran, run
from deployer.agent.facts.systemd import UnitState, states
from deployer.protocol import patterns, records
from deployer.protocol.codec import Unknown
from deployer.protocol.finding import Finding, Level

ECC_QUERY = (
    "nvidia-smi", "--query-gpu=index,uuid,ecc.errors.uncorrected.volatile.total,retired_pages.pending",
    "--format=csv,noheader,nounits",
)
ROWS_QUERY = (
    "nvidia-smi", "--query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure",
    "--format=csv,noheader,nounits",
)
RECENT = 24 * 3600.0
"""Seconds: older Xid errors were lived with."""

_KEY = ("gpu", "devices")
FABRIC_UNIT = "nvidia-fabricmanager.service"
_SWITCHES = "/proc/driver/nvidia-nvswitch/devices"
_XID = patterns.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)(?:, (.*))?")
_SHORT_UNIX = patterns.compile(r"^(\d+\.\d+)\s")

FATAL: Dict[int, str] = {
    46: "the GPU stopped processing", 48: "an uncorrectable double bit error",
    61: "a fault of the GPU's microcontroller", 62: "a fault of the GPU's microcontroller",
    64: "a failure to retire bad memory", 74: "an NVLink error",
    79: "the GPU has fallen off the bus", 95: "an uncontained memory error", 109: "a context switch that timed out",
    119: "its system processor (GSP) does not answer", 120: "an error of its system processor (GSP)",
    136: "a failed link training", 140: "an unrecovered ECC error", 143: "a failed GPU initialization",
    154: "a GPU that asks for a reset",
}
"""Xid errors after which the GPU needs a reset, a reboot or a technician."""


@records.dataclass(frozen=True)
class Xid:
    """One error line of the driver's. ``at`` in epoch seconds, None where the log has no time."""

    bus_id: str
    number: int
    text: str
    at: Optional[float] = None

    def __str__(self) -> str:
        return "Xid {} on {}".format(self.number, self.bus_id)


def recent_xids() -> Union[Tuple[Xid, ...], Unknown]:
    """Xid errors of this boot, of the last day, oldest first; Unknown where the kernel log may not be read."""
    since = "--since=-{}s".format(int(RECENT))
    ran = run(["journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-unix", "-g", "NVRM: Xid", since], timeout=10)
    if ran.code in (0, 1) and "not seeing messages" not in ran.err and "No journal files" not in ran.err:
        found = parse_xids(ran.out)
        if found or _kernel_lines():
            return found
    other = run(["dmesg"], timeout=10)
    return parse_xids(other.out) if other.ok and other.out else Unknown("the kernel log may not be read: " + other.said)


def parse_xids(text: str) -> Tuple[Xid, ...]:
    """Xid lines of ``journalctl -o short-unix`` or ``dmesg``."""
    found = []
    for line in text.splitlines():
        match = _XID.search(line)
        if match:
            at = _SHORT_UNIX.match(line)
            when = float(at.group(1)) if at else None
            found.append(Xid(match.group(1), int(match.group(2)), (match.group(3) or "").strip(), when))
    return tuple(found)


def gpu_health() -> Tuple[Finding, ...]:
    """Findings for preflight; an error is what no start survives. What cannot be asked is left out."""
    xids = recent_xids()
    ecc = run(ECC_QUERY, timeout=15)
    findings = list(xid_findings(xids)) if not isinstance(xids, Unknown) else []
    findings += ecc_findings(ecc)
    if ecc.ok:
        findings += remap_findings(run(ROWS_QUERY, timeout=15))
    if _has_switches():
        state = states([FABRIC_UNIT])
        if not isinstance(state, Unknown):
            findings += fabric_findings(state.get(FABRIC_UNIT, UnitState()))
    return tuple(findings)


def xid_findings(xids: Tuple[Xid, ...]) -> List[Finding]:
    """One finding for each GPU and number: a warning for what needs a reset, else a note (an application's fault).

    No error: it may have been reset since, and one that is unusable now does not answer nvidia-smi either.
    """
    counted: Dict[Tuple[str, int], List[Xid]] = {}
    for xid in xids:
        counted.setdefault((xid.bus_id, xid.number), []).append(xid)
    findings = []
    for (bus_id, number), group in counted.items():
        fatal = FATAL.get(number)
        times = "" if len(group) == 1 else " ({} times)".format(len(group))
        what = fatal or (group[-1].text or "an error of an application's")
        findings.append(Finding(
            "gpu-xid", Level.WARNING if fatal else Level.NOTE,
            "GPU {} reported Xid {}{} in the last 24 h: {}".format(bus_id, number, times, what), _KEY,
            hint="reset it with nothing running on it (nvidia-smi --gpu-reset -i {}), or reboot the host".format(bus_id)
            if fatal else "",
        ))
    return findings


def ecc_findings(ran: Ran) -> List[Finding]:
    """From the answer to ``ECC_QUERY``; GPUs without ECC and other answers say nothing."""
    findings = []
    for line in ran.out.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 4 or not fields[0].isdigit():
            continue
        if fields[2].isdigit() and int(fields[2]):
            message = "GPU {} has {} uncorrected ECC error(s) since it was last reset".format(fields[0], fields[2])
            hint = "reset it (nvidia-smi --gpu-reset -i {0}), look at nvidia-smi -q -d ECC -i {0}".format(fields[0])
            findings.append(Finding("gpu-ecc", Level.WARNING, message, _KEY, hint=hint))
        if fields[3].lower() == "yes":
            findings.append(_pending(fields[0], "memory pages to retire"))
    return findings


def remap_findings(ran: Ran) -> List[Finding]:
    """From the answer to ``ROWS_QUERY`` (Ampere and later)."""
    findings = []
    for line in ran.out.splitlines() if ran.ok else ():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3:
            continue
        if fields[2].isdigit() and int(fields[2]):
            message = "GPU {} could not remap a bad row of memory".format(fields[0])
            hint = "run NVIDIA's field diagnostics: the GPU may have to be replaced"
            findings.append(Finding("gpu-row-remap", Level.WARNING, message, _KEY, hint=hint))
        elif fields[1].isdigit() and int(fields[1]):
            findings.append(_pending(fields[0], "rows of memory to remap"))
    return findings


def fabric_findings(state: UnitState) -> List[Finding]:
    """For a machine with NVSwitches: without its fabric manager, CUDA fails with error 802."""
    if state.active == "active":
        return []
    known = state.load == "loaded"
    hint = "systemctl start {}".format(FABRIC_UNIT) if known else "install the fabric manager of the driver's release"
    return [Finding(
        "fabric-manager", Level.ERROR,
        "this machine has NVSwitches, and {} is {}: CUDA will not start (error 802)".format(
            FABRIC_UNIT, state.active if known else "not installed"), _KEY,
        hint=hint,
    )]


def _pending(gpu: str, what: str) -> Finding:
    message = "GPU {} waits for a reset: {}".format(gpu, what)
    hint = "reset it before the next long run: nvidia-smi --gpu-reset -i {}".format(gpu)
    return Finding("gpu-reset-pending", Level.WARNING, message, _KEY, hint=hint)


def _has_switches() -> bool:
    """Seen by the host that owns them; a container without them has its fabric kept from outside."""
    try:
        return bool(os.listdir(_SWITCHES))
    except OSError:
        return False


def _kernel_lines() -> bool:
    """Whether the journal has kernel messages of this boot at all: none is no proof of health."""
    return bool(run(["journalctl", "-k", "-b", "-q", "--no-pager", "-n", "1", "-o", "cat"], timeout=10).out.strip())
