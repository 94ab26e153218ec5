"""One rendered set of files for one unit on one host."""

from __future__ import annotations

from collections.abc import Mapping

from deployer.protocol.expectations import Expectations
from deployer.protocol.records import dataclass
from deployer.settings.model import SecretRef


@dataclass(frozen=True)
class SecretText:
    """A file's text that holds secrets: ``entries`` in order, each a name with a plain value or where its secret is.

    ``encoding`` is the language it is written in: "yaml" (SGLang's --config) or "environment" (EnvironmentFile).
    ``sources`` are the entries' names in ``[secrets]``, where they differ from the entries' own (empty: nowhere).
    Rollout resolves the secrets just before staging; nothing before that sees one.
    """

    entries: tuple[tuple[str, str | SecretRef], ...]
    encoding: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class File:
    """A file of a release at its place on the host. ``mode`` as an octal number, ``owner`` as "user:group"."""

    path: str
    mode: int
    owner: str
    text: str | SecretText


@dataclass(frozen=True)
class Release:
    """``digest`` covers every file and shows nothing of a secret. ``argv`` and ``env`` are what the process gets."""

    unit: str
    files: tuple[File, ...]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    digest: str
    expectations: Expectations
