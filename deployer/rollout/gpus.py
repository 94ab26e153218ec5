"""What a host tells of its GPUs and of who holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.agent.clean.hidden import SLACK_MIB
from deployer.protocol.codec import from_plain
from deployer.protocol.facts import GpuError, GpuReading
from deployer.protocol.finding import Finding, Level
from deployer.protocol.holder import Holder, HolderClass
from deployer.protocol.records import dataclass, replace
from deployer.rollout.contact import Contact
from deployer.settings.model import Host

HELP: Mapping[str, str] = {
    "driver-mismatch": "the driver was updated under its loaded kernel module: reboot, or reload the nvidia modules",
    "no-devices": "the driver runs and has no GPU: look at lspci and the kernel log; in a container, pass the GPUs in",
    "no-driver": "install or load the NVIDIA driver (modprobe nvidia); in a container, pass the driver's tools in",
    "gpu-lost": "the GPU has fallen off the bus: reboot the host; if it comes again, look at power and slot",
    "unknown-error": "look at the kernel log (journalctl -k -g NVRM); a reset or a reboot usually helps",
    "err-field": "the GPU answers in part only: look at the kernel log (journalctl -k -g NVRM)",
    "insufficient-permissions": "ask as root to see all",
    "hang": "the driver hangs: look for Xid errors (journalctl -k -g Xid) and processes in D state; a reboot ends it",
}
"""What helps, by error code."""


@dataclass(frozen=True)
class Held:
    """One holder and how ``clean`` treats it: ``scope`` is the narrowest that ends it, None: none does."""

    holder: Holder
    scope: str | None
    act: str
    reason: str


@dataclass(frozen=True)
class Gpus:
    """One host's answer. ``containers`` maps "docker ID" to its name; ``root``: the agent may see all processes."""

    reading: GpuReading
    holders: tuple[Held, ...] = ()
    findings: tuple[Finding, ...] = ()
    containers: Mapping[str, str] | None = None
    root: bool = True


def readable(host: Host) -> Host:
    """The host as it can be looked at: reading needs no root on this machine, so it asks for no password."""
    return replace(host, become="none") if host.local else host


def ask(contact: Contact) -> Gpus:
    """Raises HostError."""
    reply = contact.call("gpus", {})
    reading = from_plain(GpuReading, reply["reading"])
    holders = tuple(Held(from_plain(Holder, one["holder"]), one["scope"], one["act"], one["reason"])
                    for one in reply["holders"])
    findings = [finding(error) for error in reading.errors]
    findings += [from_plain(Finding, one) for one in reply["findings"]]
    if reply.get("note"):
        findings.append(Finding("units-unknown", Level.WARNING, f"units cannot be asked: {reply['note']}",
                                hint="holders in units then count as live, and nothing of them is ended"))
    return Gpus(reading, holders, tuple(findings), dict(reply.get("containers") or {}), bool(reply.get("root", True)))


def finding(error: GpuError) -> Finding:
    """An error of nvidia-smi's in words, with what helps."""
    grave = error.code not in ("partial", "insufficient-permissions")
    where = f" ({error.bus_id})" if error.bus_id and error.bus_id not in error.message else ""
    return Finding(error.code, Level.ERROR if grave else Level.WARNING, (error.message or error.code) + where,
                   hint=HELP.get(error.code, ""))


def plain(answer: Gpus) -> dict[str, Any]:
    """The JSON form. ``errors`` hold codes, and the bus id where a message names it; words are in ``findings``."""
    reading = answer.reading
    return {
        "gpus": [{
            "index": gpu.index, "uuid": gpu.uuid or None, "name": gpu.name, "memory_total_mib": gpu.memory_total_mib,
            "memory_used_mib": gpu.memory_used_mib, "memory_free_mib": gpu.memory_free_mib, "mig": gpu.mig,
        } for gpu in reading.gpus],
        "processes": [{
            "pid": app.pid, "gpu_uuid": app.gpu_uuid, "name": app.name, "used_mib": app.used_mib,
        } for app in reading.processes],
        "errors": [{"code": error.code, **({"bus_id": error.bus_id} if error.bus_id else {})}
                   for error in reading.errors],
        "driver": next((gpu.driver for gpu in reading.gpus if gpu.driver), None),
        "details": {gpu.uuid: {"bus_id": gpu.bus_id, "utilization": gpu.utilization, "driver": gpu.driver}
                    for gpu in reading.gpus if gpu.uuid},
        "holders": [_holder(held, answer) for held in answer.holders],
        "findings": [{"code": one.code, "level": one.level.value, "message": one.message, "hint": one.hint}
                     for one in answer.findings],
    }


def _holder(held: Held, answer: Gpus) -> dict[str, Any]:
    one = held.holder
    return {
        "pid": one.pid or None, "start": one.start or None, "since": one.since, "user": one.user or None,
        "argv": list(one.argv), "class": one.holder_class.value, "proof": one.proof, "live": one.live, "unit": one.unit,
        "container": one.container, "container_name": (answer.containers or {}).get(one.container or ""),
        "session": one.session, "cgroup": one.cgroup, "state": one.state, "pids": list(one.ns_pids),
        "parents": [{"pid": parent.pid, "start": parent.start, "command": parent.command} for parent in one.parents],
        "memory": one.memory, "compute": one.compute, "devices": list(one.devices),
        "clean": {"scope": held.scope, "act": held.act, "reason": held.reason},
    }


def whose(holder: Holder, containers: Mapping[str, str] | None = None) -> str:
    """Whom a holder belongs to, in a word or two."""
    if holder.holder_class is HolderClass.HIDDEN:
        return "not visible from here"
    if holder.container:
        name = (containers or {}).get(holder.container)
        return f"{holder.container} ({name})" if name else holder.container
    return holder.unit or holder.session or f"user {holder.user}"


def idle(used: int | None) -> bool:
    """Whether so little is in use (MiB) that nobody need hold it."""
    return used is not None and used < SLACK_MIB
