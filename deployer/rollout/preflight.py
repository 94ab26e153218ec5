"""Settings, rendered release and the host's facts -> findings. Pure: nothing is asked, nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from deployer.protocol.codec import Unknown
from deployer.protocol.facts import Facts, Gpu
from deployer.protocol.finding import Finding, Level, in_order
from deployer.render.model import Release
from deployer.rollout import drift, in_the_way
from deployer.rollout.units import argument
from deployer.settings.model import UnitSettings
from deployer.sglang import checkpoint, fits

SYSTEMD_NEEDED = 247
"""LoadCredential=; systemd's release notes."""
DISK_NEEDED = 64 << 20


def judge(settings: UnitSettings, release: Release, facts: Facts, *, overwrite_drift: bool = False,
          scope: str | None = None, hypervisor: str | None = None) -> list[Finding]:
    """Everything that speaks against this release on this host, each with its place in the settings and in that order.

    ``scope``: how far this push cleans, where not as declared. ``hypervisor``: the host's, by name.
    """
    found = [
        *_systemd(facts), *_version(settings, facts), *_disk(facts), *_port(settings, release, facts),
        *_gpus(settings, facts), *_holders(settings, facts, scope, hypervisor), *_memory(settings, facts),
        *_checkpoint(settings, facts),
        *(() if overwrite_drift else _drift(settings, release, facts)), *facts.findings,
    ]
    placed = [finding.at(settings.spans.where(finding.key)) if settings.spans and finding.key else finding
              for finding in found]
    return in_order(placed)


def _systemd(facts: Facts) -> Iterator[Finding]:
    version = facts.host.systemd
    if isinstance(version, Unknown):
        yield Finding("systemd-unknown", Level.ERROR, f"the host's systemd did not answer: {version.reason}")
    elif version < SYSTEMD_NEEDED:
        yield Finding("systemd-too-old", Level.ERROR,
                      f"the host runs systemd {version}, at least {SYSTEMD_NEEDED} is needed for LoadCredential=")


