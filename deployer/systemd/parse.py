"""Unit files as systemd reads them: assignments with their places, drop-ins merged, resets, and what is odd.

Source: conf-parser.c and load-fragment.c of systemd 252 and 257 (equal here), compared with the real ones by test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deployer.protocol.records import dataclass
from deployer.systemd import directives, values
from deployer.systemd.lines import Line, Problem, logical
from deployer.systemd.words import WHITESPACE, BadQuoting, split


@dataclass(frozen=True)
class Assignment:
    """``Key=value`` as written; ``value`` has its continued lines joined and the blanks at its ends removed."""

    section: str
    key: str
    value: str
    line: int
    file: str = ""


@dataclass(frozen=True)
class UnitText:
    """One file. Sections whose name is unknown are left out, ``X-`` ones silently."""

    assignments: tuple[Assignment, ...]
    problems: tuple[Problem, ...]
    file: str = ""


def parse(text: str | bytes, file: str = "", sections: Sequence[str] = directives.SERVICE_SECTIONS) -> UnitText:
    """One unit file or drop-in. Never raises: what systemd would not load is a ``Problem`` with ``fatal``."""
    problems: list[Problem] = []
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    found: list[Assignment] = []
    section: str | None = None
    ignored = False
    for line in logical(text, file, problems):
        stripped = line.text.strip(WHITESPACE)
        if not is_text(stripped):
            problems.append(Problem("not-utf-8", line.number, "bytes that are not UTF-8", file, True))
            break
        if stripped.startswith("["):
            section, ignored, fatal = _header(stripped, line, file, sections, problems)
            if fatal:
                break
        elif section is None:
            if not ignored:
                problems.append(Problem("outside-section", line.number, f"{stripped.split('=')[0]} stands in no "
                                        "section: ignored", file))
        else:
            key, equals, value = stripped.partition("=")
            if not equals:
                problems.append(Problem("missing-equals", line.number, f"no '=' in {_short(stripped)}: ignored", file))
            elif not key:
                problems.append(Problem("missing-key", line.number, "no key before '=': ignored", file))
            else:
                found.append(Assignment(section, key.strip(WHITESPACE), value.strip(WHITESPACE), line.number, file))
    return UnitText(tuple(found), tuple(problems), file)


def merge(main: UnitText, dropins: Iterable[UnitText] = ()) -> Unit:
    """The unit with its drop-ins, which are taken in the order of their file names as text (``10-`` before ``9-``)."""
    ordered = sorted(dropins, key=lambda part: part.file.rpartition("/")[2])
    files = (main, *ordered)
    return Unit(
        tuple(assignment for part in files for assignment in part.assignments),
        tuple(problem for part in files for problem in part.problems),
    )


@dataclass(frozen=True)
class Unit:
    """All assignments of a unit in the order in which they count."""

    assignments: tuple[Assignment, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether systemd does not load it at all."""
        return any(problem.fatal for problem in self.problems)

    def all(self, section: str, key: str) -> list[Assignment]:
        """Every assignment of the key, resets and values that systemd ignores too.

        Old names count as the new one, also where they stand in [Service] for [Unit] (StartLimitInterval=).
        """
        return [item for item in self.assignments if canonical(item.section, item.key) == (section, key)]

    def effective(self, section: str, key: str) -> list[Assignment]:
        """The assignments that count: of a list those since its last reset, else the last one alone.

        Dependencies (After=, Wants= …) cannot be reset. An empty single value stands for the default: none is given.
        """
        kind = directives.kind(section, key)
        items = [item for item in self.all(section, key) if values.accepted(item.value, kind.value, key)]
        if kind.dependency:
            return [item for item in items if item.value]
        if kind.many:
            since = max((index for index, item in enumerate(items) if not item.value), default=-1)
            return items[since + 1:]
        return [item for item in items[-1:] if item.value]

    def value(self, section: str, key: str) -> str | None:
        """The value that counts of a directive that takes one; None where none is given."""
        items = self.effective(section, key)
        return items[-1].value if items else None

    def words(self, section: str, key: str) -> list[str]:
        """All words of a directive that is a list of words (After=, ReadWritePaths=, WantedBy=), quotes removed.

        What cannot be the name of a unit is left out where units are listed; environment files are not split.
        """
        kind = directives.kind(section, key)
        names = (kind.dependency and kind.value == "UNIT[...]") or (section == "Install" and key != "DefaultInstance")
        found: list[str] = []
        for item in self.effective(section, key):
            if kind.value == "FILE":
                found.append(item.value)
                continue
            try:
                words = split(item.value, retain_escape=kind.value == "UNIT[...]")
            except BadQuoting:
                continue
            found += [word for word in words if not names or values.is_unit_name(word)]
        return found

    def keys(self, section: str) -> list[str]:
        """The keys of a section in order of their first appearance."""
        return list(dict.fromkeys(item.key for item in self.assignments if item.section == section))


def canonical(section: str, key: str) -> tuple[str, str]:
    """Where an assignment has its effect, and under which of its names."""
    if section == "Service" and key in directives.TAKEN_IN_SERVICE:
        section = "Unit"
    return section, directives.RENAMED[key] if key in _SAME else key


_SAME = {key for key in directives.RENAMED if not key.startswith(("Block", "CPU", "Startup", "Memory"))
         and key != "OnFailureIsolate"}
"""Old names that mean just what the new ones do; the others have another scale."""


def service_settings(text: str) -> list[tuple[str, str]]:
    """The [Service] assignments of a unit that count, commands left out: what a transient unit can be given."""
    unit = merge(parse(text))
    return [(key, item.value) for key in unit.keys("Service") if not key.startswith("Exec")
            for item in unit.effective("Service", key)]


def is_text(text: str) -> bool:
    """systemd's ``utf8_is_valid``: no stray bytes (surrogate escapes here), no noncharacters."""
    return text.isascii() or not any(
        "\ud800" <= char <= "\udfff" or "\ufdd0" <= char <= "\ufdef" or ord(char) & 0xFFFE == 0xFFFE for char in text
    )


def _header(
    text: str, line: Line, file: str, sections: Sequence[str], problems: list[Problem]
) -> tuple[str | None, bool, bool]:
    """The section that begins (None: ignored), whether it is ignored, and whether systemd gives up here."""
    if not text.endswith("]"):
        problems.append(Problem("bad-section", line.number, f"no section header: {_short(text)}", file, True))
        return None, False, True
    name = text[1:-1]
    if any(char < " " or char in "\"'\\\x7f" for char in name):
        problems.append(Problem("bad-section", line.number, f"bad characters in {_short(text)}", file, True))
        return None, False, True
    if name in sections:
        return name, False, False
    if not name.startswith("X-"):
        problems.append(Problem("unknown-section", line.number, f"systemd ignores [{name}]", file))
    return None, True, False


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
