"""Hand edits on a host: what they are, and whether the settings declare them by now."""

from __future__ import annotations

from collections.abc import Sequence

from deployer.protocol.facts import Facts
from deployer.protocol.finding import Finding
from deployer.protocol.records import dataclass, replace
from deployer.render.model import Release
from deployer.rollout.changes import diff
from deployer.settings.model import UnitSettings

SYSTEM = "/etc/systemd/system"


@dataclass(frozen=True)
class HandEdit:
    """``text`` says what was edited. ``diff`` from the last push to the host: "" where it is not of a file's text."""

    text: str
    path: str = ""
    diff: str = ""


def hand_edits(facts: Facts) -> tuple[HandEdit, ...]:
    """What was edited by hand on the host since the last push."""
    now = {file.path: file.text or "" for file in facts.unit.files}
    pushed = {file.path: file.text for file in facts.unit.pushed}
    found = []
    for finding in facts.unit.drift:
        path = finding.where.file if finding.where else ""
        before = pushed.get(path, "")
        shown = before is not None and path in now
        found.append(HandEdit(finding.message, path, diff(before or "", now[path], ("pushed", "host"), path)
                              if shown else ""))
    return tuple(found)


def as_pushed(facts: Facts) -> Facts:
    """The facts as they were before anybody edited by hand; a file whose pushed text is not known stays as it is."""
    before = {file.path: file for file in facts.unit.pushed if file.text is not None}
    added = {finding.where.file for finding in facts.unit.drift if finding.code == "drift-added" and finding.where}
    files = tuple(before.get(file.path, file) for file in facts.unit.files if file.path not in added)
    return replace(facts, unit=replace(facts.unit, files=files))


def again(host: str, settings: UnitSettings, release: Release, facts: Facts, errors: Sequence[Finding]) -> str:
    """The next command after a refusal in which hand edits have a part; "" where they have none."""
    if not any(finding.code.startswith("drift-") for finding in errors):
        return ""
    push, declared = f"deployer push {host} -u {settings.name} --overwrite-drift", taken_over(settings, release, facts)
    if any(not finding.code.startswith("drift-") for finding in errors):
        does = "the settings declare" if declared else "discards"
        return f"put it right, then: {push} ({does} what was edited by hand)"
    look = "" if declared else f"deployer diff {host} -u {settings.name} shows it; "
    return look + next_command(host, settings.name, declared)


def next_command(host: str, name: str, declared: bool) -> str:
    """What to type once hand edits were shown."""
    push = f"deployer push {host} -u {name} --overwrite-drift"
    if declared:
        return f"{push} (the settings declare what was edited by hand)"
    return f"deployer adopt {host} -u {name} takes it over; {push} discards it"


def taken_over(settings: UnitSettings, release: Release, facts: Facts) -> bool:
    """Whether the unit's text comes to what was edited by hand, as after ``deployer adopt``: nothing would be lost."""
    from deployer.rollout.effect import effect

    unit = settings.unit
    edited = [finding.where.file if finding.where else "" for finding in facts.unit.drift]
    texts = {file.path: file.text for file in facts.unit.files if file.text is not None}
    main, declared = f"{SYSTEM}/{unit}", {file.path: file.text for file in release.files if isinstance(file.text, str)}
    dropins = {path: text for path, text in texts.items() if path.startswith(f"{main}.d/") and path.endswith(".conf")}
    if not edited or main not in texts or any(path != main and path not in dropins for path in edited):
        return False
    if any(finding.code == "drift-mode" for finding in facts.unit.drift):
        return False
    ours = {path: text for path, text in declared.items() if path.startswith(f"{main}.d/")}
    return effect(unit, texts[main], dropins, settings.program) == effect(
        unit, declared.get(main, ""), ours, settings.program)
