"""Which key belongs to which section, and how often it counts.

The table (``directives.txt``) comes from systemd's own, as ``systemd --dump-configuration-items`` prints it, of 247,
252 and 257; scripts/directives.py builds it. What adds up and what replaces is from systemd.unit(5),
systemd.service(5), systemd.exec(5), systemd.resource-control(5) and load-fragment.c.
"""

from __future__ import annotations

import functools
from pathlib import Path

from deployer.protocol.records import dataclass

SERVICE_SECTIONS = ("Unit", "Service", "Install")
"""The sections of a service unit; others are ignored with a log line, ``X-`` ones silently."""

_MANY_KINDS = {"PATH[ARGUMENT[...]]", "PATH[...]", "PATH[:PATH[:OPTIONS]][...]", "ENVIRON", "FILE", "CONDITION", "URL",
               "STATUS", "SYSCALLS", "ARCHS", "NAMESPACES", "FAMILIES", "FILESYSTEMS", "BOUNDINGSET", "SECUREBITS",
               "CPUAFFINITY", "DEVICE", "DEVICEWEIGHT", "DEVICELATENCY", "BANDWIDTH", "SOCKETS", "TIMER", "REGEX",
               "SOCKET[...]"}
_MANY = {
    "Service": {"PassEnvironment", "UnsetEnvironment", "SupplementaryGroups", "TemporaryFileSystem", "RuntimeDirectory",
                "StateDirectory", "CacheDirectory", "LogsDirectory", "ConfigurationDirectory", "SetCredential",
                "SetCredentialEncrypted", "LoadCredential", "LoadCredentialEncrypted", "ImportCredential",
                "IOReadBandwidthMax", "IOWriteBandwidthMax", "IOReadIOPSMax", "IOWriteIOPSMax", "IPAddressAllow",
                "IPAddressDeny", "IPIngressFilterPath", "IPEgressFilterPath", "BPFProgram", "SocketBindAllow",
                "SocketBindDeny", "RestrictNetworkInterfaces", "DisableControllers", "LogExtraFields", "MountImages",
                "ExtensionImages", "RootImageOptions", "StandardInputText", "StandardInputData", "ExecSearchPath",
                "OpenFile", "NFTSet"},
    "Install": {"Alias", "WantedBy", "RequiredBy", "UpheldBy", "Also"},
}
_OTHER_MOUNTS = {"RequiresMountsFor", "WantsMountsFor"}

RENAMED = {
    "BindTo": "BindsTo", "PropagateReloadTo": "PropagatesReloadTo", "PropagateReloadFrom": "ReloadPropagatedFrom",
    "StartLimitInterval": "StartLimitIntervalSec", "OnFailureIsolate": "OnFailureJobMode",
    "ReadWriteDirectories": "ReadWritePaths", "ReadOnlyDirectories": "ReadOnlyPaths",
    "InaccessibleDirectories": "InaccessiblePaths", "MemoryLimit": "MemoryMax", "CPUShares": "CPUWeight",
    "StartupCPUShares": "StartupCPUWeight", "BlockIOAccounting": "IOAccounting", "BlockIOWeight": "IOWeight",
    "StartupBlockIOWeight": "StartupIOWeight", "BlockIODeviceWeight": "IODeviceWeight",
    "BlockIOReadBandwidth": "IOReadBandwidthMax", "BlockIOWriteBandwidth": "IOWriteBandwidthMax",
}
"""Old names that systemd still takes, and what to write today."""

TAKEN_IN_SERVICE = {"StartLimitInterval", "StartLimitBurst", "StartLimitAction", "FailureAction", "RebootArgument"}
"""Keys of [Unit] that systemd also takes in [Service], from the days when they stood there."""


@dataclass(frozen=True)
class Kind:
    """``value``: systemd's own word for the kind of value (BOOLEAN, SECONDS …). ``many``: assignments add up, and an
    empty one resets them. ``dependency``: they add up and cannot be reset. ``since``, ``last``: of the releases that
    were looked at (247, 252, 257)."""

    value: str = "OTHER"
    many: bool = False
    dependency: bool = False
    since: int = 247
    last: int = 257


UNKNOWN = Kind()


@functools.lru_cache(maxsize=1)
def table() -> dict[tuple[str, str], Kind]:
    """(section, key) -> kind, of all directives known."""
    found: dict[tuple[str, str], Kind] = {}
    for line in (Path(__file__).parent / "directives.txt").read_text(encoding="ascii").splitlines():
        section, key, value, since, last = line.split(" ")
        dependency = (section == "Unit" and value == "UNIT[...]") or key in _OTHER_MOUNTS
        many = value in _MANY_KINDS or key in _MANY.get(section, ())
        found[section, key] = Kind(value, many, dependency, int(since), int(last))
    return found


def kind(section: str, key: str) -> Kind:
    """The kind of a directive; a plain single value where it is not known."""
    return table().get((section, key), UNKNOWN)


def known(section: str, key: str) -> bool:
    """Whether systemd reads the key in this section; names with ``X-`` are everybody's own."""
    return key.startswith("X-") or (section, key) in table()


def home(key: str) -> str | None:
    """The section of a service unit in which the key has its effect; None where there is no such key."""
    return next((section for section in SERVICE_SECTIONS if (section, key) in table()), None)


def nearest(section: str, key: str) -> str | None:
    """What was probably meant: the same in another case, or the nearest known key of the section."""
    import difflib

    keys = [name for owner, name in table() if owner == section]
    same = next((name for name in keys if name.lower() == key.lower()), None)
    return same or next(iter(difflib.get_close_matches(key, keys, n=1, cutoff=0.75)), None)
