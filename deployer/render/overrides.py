"""The directives of ``[unit]``, ``[service]`` and ``[install]`` over those of the template.

A template is plain unit-file text, so the settings work on the text: a declared directive takes the place of the
template's lines of that name, together with the remark that explains nothing but them. What adds up by its nature
(dependencies, variables, credentials) is added instead; a list that begins with an empty text drops the template's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.settings.model import DirectiveValue
from deployer.systemd import directives, quote
from deployer.systemd.lines import Line, logical
from deployer.systemd.parse import canonical

ADDED = {"Environment", "EnvironmentFile", "LoadCredential", "LoadCredentialEncrypted", "SetCredential",
         "SetCredentialEncrypted", "ImportCredential"}
OWN = {
    "ExecStart": "the command is made from [sglang] and [args]; put a command in front of it with wrapper = [ … ]",
}


@dataclass(frozen=True)
class _Place:
    """An assignment of the text: its key as it counts, and its physical lines, the first and the last."""

    section: str
    key: str
    value: str
    first: int
    last: int


def values(section: str, key: str, value: DirectiveValue) -> tuple[list[str], list[Finding]]:
    """A declared value as the texts behind ``Key=``, one for each line."""
    items: Sequence[str | int | float | bool] = value if isinstance(value, list) else [value]
    found: list[str] = []
    findings = []
    for item in items:
        text = ("yes" if item else "no") if isinstance(item, bool) else str(getattr(item, "written", item))
        try:
            found.append(quote.directive(text))
        except quote.QuotingError as error:
            findings.append(Finding(error.code, Level.ERROR, f"{key}: {error}", (section.lower(), key)))
    return found, findings


def apply(
    text: str, declared: Mapping[str, Mapping[str, DirectiveValue]], variables: Sequence[str], source: str
) -> tuple[str, list[Finding]]:
    """The text with the declared directives in it, and without earlier assignments of ``variables``, which are set
    again further down. ``source`` names the settings' file in a remark above what was added."""
    findings: list[Finding] = []
    lines = text.split("\n")
    places = list(_places(text))
    dropped: set[int] = set()                      # physical lines, from 1
    inserted: dict[int, list[str]] = {}            # behind that line
    added: dict[str, list[str]] = {}
    for section, table in declared.items():
        for key, value in table.items():
            if key in OWN:
                findings.append(Finding("own-directive", Level.ERROR, f"{key} cannot be declared",
                                        (section.lower(), key), hint=OWN[key]))
                continue
            written, wrong = values(section, key, value)
            findings += wrong
            mine = [place for place in places if (place.section, place.key) == canonical(section, key)]
            adds = key in ADDED or directives.kind(section, key).dependency
            if adds and written[:1] != [""]:
                at = mine[-1].last if mine else 0
            else:
                dropped.update(line for place in mine for line in range(place.first, place.last + 1))
                at = mine[0].first if mine else 0
                written = written[1:] if adds else written
            new = [f"{key}={item}" for item in written]
            if at:
                inserted.setdefault(at, []).extend(new)
            elif new:
                added.setdefault(section, []).extend(new)
    dropped |= _again(places, variables)
    dropped |= _remarks(lines, dropped, inserted, f"# From {source}:")
    return _write(lines, dropped, inserted, added, source), findings


def _places(text: str) -> Iterator[_Place]:
    section = ""
    for line in logical(text, "", []):
        stripped = line.text.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            section = stripped[1:-1]
        elif section and "=" in stripped:
            yield _assignment(section, stripped, line)


def _assignment(section: str, text: str, line: Line) -> _Place:
    key, _, value = text.partition("=")
    section, key = canonical(section, key.strip())
    return _Place(section, key, value.strip(), line.number, line.last)


def _again(places: Sequence[_Place], variables: Sequence[str]) -> set[int]:
    """Lines that set nothing but a variable which a later line, or an environment file, sets again."""
    names = [(place, re.match(r'"?([A-Za-z_][A-Za-z0-9_]*)=(?:[^"\s]*|.*")$', place.value))
             for place in places if (place.section, place.key) == ("Service", "Environment")]
    last = {match[1]: place for place, match in names if match}
    return {line for place, match in names if match and match[1] in variables and
            (last[match[1]] is not place) for line in range(place.first, place.last + 1)}


def _remarks(lines: Sequence[str], dropped: set[int], inserted: Mapping[int, list[str]], remark: str) -> set[int]:
    """Remarks above directives that are all dropped; each belongs to the lines below it up to the next gap.

    What took the place of the directives gets ``remark`` in its place.
    """
    gone: set[int] = set()
    for number in sorted(dropped):
        if number - 1 in dropped or lines[number - 2].lstrip()[:1] != "#":
            continue
        below = number
        while below <= len(lines) and lines[below - 1].strip() and lines[below - 1].lstrip()[:1] not in ("#", "["):
            if below not in dropped:
                break
            below += 1
        else:
            above = number - 1
            while above > 0 and lines[above - 1].lstrip()[:1] == "#":
                gone.add(above)
                above -= 1
            new = next((inserted[line] for line in range(number, below) if inserted.get(line)), None)
            if new:
                new.insert(0, remark)
    return gone


def _write(
    lines: Sequence[str], dropped: set[int], inserted: Mapping[int, Sequence[str]],
    added: Mapping[str, Sequence[str]], source: str,
) -> str:
    out: list[str] = []
    section = ""
    pending = dict(added)

    def close() -> None:
        new = pending.pop(section, None)
        if new:
            while out and not out[-1].strip():
                out.pop()
            gap = [] if out and out[-1].startswith("[") else [""]
            out.extend([*gap, f"# From [{section.lower()}] of {source}:", *new, ""])

    for number, line in enumerate(lines, 1):
        if line.startswith("[") and line.rstrip().endswith("]"):
            close()
            section = line.strip()[1:-1]
        if number not in dropped:
            out.append(line)
        out.extend(inserted.get(number, ()))
    while out and not out[-1].strip():
        out.pop()
    out.append("")
    close()
    for section in list(pending):
        out.extend(["", f"[{section}]"])
        close()
    while len(out) > 1 and not out[-1].strip() and not out[-2].strip():
        out.pop()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out))
