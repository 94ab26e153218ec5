"""Declared directives of systemd: whether systemd reads them, and what they do to an SGLang server.

The effects on the server were tried on systemd 252 (hardening against a GPU server) or follow from systemd.exec(5),
systemd.service(5) and SGLang's sources (it neither forks nor notifies, and its log is its journal).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deployer.protocol.finding import Finding, Level
from deployer.settings.model import DirectiveValue, UnitSettings, Venv
from deployer.systemd import directives, values

HOMES = ("/home/", "/root/", "/run/user/")

Table = Mapping[str, DirectiveValue]


def judge(settings: UnitSettings) -> list[Finding]:
    """Findings with the keys of the directives, as declared under [unit], [service] and [install]."""
    found: list[Finding] = []
    for section, table in settings.directives.items():
        for name, value in table.items():
            found += _read_by_systemd(section, name, texts(value))
    service = settings.directives.get("Service", {})
    for name, value in service.items():
        said = _SENSE.get(name)
        if said:
            found += said(name, texts(value), settings)
    return found


def texts(value: DirectiveValue) -> list[str]:
    """A declared value as the texts behind ``Key=``, one for each line."""
    items = value if isinstance(value, list) else [value]
    return [("yes" if item else "no") if isinstance(item, bool) else str(getattr(item, "written", item))
            for item in items]


def _read_by_systemd(section: str, name: str, written: Sequence[str]) -> Iterator[Finding]:
    key = (section.lower(), name)
    if not directives.known(section, name):
        home, near = directives.home(name), directives.nearest(section, name)
        if home:
            code = "startlimit-in-service" if name.startswith("StartLimit") else "key-in-wrong-section"
            yield Finding(code, Level.ERROR, f"{name}= has no effect in [{section}]: it belongs to [{home}]", key,
                          hint=f"move it to [{home.lower()}]")
        else:
            yield Finding("unknown-directive", Level.ERROR, f"systemd knows no {name}= in [{section}], and ignores it",
                          key, hint=f"did you mean {near}?" if near else "")
        return
    if section == "Service" and name in directives.TAKEN_IN_SERVICE and name.startswith("StartLimit"):
        yield Finding("startlimit-in-service", Level.WARNING, f"{name}= belongs to [Unit]; this old place still works",
                      key, hint="move it to [unit]")
    kind = directives.kind(section, name)
    for value in written:
        if not values.accepted(value, kind.value, name):
            yield Finding("bad-directive", Level.ERROR, f"systemd does not read {name}={value}, and ignores it", key,
                          hint=f"it takes a value such as {_EXAMPLES[kind.value]}" if kind.value in _EXAMPLES else "")
    if kind.since > directives.UNKNOWN.since:
        yield Finding("newer-systemd", Level.NOTE, f"{name}= needs systemd {kind.since}; older ones ignore it", key)


_EXAMPLES = {"BOOLEAN": "yes or no", "SECONDS": "90s or 5min", "LIMIT": "infinity or 65536", "LONG": "10",
             "UNSIGNED": "10", "MODE": "0750", "SIGNAL": "SIGTERM"}


def _true(written: Sequence[str]) -> bool:
    return bool(written) and values.is_true(written[-1])


def _finding(code: str, name: str, message: str, hint: str = "", level: Level = Level.ERROR) -> list[Finding]:
    return [Finding(code, level, message, ("service", name), hint=hint)]


def _type(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    kind = written[-1] if written else ""
    if kind in ("notify", "notify-reload"):
        return _finding("type-notify", name, "SGLang sends no sd_notify: with Type=notify the start never ends, and "
                        "fails at its timeout", "take Type out; the template's is exec")
    if kind == "forking":
        return _finding("type-forking", name, "SGLang does not fork: with Type=forking the start never ends",
                        "take Type out; the template's is exec")
    if kind in ("oneshot", "dbus"):
        return _finding(f"type-{kind}", name, f"a server is no Type={kind}", "take Type out; the template's is exec")
    return []


def _devices(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    if settings.gpu.devices is None:
        return []
    if name == "PrivateDevices" and not _true(written):
        return []
    if name == "DevicePolicy" and written[-1:] != ["strict"]:
        return []
    return _finding("private-devices", name, f"{name}={written[-1]} hides the GPUs from the server",
                    f"take {name} out")


def _executable(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    if not _true(written):
        return []
    return _finding("memory-deny-write-execute", name, "MemoryDenyWriteExecute=yes forbids code that is made at run "
                    "time: PyTorch, Triton and CUDA need it", "take it out")


def _home(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    value = written[-1] if written else "no"
    if value in ("no", "false", "0", "off"):
        return []
    used = _paths(settings)
    if value == "read-only":
        return []
    if used:
        return _finding("protect-home", name, f"ProtectHome={value} hides {used[0]}, which the unit uses",
                        "take it out, or write ProtectHome = \"read-only\"")
    return []


def _paths(settings: UnitSettings) -> list[str]:
    """Paths in home folders that the unit uses."""
    found = [settings.runtime.python] if isinstance(settings.runtime, Venv) else []
    found += [value for value in (*settings.args.values(), *settings.env.values(), *settings.wrapper)
              if isinstance(value, str)]
    return [path for path in found if path.startswith(HOMES)]


def _families(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    allowed = {word for line in written for word in line.split()}
    if not allowed or any(word.startswith("~") for word in allowed) or "none" in allowed:
        return []
    missing = sorted({"AF_UNIX", "AF_NETLINK"} - allowed)
    if not missing:
        return []
    return _finding("address-families", name, f"SGLang and NCCL need {' and '.join(missing)}, which "
                    "RestrictAddressFamilies= leaves out", f"add {' '.join(missing)}")


def _proc(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    if written[-1:] != ["pid"]:
        return []
    return _finding("proc-subset", name, "ProcSubset=pid hides /proc/meminfo, which SGLang reads", "take it out")


def _calls(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    if not any("@resources" in line and line.lstrip().startswith("~") for line in written):
        return []
    return _finding("system-calls", name, "without the @resources calls CUDA and NUMA placement fail: it was tried",
                    "leave @resources in")


def _network(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    return _finding("private-network", name, "PrivateNetwork=yes leaves the server unreachable", "take it out") if (
        _true(written)) else []


def _kill(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    mode = written[-1] if written else ""
    if mode in ("process", "none"):
        return _finding("kill-mode", name, f"KillMode={mode} leaves the schedulers running on the GPUs after a stop",
                        "take it out; the template's is mixed")
    if mode == "control-group":
        return _finding("kill-mode", name, "KillMode=control-group ends the schedulers at once, with the requests "
                        "under way", "take it out; the template's is mixed", Level.WARNING)
    return []


def _start(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    kind = texts(settings.directives.get("Service", {}).get("Type", "exec"))[-1:]
    if kind not in (["exec"], ["simple"], ["idle"]):
        return []
    return _finding("timeoutstart-on-simple", name, f"{name}= does not cover the loading of the model: with Type="
                    f"{kind[0]} the start has ended long before", "write deadline under [verify]", Level.WARNING)


def _stop(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    given = values.seconds(written[-1]) if written else None
    if given is None or given == 0 or given >= settings.verify.drain:
        return []
    return _finding("stop-before-drain", name, f"{name}={written[-1]} ends the server before the drain of "
                    f"{settings.verify.drain:g} s is over", "make it longer, or drain under [verify] shorter",
                    Level.WARNING)


def _watchdog(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    given = values.seconds(written[-1]) if written else None
    if not given:
        return []
    return _finding("watchdog-without-notify", name, "SGLang sends no keep-alive: WatchdogSec= kills it again and "
                    "again", "take it out; a [watch] table asks for health instead")


def _output(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    target = written[-1] if written else ""
    if target.split(":")[0] not in ("null", "file", "append", "truncate", "tty", "socket"):
        return []
    return _finding("log-not-in-journal", name, f"{name}={target} keeps the log out of the journal, where a push "
                    "watches the start", "take it out", Level.WARNING)


def _roots(name: str, written: Sequence[str], settings: UnitSettings) -> list[Finding]:
    user = texts(settings.directives.get("Service", {}).get("User", "root"))[-1:]
    if user == ["root"] or not any("%h" in line.replace("%%", "") for line in written):
        return []
    return _finding("percent-h-is-roots-home", name, f"%h is root's home in a system unit, not {user[0]}'s",
                    "write the path", Level.WARNING)


_SENSE = {
    "Type": _type, "PrivateDevices": _devices, "DevicePolicy": _devices, "MemoryDenyWriteExecute": _executable,
    "ProtectHome": _home, "RestrictAddressFamilies": _families, "ProcSubset": _proc, "SystemCallFilter": _calls,
    "PrivateNetwork": _network, "KillMode": _kill, "TimeoutStartSec": _start, "TimeoutStopSec": _stop,
    "WatchdogSec": _watchdog, "StandardOutput": _output, "StandardError": _output, "WorkingDirectory": _roots,
    "ReadWritePaths": _roots, "EnvironmentFile": _roots, "ExecStartPre": _roots, "Environment": _roots,
}
