"""Traps in a unit: places that do not do what they seem to. Each is a ``Problem`` with a stable code.

Sources: systemd.unit(5), systemd.service(5), systemd.exec(5); what SGLang needs of its unit (GPU devices, compiled
kernels, caches) was tried on systemd 252.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from deployer.intake.found import Launch
from deployer.intake.manager import Manager
from deployer.intake.secrets import in_command, is_secret
from deployer.protocol import patterns
from deployer.protocol.finding import Level
from deployer.protocol.records import dataclass
from deployer.systemd import values
from deployer.systemd.command import Command
from deployer.systemd.lines import Problem
from deployer.systemd.lint import lint
from deployer.systemd.parse import Assignment, Unit

if TYPE_CHECKING:
    from deployer.intake.unit import Given, Source

LEVELS = {
    "path-dollar-in-environment": Level.WARNING, "startlimit-in-service": Level.WARNING,
    "key-in-wrong-section": Level.WARNING, "unknown-key": Level.WARNING, "unknown-section": Level.WARNING,
    "repeated-key": Level.WARNING, "remark-behind-value": Level.WARNING, "blank-after-backslash": Level.ERROR,
    "continuation-into-empty-line": Level.ERROR, "two-execstart": Level.ERROR, "semicolon-commands": Level.WARNING,
    "relative-execstart": Level.ERROR, "unit-refused": Level.ERROR, "percent-unknown": Level.WARNING,
    "percent-h-is-roots-home": Level.WARNING, "percent-p-as-user": Level.WARNING, "unset-variable": Level.WARNING,
    "unquoted-json": Level.ERROR, "secret-in-unit": Level.WARNING, "private-devices": Level.ERROR,
    "memory-deny-write-execute": Level.ERROR, "protect-home": Level.WARNING, "pull-in-execstartpre": Level.WARNING,
    "requires-system-unit": Level.ERROR, "timeoutstart-on-simple": Level.WARNING, "type-notify": Level.ERROR,
    "type-forking": Level.ERROR, "dropin-order-as-text": Level.NOTE,
}
"""Every code that an import of a unit file reports, and how grave it is."""

_VARIABLE = patterns.compile(r"(?<![\\$])\$(?:\{[A-Za-z_]\w*\}|[A-Z_][A-Z0-9_]+\b)")
_QUOTED = patterns.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_HOME = patterns.compile(r"(?:^|[=:\s\"'])(?:/home|/root|/run/user)(?:/|$)|\$\{HOME\}")
_SYSTEM_UNITS = patterns.compile(
    r"(?:docker|containerd|podman|dbus|sshd?|nginx|postgresql|redis|nvidia-[\w-]+|network|NetworkManager|systemd-[\w-]+|"
    r"local-fs|remote-fs|network-online|multi-user|nss-lookup|time-sync|nfs-[\w-]+|autofs|tailscaled|libvirtd)"
    r"(?:@[\w.-]*)?\.(?:service|socket|target)|.*\.mount")


@dataclass(frozen=True)
class Seen:
    """All that is known of a unit when its traps are looked for."""

    unit: Unit
    source: Source
    manager: Manager
    given: Given
    commands: Mapping[str, Sequence[Command]]
    launches: Sequence[Launch]
    unset: Sequence[str]
    problems: Sequence[Problem]
    refused: bool
    container: bool = False


def judge(seen: Seen) -> list[Problem]:
    """The traps of a unit, in the order of their lines, the main file first."""
    found = [*_of_reading(seen), *_variables(seen), *_specifiers(seen), *_secrets(seen), *_hardening(seen),
             *_starting(seen), *_dropins(seen)]
    if seen.refused and not any(problem.code == "unit-refused" for problem in found):
        fatal = next((p for p in [*seen.unit.problems, *seen.problems] if p.fatal), None)
        line, file = (fatal.line, fatal.file) if fatal else (1, "")
        why = fatal.text if fatal else ""
        found.append(Problem("unit-refused", line, f"systemd does not load the unit: {why}", file, True))
    main = seen.source.file or seen.source.name
    unique = {(p.code, p.line, p.file, p.text): p for p in found if p.code in LEVELS}
    return sorted(unique.values(), key=lambda p: (p.file != main, p.file, p.line))


def _of_reading(seen: Seen) -> Iterator[Problem]:
    places = {(item.file, item.line): item for item in seen.unit.assignments}
    for problem in [*lint(seen.unit), *seen.problems]:
        item = places.get((problem.file, problem.line))
        if problem.code == "remark-behind-value" and item and _in_quotes(item):
            continue
        yield problem
    for item in [*seen.unit.effective("Service", "Environment"), *seen.unit.effective("Service", "ExecStart")]:
        if _bare_json(item.value):
            yield Problem("unquoted-json", item.line, f"JSON without quotes around it in {item.key}=: systemd takes "
                          "its double quotes away", item.file)


def _in_quotes(item: Assignment) -> bool:
    """Whether what looks like a remark only stands inside quotes, where it is meant."""
    if item.key != "Environment" and not item.key.startswith("Exec"):
        return False
    bare = _QUOTED.sub("_", item.value)
    marks = "[#;]" if item.key == "Environment" else "#"
    return not re.search(rf"(?:^|[ \t]){marks}(?:[ \t]|$)", bare)


def _bare_json(text: str) -> bool:
    """Whether a double quote that belongs to JSON stands where systemd takes it for its own."""
    at, depth, before = 0, 0, ""
    while at < len(text):
        char = text[at]
        if char == "\\":
            at, before = at + 2, "x"
            continue
        if char in "\"'":
            if char == '"' and depth and before in "{[,:":
                return True
            end = text.find(char, at + 1)
            while end > 0 and text[end - 1] == "\\":
                end = text.find(char, end + 1)
            at, before = (end if end > 0 else len(text)) + 1, "x"
            continue
        depth += (char in "{[" and not (char == "{" and before == "$")) - (char in "}]" and depth > 0)
        before = char if not char.isspace() else before
        at += 1
    return False


def _variables(seen: Seen) -> Iterator[Problem]:
    for item in seen.unit.effective("Service", "Environment"):
        match = _VARIABLE.search(item.value)
        if match:
            yield Problem("path-dollar-in-environment", item.line, f"{match[0]} stays as it is written: systemd fills "
                          "in no variables in Environment=", item.file)
    for place, text in seen.given.texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            name, equals, value = line.partition("=")
            match = _VARIABLE.search(re.sub(r"'[^']*'", "", value))
            if equals and match and not name.lstrip().startswith(("#", ";")):
                yield Problem("path-dollar-in-environment", number, f"{match[0]} stays as it is written: an "
                              "environment file fills in no variables", place)
    for name in dict.fromkeys(seen.unset):
        command = seen.commands["ExecStart"][-1]
        braced = "${" + name + "}" in command.text
        becomes = "an empty argument" if braced else "nothing"
        yield Problem("unset-variable", command.line, f"nothing sets {name}: it becomes {becomes}", command.file)


def _specifiers(seen: Seen) -> Iterator[Problem]:
    account = seen.unit.value("Service", "User")
    dynamic = values.is_true(seen.unit.value("Service", "DynamicUser") or "no")
    own = dynamic or (account and account not in ("root", "0"))
    for item in _counting(seen.unit):
        used = set(re.findall(r"%(.)", item.value.replace("%%", "")))
        if item.key in ("User", "Group") and used & set("pPnNjJf"):
            yield Problem("percent-p-as-user", item.line, f"{item.key}={item.value}: the unit's own name as an account",
                          item.file)
        elif own and not seen.manager.user and used & set("huUgGs"):
            letter = next(char for char in item.value.replace("%%", "").split("%")[1:] if char[:1] in "huUgGs")[:1]
            yield Problem("percent-h-is-roots-home", item.line, f"%{letter} in a system unit is root's, whatever User= "
                          "says", item.file)


def _counting(unit: Unit) -> list[Assignment]:
    """The assignments that count, of all keys."""
    keys = dict.fromkeys((item.section, item.key) for item in unit.assignments if item.section == "Service")
    return [item for section, key in keys for item in unit.effective(section, key)]


def _secrets(seen: Seen) -> Iterator[Problem]:
    from deployer.systemd.environment import assignments

    for item in seen.unit.effective("Service", "Environment"):
        for name, value in assignments([item], seen.manager.specifiers)[0].items():
            if is_secret(name, value):
                yield Problem("secret-in-unit", item.line, f"{name} is readable by every user of the host: "
                              "Environment= is no place for a secret", item.file)
    for key, found in seen.commands.items():
        for command in found:
            told = in_command(command.words)
            if told:
                yield Problem("secret-in-unit", command.line, f"{told} in {key}=: every user of the host can read it",
                              command.file)


def _hardening(seen: Seen) -> Iterator[Problem]:
    for key, code, why in (
        ("PrivateDevices", "private-devices", "hides the GPUs from the server"),
        ("MemoryDenyWriteExecute", "memory-deny-write-execute", "forbids the kernels that are compiled at run time"),
    ):
        item = next(iter(seen.unit.effective("Service", key)[-1:]), None)
        if item and values.is_true(item.value) and not seen.container:
            yield Problem(code, item.line, f"{key}= {why}", item.file)
    item = next(iter(seen.unit.effective("Service", "ProtectHome")[-1:]), None)
    if item and not seen.container and item.value.lower() not in ("no", "false", "0", "off", "n", "f"):
        used = any(_HOME.search(text) for text in _texts(seen))
        read_only = item.value == "read-only"
        caches = any(re.search(r"(?:/home|/root)/", value) for value in seen.given.env.values())
        if used and (not read_only or caches):
            yield Problem("protect-home", item.line, f"ProtectHome={item.value} hides what the unit uses below a home "
                          "folder", item.file)


def _texts(seen: Seen) -> list[str]:
    launches = [text for launch in seen.launches for text in (*launch.argv, launch.cwd or "", launch.exe or "")]
    return [*seen.given.env.values(), *launches]


def _starting(seen: Seen) -> Iterator[Problem]:
    unit = seen.unit
    timeouts = [*unit.effective("Service", "TimeoutStartSec"), *unit.effective("Service", "TimeoutSec")]
    timeout = timeouts[0] if timeouts else None
    span = values.seconds(timeout.value) if timeout else None
    endless = span is not None and (span == 0 or span == float("inf"))
    pulls = [command for command in seen.commands["ExecStartPre"] if _pulls(command)]
    for command in pulls:
        if not endless:
            yield Problem("pull-in-execstartpre", command.line, "an image pull counts against the start timeout",
                          command.file)
    kind = next(iter(unit.effective("Service", "Type")[-1:]), None)
    name = kind.value if kind else "simple"
    if kind and name in ("notify", "notify-reload") and not _notifies(seen):
        yield Problem("type-notify", kind.line, f"Type={name}, and SGLang sends no notification: the start never ends",
                      kind.file)
    if kind and name == "forking" and not seen.container and not _forks(seen):
        yield Problem("type-forking", kind.line, "Type=forking, and SGLang does not fork: the start never ends",
                      kind.file)
    waits = pulls or seen.commands["ExecStartPost"] or (seen.container and not kind)
    if timeout and name in ("simple", "exec", "idle") and not waits and span is not None and (endless or span > 90):
        yield Problem("timeoutstart-on-simple", timeout.line, f"{timeout.key}={timeout.value} does not cover the "
                      f"loading of the model: with Type={name} starting ends at once", timeout.file)
    if seen.manager.user:
        for key in ("Requires", "Requisite", "BindsTo"):
            for item in unit.effective("Unit", key):
                other = next((word for word in item.value.split() if _SYSTEM_UNITS.fullmatch(word)), None)
                if other:
                    yield Problem("requires-system-unit", item.line, f"{other} is a unit of the system's manager: a "
                                  "user's manager does not find it", item.file)


def _pulls(command: Command) -> bool:
    text = " ".join(command.words)
    clients = r"\b(?:docker|podman|nerdctl|crictl|ctr|skopeo|docker-compose)\b"
    return bool(re.search(clients + r"(?: [^;&|]*?)? (?:pull|copy)\b", text))


def _notifies(seen: Seen) -> bool:
    if seen.container:
        return True
    words = [word for command in seen.commands["ExecStart"] for word in command.words]
    return any(word.startswith("--sdnotify") and not word.endswith("ignore") for word in words) or any(
        word.rpartition("/")[2] in ("systemd-notify", "sdnotify-wrapper") for text in words for word in text.split())


def _forks(seen: Seen) -> bool:
    """Whether what is started goes into the background by itself: a terminal, a script's ``&``."""
    words = [word for command in seen.commands["ExecStart"] for word in command.words]
    names = {word.rpartition("/")[2] for word in words}
    return bool(names & {"tmux", "screen", "daemonize", "start-stop-daemon"}) or any(
        re.search(r"(?<![&>])&(?![&>\d])", word) for word in words)


def _dropins(seen: Seen) -> Iterator[Problem]:
    names = sorted(name.rpartition("/")[2] for name in seen.source.dropins)
    numbered = [(int(match[0]), name) for name in names if (match := re.match(r"\d+", name))]
    for (first, name), (second, other) in itertools.pairwise(numbered):
        if first > second:
            yield Problem("dropin-order-as-text", 1, f"{other} comes after {name}: drop-ins are sorted as text", other)
            return
