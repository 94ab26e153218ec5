"""What the agent found out about a host. Each value is known or ``Unknown(reason)``."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union

from deployer.protocol import records
from deployer.protocol.codec import Unknown
from deployer.protocol.finding import Finding
from deployer.protocol.holder import Holder

NOT_ASKED = Unknown("not asked")


@records.dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi tells it; memory in MiB; None: not known, never 0."""

    index: int
    uuid: str
    name: Optional[str] = None
    bus_id: Optional[str] = None
    memory_total_mib: Optional[int] = None
    memory_used_mib: Optional[int] = None
    memory_free_mib: Optional[int] = None
    utilization: Optional[int] = None
    mig: Optional[bool] = None
    driver: Optional[str] = None


@records.dataclass(frozen=True)
class ComputeApp:
    """One row of --query-compute-apps."""

    pid: int
    gpu_uuid: Optional[str]
    name: Optional[str]
    used_mib: Optional[int]


@records.dataclass(frozen=True)
class GpuError:
    """What nvidia-smi could not tell: ``code`` as in tests' cases README (driver-mismatch, hang, partial ...)."""

    code: str
    message: str = ""
    bus_id: Optional[str] = None

    @property
    def words(self) -> str:
        """For people; nvidia-smi often names itself."""
        text = self.message or self.code
        return text if text.lower().startswith("nvidia-smi") else "nvidia-smi: " + text


@records.dataclass(frozen=True)
class GpuReading:
    """Both queries of nvidia-smi, read together."""

    gpus: Tuple[Gpu, ...] = ()
    processes: Tuple[ComputeApp, ...] = ()
    errors: Tuple[GpuError, ...] = ()


@records.dataclass(frozen=True)
class HostFacts:
    """The machine itself. Sizes in bytes."""

    hostname: str
    boot_id: str
    kernel: str
    os_name: str
    systemd: Union[int, Unknown]
    python: str
    memory_total: Union[int, Unknown]
    memory_available: Union[int, Unknown]
    free_disk: Dict[str, int] = records.field(default_factory=dict)
    local_ports: Union[str, Unknown] = ""          # net.ipv4.ip_local_port_range, "32768 60999"
    virtualization: str = ""                       # systemd-detect-virt


@records.dataclass(frozen=True)
class InstalledFile:
    """A file of the unit's as it stands on the host; ``text`` is None where it is absent or not readable as text.

    Environment files carry no text, only the digest: they may hold secrets.
    """

    path: str
    digest: str                                    # sha256 hex of the bytes, "" where absent
    mode: int = 0
    owner: str = ""
    text: Optional[str] = None


@records.dataclass(frozen=True)
class UnitFacts:
    """The unit as systemd and the store know it.

    ``state`` holds properties of ``systemctl show``. ``current`` is the number of the release that the store calls
    current (None: never pushed); ``digest`` its digest; ``drift`` the findings about hand edits, ``pushed`` the files
    that these concern as the release set them (none for a file that was added by hand).
    """

    name: str
    state: Dict[str, str]
    files: Tuple[InstalledFile, ...] = ()
    current: Optional[int] = None
    digest: str = ""
    drift: Tuple[Finding, ...] = ()
    releases: Tuple[Dict[str, Any], ...] = ()      # manifests, oldest first, without secrets
    pushed: Tuple[InstalledFile, ...] = ()


@records.dataclass(frozen=True)
class Socket:
    """A listening TCP socket and its owner."""

    address: str
    port: int
    pid: Optional[int] = None
    unit: Optional[str] = None
    command: str = ""


@records.dataclass(frozen=True)
class TextFile:
    """A small file of the host's that was asked for (config.json ...)."""

    path: str
    text: Union[str, Unknown]


@records.dataclass(frozen=True)
class TransactionFacts:
    """A transaction under way, or the last one that was interrupted."""

    id: str
    unit: str
    number: int
    step: str
    since: float
    who: str = ""
    source: str = ""
    running: bool = False


@records.dataclass(frozen=True)
class Facts:
    """All that a push asks of a host before it judges."""

    host: HostFacts
    unit: UnitFacts
    gpus: GpuReading
    holders: Union[Tuple[Holder, ...], Unknown]
    sockets: Union[Tuple[Socket, ...], Unknown]
    texts: Tuple[TextFile, ...] = ()
    sglang: Union[str, Unknown] = NOT_ASKED
    transaction: Optional[TransactionFacts] = None
    findings: Tuple[Finding, ...] = ()             # of checks that only the host can make (users, paths, probe)
    weights_bytes: Union[int, Unknown] = NOT_ASKED
