"""What is declared, as frozen values: everything past the loader works with these, never with a bare dict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from deployer.protocol.finding import Where
from deployer.protocol.records import dataclass, field

ArgValue = str | int | float | bool | list[Any] | dict[str, Any]
DirectiveValue = str | int | float | bool | list[str | int | float | bool]


class WrittenFloat(float):
    """A float that keeps how it was written ("1e-3"), so that a command line shows what the admin wrote."""

    written: str

    def __new__(cls, written: str | float) -> WrittenFloat:
        number = super().__new__(cls, written)
        number.written = str(written).replace("_", "")
        return number


class Spans(Protocol):
    """Where a key stands in the TOML file."""

    def where(self, key: tuple[str, ...]) -> Where:
        """The place of ``key``, or of its nearest ancestor that is written down."""
        ...


@dataclass(frozen=True)
class SecretRef:
    """Where a secret is, never the secret. Exactly one of the three is set; ``file`` is absolute."""

    file: Path | None = None
    env: str | None = None
    command: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Venv:
    """SGLang in a virtual environment of the host's: ``python`` is the interpreter's absolute path there."""

    python: str


@dataclass(frozen=True)
class Container:
    """SGLang in a container image: refused in words until it is built."""

    image: str


Runtime = Venv | Container


@dataclass(frozen=True)
class GpuSettings:
    """``devices``: None = none declared (CPU), "all", indices or UUIDs. ``clean``: none, own, orphans or all."""

    devices: str | tuple[int | str, ...] | None = "all"
    clean: str = "own"


@dataclass(frozen=True)
class PromptSettings:
    text: str
    expect: str | None = None
    max_tokens: int = 16


@dataclass(frozen=True)
class LoadSettings:
    requests: int
    concurrency: int = 4
    tokens: int = 64
    max_fall: float | None = None


@dataclass(frozen=True)
class VerifySettings:
    """Times in seconds, memory in MiB. ``outside``: False, True, or a URL to ask from the operator's machine.

    ``restart``: a push without changes starts a unit anew that is not good.
    """

    deadline: float = 1200.0
    stall: float = 300.0
    settle: float = 10.0
    drain: float = 120.0
    min_total_tokens: int | None = None
    min_gpu_memory_free_mib: int | None = None
    gpu_memory_used_mib: int | None = None
    prompt: PromptSettings | None = None
    load: LoadSettings | None = None
    outside: bool | str = False
    restart: bool = True


@dataclass(frozen=True)
class WatchSettings:
    """A small health check on the host after the push: restarts the unit after ``misses`` in a row. Seconds."""

    interval: float = 30.0
    misses: int = 4
    timeout: float = 25.0


@dataclass(frozen=True)
class Hook:
    """A command on the operator's machine. ``on_failure``: "stop" (before only) or "warn". ``timeout`` in seconds."""

    command: tuple[str, ...]
    timeout: float = 60.0
    on_failure: str = "stop"


@dataclass(frozen=True)
class HookSettings:
    before: tuple[Hook, ...] = ()
    after: tuple[Hook, ...] = ()


@dataclass(frozen=True)
class UnitSettings:
    """``units/NAME.toml``. ``args`` keep the admin's spelling of names without leading dashes, values as in TOML.

    ``sglang`` is the declared release or specifier, as written. ``directives`` are the sections Unit, Service,
    Install as declared. ``allow_secrets_in_argv`` is the declared consent of DESIGN section 9 (before 0.5.3).
    ``program`` is "sglang" or "router".
    """

    name: str
    runtime: Runtime
    sglang: str
    description: str = ""
    template: str = "sglang.service"
    wrapper: tuple[str, ...] = ()
    args: Mapping[str, ArgValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretRef] = field(default_factory=dict)
    directives: Mapping[str, Mapping[str, DirectiveValue]] = field(default_factory=dict)
    gpu: GpuSettings = GpuSettings()
    verify: VerifySettings = VerifySettings()
    watch: WatchSettings | None = None
    hooks: HookSettings = HookSettings()
    allow_secrets_in_argv: bool = False
    program: str = "sglang"
    file: Path | None = None
    spans: Spans | None = field(default=None, compare=False, repr=False)

    @property
    def unit(self) -> str:
        """The unit's name, with its suffix."""
        return f"{self.name}.service"


@dataclass(frozen=True)
class Hypervisor:
    """The Proxmox (or LXC, Incus) machine around a host; ``container`` is the number or name of its container."""

    host: str
    container: str


@dataclass(frozen=True)
class Host:
    """One destination. ``name`` as the admin writes it; ``address`` what SSH is given; None: left to ssh_config.

    ``become`` is "sudo" or "none". ``overrides`` maps a unit's name to the table merged over its settings.
    """

    name: str
    address: str | None = None
    user: str | None = None
    port: int | None = None
    identity_file: Path | None = None
    become: str = "sudo"
    units: tuple[str, ...] = ()
    hypervisor: Hypervisor | None = None
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        """This machine without SSH."""
        return self.name == "local" and self.address is None
