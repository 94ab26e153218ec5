"""What a push would change, and apart from it what was edited by hand on the host."""

from __future__ import annotations

from typing import Any

from deployer.protocol.facts import InstalledFile
from deployer.protocol.records import dataclass
from deployer.rollout import secrets as secret_room
from deployer.rollout.changes import Changes, changes, hand_edits
from deployer.rollout.contact import Contact
from deployer.rollout.units import Declared


@dataclass(frozen=True)
class Difference:
    """``edits`` are installed files that differ from the last push; ``drift`` says so in words."""

    host: str
    unit: str
    changes: Changes
    edits: tuple[InstalledFile, ...]
    drift: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changes) or bool(self.drift)

    def plain(self) -> dict[str, Any]:
        return {
            "host": self.host, "unit": self.unit, "changed": bool(self.changes), "first": self.changes.first,
            "files": [{"path": f.path, "kind": f.kind, "diff": f.diff} for f in self.changes.files],
            "arguments": {name: {"host": old, "declared": new}
                          for name, (old, new) in (self.changes.arguments or {}).items()},
            "secrets_differ": self.changes.secrets, "drift": list(self.drift),
        }


def difference(contact: Contact, declared: Declared, *, with_secrets: bool = True) -> Difference:
    """Asks the host for its files and compares. Raises HostError, SettingsError for secrets that cannot be had."""
    settings, release = declared.settings, declared.release
    if with_secrets:
        survey = contact.survey(settings, release, secret_room.resolve(settings))
    else:
        survey = contact.ask_facts(settings.unit, settings)
    facts = survey.facts
    return Difference(
        contact.host.name, settings.unit, changes(release, facts, survey.secrets_differ and with_secrets),
        tuple(hand_edits(facts)), tuple(finding.message for finding in facts.unit.drift),
    )
