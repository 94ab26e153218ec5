"""What a push would change, and apart from it what was edited by hand on the host."""

from __future__ import annotations

from typing import Any

from deployer.protocol.records import dataclass
from deployer.rollout import secrets as secret_room
from deployer.rollout.changes import Changes, changes
from deployer.rollout.contact import Contact
from deployer.rollout.drift import HandEdit, as_pushed, hand_edits, taken_over
from deployer.rollout.units import Declared


@dataclass(frozen=True)
class Difference:
    """``changes`` are against the last push; ``edits`` what was edited by hand on the host since then.

    ``declared``: the settings come to what was edited by hand, so that a push loses nothing of it.
    """

    host: str
    unit: str
    changes: Changes
    edits: tuple[HandEdit, ...] = ()
    declared: bool = False

    def __bool__(self) -> bool:
        return bool(self.changes) or bool(self.edits)

    def plain(self) -> dict[str, Any]:
        return {
            "host": self.host, "unit": self.unit, "changed": bool(self.changes), "first": self.changes.first,
            "files": [{"path": f.path, "kind": f.kind, "diff": f.diff} for f in self.changes.files],
            "arguments": {name: {"host": old, "declared": new}
                          for name, (old, new) in (self.changes.arguments or {}).items()},
            "secrets_differ": self.changes.secrets, "drift": [edit.text for edit in self.edits],
            "edits": [{"text": edit.text, "path": edit.path or None, "diff": edit.diff} for edit in self.edits],
            "edits_declared": self.declared,
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
        contact.host.name, settings.unit,
        changes(release, as_pushed(facts), survey.secrets_differ and with_secrets,
                "pushed" if facts.unit.drift else "host"),
        hand_edits(facts), taken_over(settings, release, facts),
    )