def _version(settings: UnitSettings, facts: Facts) -> Iterator[Finding]:
    installed, key = facts.sglang, (settings.program if settings.program == "router" else "sglang", "version")
    if isinstance(installed, Unknown):
        yield Finding("sglang-unknown", Level.WARNING,
                      f"the release in the environment is not known: {installed.reason}", key=key)
        return
    declared = settings.sglang
    try:
        specifier = SpecifierSet(declared if declared[:1] in "<>=!~" else f"=={declared}")
        fits = specifier.contains(Version(installed), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        fits = installed == declared
    if not fits:
        yield Finding("sglang-version", Level.ERROR,
                      f"the host has SGLang {installed}, the settings declare {declared}", key=key,
                      hint=f'declare version = "{installed}", or install the declared release on the host')


def _disk(facts: Facts) -> Iterator[Finding]:
    for path, free in facts.host.free_disk.items():
        if path in ("/var/lib", "/etc") and free < DISK_NEEDED:
            yield Finding("disk-full", Level.ERROR, f"only {free >> 20} MiB are free under {path} on the host",
                          hint=f"free at least {DISK_NEEDED >> 20} MiB there")


def _port(settings: UnitSettings, release: Release, facts: Facts) -> Iterator[Finding]:
    port = release.expectations.port
    if port is None or isinstance(facts.sockets, Unknown):
        return
    for socket in facts.sockets:
        if socket.port == port and socket.unit != settings.unit:
            owner = socket.unit or (f"pid {socket.pid} ({socket.command})" if socket.pid else "an unseen process")
            yield Finding("port-held", Level.ERROR, f"port {port} is held by {owner}", key=("args", "port"),
                          hint=f"declare another port, or stop {owner}")
            return


def meant(settings: UnitSettings, facts: Facts) -> list[Gpu]:
    """The GPUs that the settings mean, of those that the host has."""
    devices = settings.gpu.devices
    if devices is None:
        return []
    if devices == "all":
        return list(facts.gpus.gpus)
    return [gpu for gpu in facts.gpus.gpus if gpu.index in devices or gpu.uuid in devices]


def _gpus(settings: UnitSettings, facts: Facts) -> Iterator[Finding]:
    devices = settings.gpu.devices
    if devices is None:
        return
    for error in facts.gpus.errors:
        if error.code in ("insufficient-permissions", "partial") and facts.gpus.gpus:
            yield Finding(f"gpu-{error.code}", Level.WARNING, error.words,
                          key=("gpu",))
        else:
            yield Finding(f"gpu-{error.code}", Level.ERROR, error.words, key=("gpu",),
                          hint="run nvidia-smi on the host; declare `devices = \"none\"` for a server without GPUs"
                          if error.code == "no-driver" else "run nvidia-smi on the host")
    if not facts.gpus.gpus:
        if not facts.gpus.errors:
            yield Finding("no-gpus", Level.ERROR, "the host shows no GPU", key=("gpu", "devices"))
        return
    known = {gpu.index for gpu in facts.gpus.gpus} | {gpu.uuid for gpu in facts.gpus.gpus}
    missing = [str(device) for device in devices if device not in known] if isinstance(devices, tuple) else []
    if missing:
        yield Finding("gpu-missing", Level.ERROR, f"the host has no GPU {', '.join(missing)}", key=("gpu", "devices"),
                      hint="deployer gpus lists them")
    needed = _int(argument(settings, "tp-size"), 1) * _int(argument(settings, "pp-size"), 1)
    nodes = _int(argument(settings, "nnodes"), 1)
    here = len(meant(settings, facts))
    if not missing and needed // max(nodes, 1) > here:
        yield Finding("too-few-gpus", Level.ERROR,
                      f"tp-size × pp-size needs {needed // max(nodes, 1)} GPUs here, the unit has {here}",
                      key=("args", "tp-size"))


def _holders(settings: UnitSettings, facts: Facts, scope: str | None, hypervisor: str | None) -> Iterator[Finding]:
    if isinstance(facts.holders, Unknown):
        if settings.gpu.devices is not None:
            yield Finding("holders-unknown", Level.WARNING, f"GPU holders are not known: {facts.holders.reason}")
        return
    gpus = {gpu.uuid: gpu.index for gpu in meant(settings, facts)}
    yield from in_the_way.judge(facts.holders, gpus, settings.unit, scope or settings.gpu.clean, hypervisor)


def _memory(settings: UnitSettings, facts: Facts) -> Iterator[Finding]:
    size, total = argument(settings, "hicache-size"), facts.host.memory_total
    if size is None or isinstance(total, Unknown):
        return
    ranks = _int(argument(settings, "tp-size"), 1) * _int(argument(settings, "pp-size"), 1)
    ranks //= max(_int(argument(settings, "nnodes"), 1), 1)
    wanted = int(float(str(size)) * 1e9) * ranks
    if wanted > total - (10 << 30):
        yield Finding("hicache-too-big", Level.ERROR,
                      f"hicache-size {size} GB × {ranks} ranks pins {wanted / 1e9:.0f} GB, "
                      f"the host has {total / 1e9:.0f} GB in all", key=("args", "hicache-size"),
                      hint=f"at most {max(0, int((total - (10 << 30)) / ranks / 1e9))} per rank")


def _checkpoint(settings: UnitSettings, facts: Facts) -> Iterator[Finding]:
    """What the checkpoint's own files say against the arguments: a KV dtype that would change silently, above all."""
    texts = {text.path.rpartition("/")[2]: text.text for text in facts.texts if isinstance(text.text, str)}
    if settings.program != "sglang" or not texts:
        return
    release = facts.sglang if isinstance(facts.sglang, str) else lowest(settings.sglang)
    if release is None:
        return
    try:
        found = checkpoint.read(texts)
    except checkpoint.NoCheckpoint as error:
        yield Finding("no-checkpoint", Level.WARNING, f"the model's folder on the host: {error}",
                      key=("args", "model-path"))
        return
    yield from fits.judge(settings.args, found, release)


def lowest(declared: str) -> str | None:
    """The oldest release that is declared; None where none of the known ones is meant."""
    from deployer.sglang.catalogue import catalogue
    from deployer.sglang.version import Unreadable, is_release

    if is_release(declared):
        return declared
    try:
        return next(iter(catalogue().matching(declared)), None)
    except Unreadable:
        return None


def _drift(settings: UnitSettings, release: Release, facts: Facts) -> Iterator[Finding]:
    if not facts.unit.drift:
        return
    declared = drift.taken_over(settings, release, facts)
    hint = ("the settings declare it by now: push --overwrite-drift" if declared else
            "deployer diff shows it; deployer adopt takes it over; push --overwrite-drift discards it")
    for finding in facts.unit.drift:
        yield Finding(finding.code, Level.ERROR, finding.message, hint=hint)


def _int(value: Any, default: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return default
