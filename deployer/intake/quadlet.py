"""A Quadlet ``.container`` file: the ``podman run`` that the generator makes of it.

Source: podman-systemd.unit(5) and pkg/systemd/quadlet/quadlet.go of podman 5.4; the order of options is not fixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from deployer.intake import traps
from deployer.intake.directives import directives, ignored
from deployer.intake.files import Files
from deployer.intake.found import Launch
from deployer.intake.launch import peel
from deployer.intake.machine import Machine, World
from deployer.intake.manager import Manager, manager
from deployer.intake.process import Process
from deployer.intake.unit import EXECS, Given, Source, UnitFound, matching, parsed
from deployer.protocol.records import replace
from deployer.systemd import environment
from deployer.systemd.command import commands
from deployer.systemd.directives import SERVICE_SECTIONS
from deployer.systemd.lines import Problem
from deployer.systemd.parse import Assignment, Unit
from deployer.systemd.specifiers import UnknownSpecifier
from deployer.systemd.values import is_true
from deployer.systemd.words import BadQuoting, split

_OPTIONS = {
    "Network": "--network", "AddDevice": "--device", "Volume": "-v", "PublishPort": "--publish", "Tmpfs": "--tmpfs",
    "Mount": "--mount", "Secret": "--secret", "ExposeHostPort": "--expose", "GroupAdd": "--group-add", "DNS": "--dns",
    "DNSOption": "--dns-option", "DNSSearch": "--dns-search", "Ulimit": "--ulimit", "AddHost": "--add-host",
    "NetworkAlias": "--network-alias", "UIDMap": "--uidmap", "GIDMap": "--gidmap", "LogOpt": "--log-opt",
}
_SINGLE = {
    "ShmSize": "--shm-size", "WorkingDir": "--workdir", "HostName": "--hostname", "IP": "--ip", "IP6": "--ip6",
    "Entrypoint": "--entrypoint", "Pull": "--pull", "StopTimeout": "--stop-timeout", "StopSignal": "--stop-signal",
    "PidsLimit": "--pids-limit", "Timezone": "--tz", "LogDriver": "--log-driver", "UserNS": "--userns",
    "SubUIDMap": "--subuidname", "SubGIDMap": "--subgidname", "Memory": "--memory", "HealthCmd": "--health-cmd",
    "HealthInterval": "--health-interval", "HealthRetries": "--health-retries", "HealthTimeout": "--health-timeout",
    "HealthStartPeriod": "--health-start-period", "HealthOnFailure": "--health-on-failure",
    "HealthStartupCmd": "--health-startup-cmd", "HealthStartupInterval": "--health-startup-interval",
    "HealthStartupRetries": "--health-startup-retries", "HealthStartupSuccess": "--health-startup-success",
    "HealthStartupTimeout": "--health-startup-timeout", "HealthLogDestination": "--health-log-destination",
    "HealthMaxLogCount": "--health-max-log-count", "HealthMaxLogSize": "--health-max-log-size",
}
_KEYS = {
    *_OPTIONS, *_SINGLE,
    "Image", "Exec", "ContainerName", "Environment", "EnvironmentFile", "EnvironmentHost", "PodmanArgs",
    "GlobalArgs", "User", "Group", "Label", "Annotation", "AddCapability", "DropCapability", "Notify",
    "RunInit", "ReadOnly", "ReadOnlyTmpfs", "NoNewPrivileges", "SecurityLabelDisable", "SecurityLabelType",
    "SecurityLabelLevel", "SecurityLabelFileType", "SecurityLabelNested", "SeccompProfile", "Sysctl",
    "CgroupsMode", "AutoUpdate", "Rootfs", "Pod", "StartWithPod", "Mask", "Unmask", "ContainersConfModule",
    "ServiceName", "DefaultDependencies", "RemapUid", "RemapGid", "RemapUsers", "RemapUidSize",
    "VolatileTmp", "ReloadCmd", "ReloadSignal", "AppArmor", "HttpProxy", "Retry", "RetryDelay",
}


def read(source: Source, files: Files) -> UnitFound:
    """Reads a ``.container`` file as the service that Quadlet makes of it."""
    unit, problems = parsed(source, (*SERVICE_SECTIONS, "Container", "Quadlet"))
    own = Unit(tuple(item for item in unit.assignments if item.section in SERVICE_SECTIONS), unit.problems)
    asked = _Asked([item for item in unit.assignments if item.section == "Container"])
    world = World(files)
    kind = manager(own, source.user, source.home, source.name, world.unknowns)
    given = Given({}, kind.base(own))
    service, more = environment.assignments(own.effective("Service", "Environment"), kind.specifiers)
    problems += more
    inside, more = environment.assignments(asked.since_reset("Environment"), kind.specifiers)
    problems += [*more, *_wrong(asked)]
    found = {key: commands(own.effective("Service", key), kind.specifiers)[0] for key in EXECS}
    listed = [value.removeprefix("-") for value in asked.values("EnvironmentFile")]
    for path in (kind.expand(item) for item in listed):
        given.texts |= matching(path, files)
    refused = unit.refused or any(problem.fatal for problem in problems)
    unset: list[str] = []
    manager_env = {**service, "PODMAN_SYSTEMD_UNIT": source.name}
    would = _launches(asked, kind, manager_env, inside, world, source.name, unset)
    would, launches = (would, []) if refused else ([], would)
    given.env = inside
    seen = traps.Seen(_for_traps(own, asked), source, kind, given, {**found, "ExecStart": []}, launches, [], problems,
                      refused, True)
    judged = traps.judge(seen)
    line = next((item.line for item in asked.items if item.key == "Exec"), 1)
    judged += [Problem("unset-variable", line, f"nothing sets {name}: it becomes nothing or an empty argument",
                       source.file) for name in dict.fromkeys(unset)]
    shown = world.unknowns.shown
    return UnitFound(
        source.name, launches, {key: shown(value) for key, value in sorted(inside.items())}, directives(own, found),
        ignored(own), judged, world.notes, kind.user, refused, would, {
            "env_of_the_service": {"PODMAN_SYSTEMD_UNIT": source.name, **service},
            "env_files_of_the_container": listed, "devices": asked.values("AddDevice"),
            "image": asked.last("Image"),
        },
    )


class _Asked:
    """[Container]: a key with several values adds up, an empty value resets it."""

    def __init__(self, items: list[Assignment]) -> None:
        self.items = items

    def since_reset(self, key: str) -> list[Assignment]:
        items = [item for item in self.items if item.key == key]
        since = max((index for index, item in enumerate(items) if not item.value), default=-1)
        return items[since + 1:]

    def values(self, key: str) -> list[str]:
        return [item.value for item in self.since_reset(key)]

    def last(self, key: str) -> str | None:
        return next(iter(reversed(self.values(key))), None)

    def words(self, key: str) -> list[str]:
        found: list[str] = []
        for value in self.values(key):
            try:
                found += split(value, unescape=True, keep_unknown=True)
            except BadQuoting:
                found += value.split()
        return found

    def on(self, key: str) -> bool:
        return is_true(self.last(key) or "no")


def _wrong(asked: _Asked) -> Iterator[Problem]:
    """Quadlet refuses what it does not know, and a container without an image."""
    for item in asked.items:
        if item.key not in _KEYS and not item.key.startswith("X-"):
            yield Problem("unknown-key", item.line, f"Quadlet knows no {item.key}= in [Container] and makes no service",
                          item.file, True)
    if not asked.last("Image") and not asked.last("Rootfs"):
        yield Problem("unit-refused", 1, "no Image=: Quadlet makes no service", "", True)


def _for_traps(own: Unit, asked: _Asked) -> Unit:
    """The unit with the container's variables and command where traps are looked for."""
    moved = [replace(item, section="Service", key="ExecStart" if item.key == "Exec" else item.key)
             for item in asked.items if item.key in ("Environment", "Exec")]
    return Unit((*own.assignments, *moved), own.problems)


