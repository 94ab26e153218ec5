"""What in a unit has no effect, or not the one it seems to have: the traps that the text alone shows."""

from __future__ import annotations

from deployer.protocol import patterns
from deployer.systemd import directives, values
from deployer.systemd.lines import Problem
from deployer.systemd.parse import Assignment, Unit, UnitText

_SWALLOWED = patterns.compile(r"(?:^| )([A-Z][A-Za-z]{3,})=")

_REMARK = patterns.compile(r"(?:^|[ \t])[#;](?:[ \t]|$)")
_HASH = patterns.compile(r"(?:^|[ \t])#(?:[ \t]|$)")


def lint(unit: UnitText | Unit) -> list[Problem]:
    """The problems of reading, and what has no effect or another one than it seems, in the order of the lines.

    Codes: remark-behind-value, bad-value, unknown-key, key-in-wrong-section, startlimit-in-service, repeated-key,
    renamed-key (still works), continuation-swallows-directive.
    """
    found = list(unit.problems)
    seen: dict[tuple[str, str, str], int] = {}
    for item in unit.assignments:
        if not directives.known(item.section, item.key):
            found.append(_unknown(item.section, item.key, item.line, item.file))
            continue
        if item.key in directives.RENAMED and item.key not in directives.TAKEN_IN_SERVICE:
            found.append(Problem("renamed-key", item.line, f"{item.key}= is the old name of "
                                 f"{directives.RENAMED[item.key]}=", item.file))
        if item.section == "Service" and item.key in directives.TAKEN_IN_SERVICE and "StartLimit" in item.key:
            found.append(Problem("startlimit-in-service", item.line, f"{item.key}= belongs to [Unit]; this old place "
                                 "still works", item.file))
        kind = directives.kind(item.section, item.key)
        if not values.accepted(item.value, kind.value, item.key) and kind.value != "FILE":
            found.append(_bad_value(item))
        elif kind.value != "PATH[ARGUMENT[...]]" and _REMARK.search(item.value):
            found.append(Problem("remark-behind-value", item.line, f"systemd knows no remarks behind values: it is "
                                 f"part of {item.key}=", item.file))
        elif kind.value == "PATH[ARGUMENT[...]]" and _HASH.search(item.value):
            found.append(Problem("remark-behind-value", item.line, "systemd knows no remarks behind commands: '#' and "
                                 "the words behind it are arguments", item.file))
        place = (item.file, item.section, item.key)
        if not kind.many and not kind.dependency and item.value:
            if place in seen:
                found.append(Problem("repeated-key", item.line, f"{item.key}= was given in line {seen[place]}; only "
                                     "this one counts", item.file))
            seen[place] = item.line
        if kind.value == "PATH[ARGUMENT[...]]":
            swallowed = next((match[1] for match in _SWALLOWED.finditer(item.value)
                              if directives.home(match[1]) and directives.home(match[1]) != "Unit"), None)
            if swallowed:
                found.append(Problem("continuation-swallows-directive", item.line, f"{swallowed}= was continued into "
                                     f"the command: a backslash too many before it", item.file))
    return sorted(found, key=lambda problem: (problem.file, problem.line))


def _bad_value(item: Assignment) -> Problem:
    remark = _REMARK.search(item.value)
    code = "remark-behind-value" if remark else "bad-value"
    why = "; there are no remarks behind values" if remark else ""
    return Problem(code, item.line, f"systemd ignores {item.key}={item.value[:60]}{why}", item.file)


def _unknown(section: str, key: str, line: int, file: str) -> Problem:
    home = directives.home(key)
    if home and "StartLimit" in key:
        return Problem("startlimit-in-service", line, f"{key}= is ignored in [{section}]; it belongs to [{home}]", file)
    if home:
        return Problem("key-in-wrong-section", line, f"{key}= is ignored in [{section}]; it belongs to [{home}]", file)
    near = directives.nearest(section, key)
    return Problem("unknown-key", line, f"systemd knows no {key}= in [{section}]"
                   + (f"; {near}= is probably meant" if near else ""), file)
