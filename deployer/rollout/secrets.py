"""Secrets, from where the settings say they are to the bytes staged on a host. Nothing else ever holds them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from deployer.errors import SettingsError
from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass, field
from deployer.render.model import File, Release, SecretText
from deployer.settings.model import SecretRef, UnitSettings

COMMAND_TIMEOUT = 60.0
"""Seconds: a password manager may have to ask somebody."""


@dataclass(frozen=True)
class Secrets:
    """Values by the names of ``[secrets]``; hidden in repr, so that no trace shows one."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)


def resolve(settings: UnitSettings) -> Secrets:
    """Reads every secret of a unit. Raises SettingsError with one finding for each that cannot be had."""
    values: dict[str, str] = {}
    findings = []
    for name, ref in settings.secrets.items():
        try:
            value = _value(ref)
            if not value:
                raise ValueError("it is empty")
            if "\0" in value or "\n" in value:
                raise ValueError("it holds a line break or a NUL byte")
            values[name] = value
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            where = settings.spans.where(("secrets", name)) if settings.spans else None
            text = f"the secret {name} cannot be had: {_words(error)}"
            findings.append(Finding("secret-unavailable", Level.ERROR, text, key=("secrets", name), where=where,
                                    hint=_hint(ref)))
    if findings:
        raise SettingsError(f"secrets of {settings.name} are missing", findings,
                            hint="put them where the settings say, then the same command again")
    return Secrets(values)


def contents(file: File, secrets: Secrets) -> bytes:
    """The bytes of a release's file, its secrets filled in."""
    if isinstance(file.text, str):
        return file.text.encode()
    from deployer.render.credentials import fill

    return fill(file.text, secrets.values).encode()


def is_secret(file: File) -> bool:
    return isinstance(file.text, SecretText)


def secret_files(release: Release) -> list[File]:
    return [file for file in release.files if is_secret(file)]


def _value(ref: SecretRef) -> str:
    if ref.file is not None:
        return ref.file.read_text(encoding="utf-8").rstrip("\r\n")
    if ref.env is not None:
        if ref.env not in os.environ:
            raise ValueError(f"the environment variable {ref.env} is not set")
        return os.environ[ref.env]
    assert ref.command is not None
    ran = subprocess.run(ref.command, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_TIMEOUT,
                         check=False)
    if ran.returncode != 0:
        # Its output may hold what it was asked for: only its status is told.
        raise ValueError(f"{ref.command[0]} ended with status {ran.returncode}")
    return ran.stdout.decode("utf-8").rstrip("\r\n")


def _words(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{error.cmd[0]} gave no answer within {COMMAND_TIMEOUT:.0f} s"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return str(error)


def _hint(ref: SecretRef) -> str:
    if ref.file is not None:
        return f"write the secret to {ref.file} (mode 0600), without a line break inside"
    if ref.env is not None:
        return f"export {ref.env}=… before this command"
    return "run the command by hand and look at what it says"