def _launches(
    asked: _Asked, kind: Manager, service: dict[str, str], inside: dict[str, str], world: World, name: str,
    unset: list[str]
) -> list[Launch]:
    try:
        command = [kind.expand(word) for word in asked.words("Exec")]
    except UnknownSpecifier:
        command = asked.words("Exec")
    command = environment.fill_in(command, {**kind.base(Unit(())), **service}, unset)
    entry = asked.last("Entrypoint")
    argv = [*([entry] if entry else []), *command]
    wrapper = [kind.expand(word) for word in _wrapper(asked, name, inside)]
    machine = Machine(world)
    shown = world.unknowns.shown
    if not argv:
        world.note("the container runs the command of its image, which is not known")
        return []
    process = Process(argv, dict(inside), wrapper, (), asked.last("WorkingDir"))
    if not peel(machine, process):
        world.launches.append(Launch([shown(word) for word in argv], {k: shown(v) for k, v in sorted(inside.items())},
                                     [shown(word) for word in wrapper], asked.last("WorkingDir"),
                                     world.unknowns.names(*argv)))
    return world.launches


def _wrapper(asked: _Asked, name: str, inside: dict[str, str]) -> list[str]:
    """``podman run …`` up to the image."""
    container = asked.last("ContainerName") or "systemd-%N"
    words = ["/usr/bin/podman", *asked.words("GlobalArgs"),
             *(f"--module={value}" for value in asked.values("ContainersConfModule")), "run", "--name", container,
             "--cidfile=%t/%N.cid", "--replace", "--rm", f"--cgroups={asked.last('CgroupsMode') or 'split'}"]
    for key, option in _OPTIONS.items():
        for value in asked.values(key):
            words += [option, _named(key, value)]
    notify = (asked.last("Notify") or "no").lower()
    words += ["--sdnotify=healthy" if notify == "healthy" else "--sdnotify=container" if is_true(notify)
              else "--sdnotify=conmon", "-d"]
    for key, option in _SINGLE.items():
        single = asked.last(key)
        if single:
            words += [option, single]
    words += list(_switches(asked))
    for key in sorted(inside):
        words += ["--env", f"{key}={inside[key]}"]
    for value in asked.values("EnvironmentFile"):
        words += ["--env-file", value.removeprefix("-")]
    words += asked.words("PodmanArgs")
    return [*words, *(["--rootfs", asked.last("Rootfs") or ""] if asked.last("Rootfs") else [_named(
        "Image", asked.last("Image") or "")])]


