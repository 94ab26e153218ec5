"""What a push would change on a host: files, arguments, secrets."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from deployer.protocol.facts import Facts
from deployer.protocol.records import dataclass
from deployer.render.model import Release, SecretText


@dataclass(frozen=True)
class FileChange:
    """``kind``: added, changed or removed. ``diff`` is a unified diff, empty for files with secrets."""

    path: str
    kind: str
    diff: str = ""


@dataclass(frozen=True)
class Changes:
    """``arguments``: name -> (value on the host, declared value); None where it is absent."""

    files: tuple[FileChange, ...] = ()
    arguments: Mapping[str, tuple[str | None, str | None]] | None = None
    secrets: bool = False
    first: bool = False

    def __bool__(self) -> bool:
        return bool(self.files) or self.secrets

    def words(self) -> str:
        """In one line, for a plan."""
        if not self:
            return "nothing to change"
        if self.first:
            replaced = sum(change.kind != "added" for change in self.files)
            found = f", in place of {replaced} file{'s' if replaced > 1 else ''} found" if replaced else ""
            return "first push" + found
        parts = [f"{name} {_value(old)} → {_value(new)}" for name, (old, new) in (self.arguments or {}).items()]
        parts = parts[:6] + ([f"and {len(parts) - 6} more arguments"] if len(parts) > 6 else [])
        if not parts:
            parts = [f"{change.path} {change.kind}" for change in self.files]
        if self.secrets:
            parts.append("secrets")
        return "; ".join(parts)


def changes(release: Release, facts: Facts, secrets_differ: bool, base: str = "host") -> Changes:
    """Compares the rendered files with those on the host; ``base`` is what their diffs call these."""
    present = {file.path: file for file in facts.unit.files if file.digest}
    names = (base, "declared")
    found: list[FileChange] = []
    for file in release.files:
        old = present.pop(file.path, None)
        if isinstance(file.text, SecretText):
            if old is None:
                found.append(FileChange(file.path, "added"))
            continue
        if old is None:
            found.append(FileChange(file.path, "added", diff("", file.text, names, file.path)))
        elif old.text != file.text or old.mode != file.mode:
            found.append(FileChange(file.path, "changed", diff(old.text or "", file.text, names, file.path)))
    found += [FileChange(path, "removed", diff(old.text or "", "", names, path))
              for path, old in sorted(present.items())]
    return Changes(
        files=tuple(found), arguments=arguments(running_argv(facts), release.argv) if found else {},
        secrets=secrets_differ, first=facts.unit.current is None,
    )


def running_argv(facts: Facts) -> Sequence[str]:
    """The command line of the current release, as the store keeps it."""
    for entry in facts.unit.releases:
        if entry.get("number") == facts.unit.current:
            return [str(word) for word in entry.get("argv", ())]
    return []


def arguments(old: Sequence[str], new: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
    """Arguments that differ between two command lines, by long name."""
    before, after = _options(old), _options(new)
    return {name: (before.get(name), after.get(name)) for name in [*after, *(n for n in before if n not in after)]
            if before.get(name) != after.get(name)}


def unified(change: FileChange) -> str:
    return change.diff or f"{change.path} {change.kind} (holds secrets: not shown)\n"


def _options(argv: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            options[name] = value
        elif name:
            options[name] = f"{options[name]} {word}".strip()
    return options


def diff(old: str, new: str, names: tuple[str, str], path: str) -> str:
    """A unified diff of a file; ``names`` are whose the two texts are."""
    return "".join(
        line if line.endswith("\n") else line + "\n"
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), f"{names[0]}:{path}",
                                         f"{names[1]}:{path.rpartition('/')[2]}", lineterm="")
    )


def _value(value: str | None) -> str:
    return "(absent)" if value is None else value or "(on)"
