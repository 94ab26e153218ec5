"""What a template knows: every value is already written as a unit file needs it, so that a template needs no care."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.render.arguments import Argument, declared, text
from deployer.render.credentials import Handed
from deployer.settings.model import Container, UnitSettings, Venv
from deployer.sglang.signals import exit_semantics, stop_timeout
from deployer.systemd import quote
from deployer.systemd.values import seconds

CACHE = "/var/cache/sglang"
MODULES = {"sglang": "sglang.launch_server", "router": "sglang_router.launch_router"}
RESTART_SEC = 10.0
START_LIMIT_BURST = 5
SYSTEM_PATH = "/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_MODEL_PATHS = ("model_path", "model", "tokenizer_path", "speculative_draft_model_path", "speculative_draft_model",
                "lora_paths", "chat_template")


@dataclass(frozen=True)
class Context:
    """``names`` for the template, and what the settings make of it that a template must not lose."""

    names: Mapping[str, Any]
    findings: tuple[Finding, ...]


def context(settings: UnitSettings, arguments: list[Argument], handed: Handed, lowest: str) -> Context:
    """``arguments`` and ``handed`` as made from the same settings; ``lowest`` is the lowest allowed release."""
    findings: list[Finding] = []
    service = settings.directives.get("Service", {})
    unit = settings.directives.get("Unit", {})
    cache = f"{CACHE}/{settings.name}"
    exits = exit_semantics(lowest, settings.program)
    burst = _number(unit.get("StartLimitBurst", START_LIMIT_BURST), START_LIMIT_BURST)
    restart = seconds(str(service.get("RestartSec", RESTART_SEC)))
    python = settings.runtime.python if isinstance(settings.runtime, Venv) else ""
    devices = settings.gpu.devices
    lines = [argument.line for argument in arguments]
    names = {
        "name": settings.name,
        "unit": settings.unit,
        "source": f"units/{settings.name}.toml",
        "description": _description(settings),
        "command_line": f"{_command(settings, python, findings)} -m {MODULES[settings.program]}",
        "arguments": [*lines, *handed.arguments, *([handed.config] if handed.config else [])],
        "environment": list(_environment(settings, findings)),
        "load_credential": handed.load_credential,
        "environment_file": handed.environment_file,
        "cache": cache,
        "cache_directory": cache.removeprefix("/var/cache/"),
        "search_path": _search_path(python),
        "gpu": devices is not None,
        "visible_devices": ",".join(str(device) for device in devices) if isinstance(devices, tuple) else "",
        "mounts": " ".join(_mounts(settings, python)),
        "private_tmp": not any(_below(path, ("/tmp", "/var/tmp")) for path in _paths(settings, python)),
        "writable": [quote.path(path) for path in _paths(settings, "") if _below(path, ("/usr", "/etc", "/boot"))
                     and path in settings.env.values() and not re.search(r"[\x00-\x1f\x7f]", path)],
        "success_exit_status": exits.success,
        "restart_force_exit_status": exits.restart_force,
        "restart_prevent_exit_status": exits.restart_prevent,
        "restart_sec": _span(RESTART_SEC),
        "start_limit_burst": START_LIMIT_BURST,
        "start_limit_interval": _span(burst * (settings.verify.deadline + (RESTART_SEC if restart is None else
                                                                           min(restart, 86400.0)))),
        "stop_timeout": _span(stop_timeout(settings.verify.drain)),
        "watch": settings.watch is not None,
        "args": declared(settings),
        "env": dict(settings.env),
        "settings": settings,
        "release": lowest,
    }
    return Context(names, tuple(findings))


def runtime_findings(settings: UnitSettings) -> list[Finding]:
    """A container runtime is refused in words: half of one would be worse than none."""
    if isinstance(settings.runtime, Container):
        return [Finding(
            "container-unsupported", Level.ERROR, f"container images are not supported yet ({settings.runtime.image})",
            ("router" if settings.program == "router" else "sglang", "image"),
            hint='install SGLang into a virtual environment on the host and write python = "/path/to/bin/python"')]
    return []


def _command(settings: UnitSettings, python: str, findings: list[Finding]) -> str:
    """Wrapper and interpreter, as words of ``ExecStart=``."""
    table = "router" if settings.program == "router" else "sglang"
    words: list[str] = []
    for index, word in enumerate((*settings.wrapper, python)):
        key = (table, "wrapper") if index < len(settings.wrapper) else (table, "python")
        try:
            words.append(quote.word(word) if index else quote.program(word))
        except quote.QuotingError as error:
            findings.append(Finding(error.code, Level.ERROR, f"{key[1]}: {error}", key))
    return " ".join(words)


def _environment(settings: UnitSettings, findings: list[Finding]) -> Iterator[str]:
    for name, value in settings.env.items():
        try:
            yield quote.environment(name, str(value))
        except quote.QuotingError as error:
            findings.append(Finding(error.code, Level.ERROR, str(error), ("env", name)))


def _description(settings: UnitSettings) -> str:
    words = settings.description or f"SGLang {'router' if settings.program == 'router' else 'server'} {settings.name}"
    flat = re.sub(r"[\x00-\x1f\x7f]+", " ", words)
    return quote.text(flat[:2000])


def _search_path(python: str) -> str:
    folder = str(PurePosixPath(python).parent)
    own = python.startswith("/") and ":" not in folder and folder not in SYSTEM_PATH.split(":")
    return quote.environment("PATH", f"{folder}:{SYSTEM_PATH}" if own else SYSTEM_PATH)


def _paths(settings: UnitSettings, python: str) -> Iterator[str]:
    """Absolute paths in the settings: what a sandbox must not hide."""
    values: list[Any] = [python, *settings.wrapper, *settings.env.values()]
    for value in declared(settings).values():
        values += value if isinstance(value, list) else [value]
    for value in values:
        if isinstance(value, str):
            found = value if value.startswith("/") else value.partition("=")[2]
            if found.startswith("/"):
                yield found


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _mounts(settings: UnitSettings, python: str) -> Iterator[str]:
    """Model and virtual environment, for ``RequiresMountsFor=``; what cannot stand there is left out."""
    args = declared(settings)
    named = {name.lstrip("-").replace("-", "_"): value for name, value in args.items()}
    models = [str(named[name]) for name in _MODEL_PATHS if isinstance(named.get(name), str)]
    folder = PurePosixPath(python)
    venv = str(folder.parent.parent if folder.parent.name == "bin" else folder.parent)
    for path in dict.fromkeys([*models, venv]):
        plain = path.rstrip("/") or "/"
        if plain.startswith("/") and plain != "/" and not re.search(r"[\x00-\x1f\x7f]|/\.\.?(/|$)", plain):
            yield quote.path(plain)


def _number(value: Any, default: int) -> int:
    try:
        return max(1, int(text(value)))
    except ValueError:
        return default


def _span(value: float) -> str:
    """Seconds as systemd reads them, rounded up to whole ones."""
    return str(math.ceil(value))