def _switches(asked: _Asked) -> Iterator[str]:
    if asked.on("NoNewPrivileges"):
        yield from ("--security-opt", "no-new-privileges")
    if asked.on("SecurityLabelDisable"):
        yield from ("--security-opt", "label=disable")
    for key, label in (("SecurityLabelType", "type"), ("SecurityLabelLevel", "level"),
                       ("SecurityLabelFileType", "filetype")):
        if asked.last(key):
            yield from ("--security-opt", f"label={label}:{asked.last(key)}")
    if asked.last("SeccompProfile"):
        yield from ("--security-opt", f"seccomp={asked.last('SeccompProfile')}")
    for key, option in (("EnvironmentHost", "--env-host"), ("ReadOnly", "--read-only"), ("RunInit", "--init"),
                        ("ReadOnlyTmpfs", "--read-only-tmpfs")):
        if asked.last(key):
            yield option if asked.on(key) else f"{option}=false"
    for key, option in (("AddCapability", "--cap-add"), ("DropCapability", "--cap-drop")):
        for word in asked.words(key):
            yield from (option, word.lower())
    for word in asked.words("Sysctl"):
        yield from ("--sysctl", word)
    for key, option in (("Label", "--label"), ("Annotation", "--annotation")):
        for name, value in sorted(dict(item.partition("=")[::2] for item in asked.words(key)).items()):
            yield from (option, f"{name}={value}")
    if asked.last("AutoUpdate"):
        yield from ("--label", f"io.containers.autoupdate={asked.last('AutoUpdate')}")
    user, group = asked.last("User"), asked.last("Group")
    if user:
        yield from ("--user", f"{user}:{group}" if group else user)


def _named(key: str, value: str) -> str:
    """Other Quadlet files by the names of what they make."""
    if key == "AddDevice":
        return value.removeprefix("-")
    match = re.match(r"([\w@.-]+)\.(network|volume)(?=:|$)", value) if key in ("Network", "Volume") else None
    return f"systemd-{match[1]}{value[match.end():]}" if match else value
