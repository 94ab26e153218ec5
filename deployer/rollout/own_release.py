"""Arguments against the very release on the host, where the catalogue does not have it: read from its own files."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any, Protocol

from deployer.errors import OperationError
from deployer.protocol.codec import Unknown
from deployer.protocol.facts import Facts
from deployer.protocol.finding import Finding, Level
from deployer.render.credentials import is_variable
from deployer.rollout.check import flat
from deployer.settings.model import UnitSettings, Venv
from deployer.sglang import flags
from deployer.sglang.catalogue import Catalogue, catalogue
from deployer.sglang.source.modules import Unresolved
from deployer.sglang.source.reader import read
from deployer.sglang.wording import TITLES


class Asked(Protocol):
    """What answers operations: a ``Contact``."""

    def call(self, op: str, data: dict[str, Any]) -> dict[str, Any]: ...


def judge(contact: Asked, settings: UnitSettings, facts: Facts) -> list[Finding]:
    """Findings about the declared arguments for the installed release; none where the catalogue has it.

    Where its files cannot be read either, one warning says that the arguments were not checked against it.
    """
    installed = facts.sglang
    known = catalogue(settings.program)
    if isinstance(installed, Unknown) or not isinstance(settings.runtime, Venv) or known.has(installed):
        return []
    try:
        held = _held(known, installed, unpack(contact.call("sources", {
            "python": settings.runtime.python, "program": settings.program})))
    except (OperationError, Unresolved) as error:
        return [_place(settings, Finding(
            "arguments-unchecked", Level.WARNING, f"{TITLES[known.program]} {installed} on the host is not known here, "
            f"and its own files do not tell its arguments: {error}", (settings.program, "version")))]
    args, places = flat(settings.args)
    hidden = [name for name in settings.secrets if not is_variable(name)]
    found = flags.judge(args, installed, settings.program, secrets=hidden, key=lambda name: places[name], known=held)
    return [_place(settings, finding) for finding in found]


def unpack(reply: dict[str, Any]) -> dict[str, str]:
    """The texts of the agent's operation ``sources``."""
    texts: dict[str, str] = json.loads(zlib.decompress(base64.b64decode(reply["files"])))
    return texts


def _held(known: Catalogue, installed: str, files: dict[str, str]) -> Catalogue:
    return known.beside(installed, read(files, known.program))


def _place(settings: UnitSettings, finding: Finding) -> Finding:
    return finding.at(settings.spans.where(finding.key)) if settings.spans else finding
