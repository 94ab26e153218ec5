"""``hosts.toml`` as hosts and groups, and destinations as an admin writes them on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.errors import UsageError
from deployer.protocol import patterns, records
from deployer.protocol.finding import Finding, Level
from deployer.settings.document import Document
from deployer.settings.host_keys import HOSTS, expand
from deployer.settings.model import Host
from deployer.settings.sink import Sink, nearest
from deployer.settings.spans import canonical
from deployer.settings.words import quoted

LOCAL = "local"


@records.dataclass(frozen=True)
class LoadedHosts:
    """``hosts`` and ``groups`` in the file's order, without those that had errors; ``become`` is the default's."""

    hosts: Mapping[str, Host] = records.field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = records.field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    become: str = Host.become


def load_hosts(document: Document, root: Path, units: Sequence[str]) -> LoadedHosts:
    """All hosts of a ``hosts.toml``; ``units`` are the workspace's units, for findings about names that are none."""
    if document.data is None:
        return LoadedHosts(findings=document.findings)
    sink = Sink(document.places, HOSTS)
    whole = HOSTS.read(document.data, (), sink)
    written: Mapping[str, Any] = whole if isinstance(whole, dict) else _tolerant(document)
    defaults = written.get("defaults", {})
    hosts = {name: _host(name, {**defaults, **table}, root) for name, table in written.get("hosts", {}).items()}
    groups = written.get("groups", {})
    for name, table in _tables(document.data.get("hosts")).items():
        _check_host(name, table, units, sink)
    _check_groups(groups, list(_tables(document.data.get("hosts"))), sink)
    return LoadedHosts(hosts, groups, tuple(sink.findings), defaults.get("become", Host.become))


def _tolerant(document: Document) -> dict[str, Any]:
    """What is good of a file, host by host and group by group, so that one slip does not hide the other hosts."""
    data = document.data or {}
    result: dict[str, Any] = {}
    for section in ("defaults", "hosts", "groups"):
        value = data.get(section)
        if not isinstance(value, dict):
            continue
        if section == "defaults":
            result[section] = _one(document, {section: value}).get(section, {})
        else:
            parts = {name: _one(document, {section: {name: entry}}) for name, entry in value.items()}
            result[section] = {name: part[section][name] for name, part in parts.items() if part}
    return result


def _one(document: Document, data: dict[str, Any]) -> dict[str, Any]:
    sink = Sink(document.places)
    read = HOSTS.read(data, (), sink)
    return read if isinstance(read, dict) else {}


def _host(name: str, table: Mapping[str, Any], root: Path) -> Host:
    values = dict(table)
    if "identity_file" in values:
        values["identity_file"] = expand(values["identity_file"], root)
    if name == LOCAL:
        values = {key: value for key, value in values.items() if key in ("become", "units", "hypervisor", "overrides")}
    return Host(name, **values)


def _tables(value: Any) -> dict[str, dict[str, Any]]:
    """The tables in a table as it was written, good or not."""
    return {name: entry for name, entry in value.items() if isinstance(entry, dict)} if isinstance(value, dict) else {}


def _check_host(name: str, written: Mapping[str, Any], units: Sequence[str], sink: Sink) -> None:
    """What a host's table says about things outside it."""
    key = ("hosts", name)
    listed = written.get("units")
    for index, unit in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(unit, str) and unit not in units:
            message = f"host `{name}` runs {quoted(unit)}, which is no unit"
            sink.value("unknown-unit", (*key, "units", str(index)), message, _near_unit(unit, units))
    for unit in _tables(written.get("overrides")):
        if unit not in units and ("unquoted-name", (*key, "overrides", unit)) not in _unquoted(sink):
            message = f"overrides of {quoted(unit)}, which is no unit"
            sink.key("unknown-unit", (*key, "overrides", unit), message, _near_unit(unit, units))
    hypervisor = written.get("hypervisor")
    if isinstance(hypervisor, dict) and hypervisor.get("host") == name:
        message = f"host `{name}` is named as its own hypervisor"
        sink.value("conflict", (*key, "hypervisor", "host"), message, "name the machine around it")
    for field in written if name == LOCAL else ():
        if canonical(field) in ("address", "user", "port", "identity-file"):
            message = f"`{field}` has no effect: `local` is this machine without SSH"
            sink.key("no-effect", (*key, field), message, "take it out", Level.WARNING)


def _unquoted(sink: Sink) -> set[tuple[str, tuple[str, ...]]]:
    return {(finding.code, finding.key[:-1]) for finding in sink.findings}


def _near_unit(unit: str, units: Sequence[str]) -> str:
    dotted = next((name for name in units if name.startswith(f"{unit}.")), None)
    if dotted:
        return f'a name with dots stands in quotes: "{dotted}"'
    near = nearest(unit, units)
    return f"did you mean {near}?" if near else f"write units/{unit}.toml, or take the name out"


def _check_groups(groups: Mapping[str, Sequence[str]], hosts: Sequence[str], sink: Sink) -> None:
    for name, members in groups.items():
        for index, member in enumerate(members):
            key = ("groups", name, str(index))
            if member.startswith("@"):
                if member[1:] not in groups:
                    near = nearest(member[1:], list(groups))
                    hint = f"did you mean @{near}?" if near else ""
                    sink.value("unknown-group", key, f"group `{name}` holds {member}, which is no group", hint)
                elif name in _reached(member[1:], groups):
                    message = f"group `{name}` holds itself by way of {member}"
                    sink.value("conflict", key, message, "take one of them out")
            elif member not in hosts and (near := _meant(member, hosts)):
                message = f"group `{name}` holds {quoted(member)}, which is not in this file"
                hint = f"did you mean {near}? A host of ssh_config alone needs nothing here"
                sink.value("unknown-host", key, message, hint, Level.WARNING)


def _meant(member: str, hosts: Sequence[str]) -> str | None:
    """The host that a misspelt one was meant to be; one that differs in its number alone is another host."""
    if member == LOCAL:
        return None
    spelt = re.sub(r"\d+", "0", member)
    return nearest(member, [host for host in hosts if re.sub(r"\d+", "0", host) != spelt], 0.75)


def _reached(group: str, groups: Mapping[str, Sequence[str]]) -> set[str]:
    reached, waiting = {group}, [group]
    while waiting:
        below = {member[1:] for member in groups.get(waiting.pop(), ()) if member.startswith("@")}
        waiting += below - reached
        reached |= below
    return reached


_URI = patterns.compile(r"ssh://(?P<rest>[^/]+)/?")
_DESTINATION = patterns.compile(
    r"(?:(?P<user>\S+)@)?"
    r"(?:(?P<v6>[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?)"
    r"|(?:\[(?P<bracketed>[^\]\s]+)\]|(?P<plain>[^\[\]@:/\s]+))(?::(?P<port>[0-9]+))?)"
)


def destination(name: str, loaded: LoadedHosts) -> Host:
    """The host that ``name`` stands for: of hosts.toml, ``local``, or anything that ``ssh`` itself would take.

    ``user@host:port``, ``[2001:db8::1]:22`` and ``ssh://`` forms are understood; user and port of such a form come
    before those of hosts.toml. Of ``[defaults]`` only ``become`` holds for a host that hosts.toml does not name: its
    user, port and key are ssh_config's. Raises ``UsageError``.
    """
    if name in loaded.hosts:
        return loaded.hosts[name]
    if name == LOCAL:
        return Host(LOCAL, become=loaded.become)
    uri = _URI.fullmatch(name)
    match = _DESTINATION.fullmatch(uri["rest"] if uri else name)
    if not match or name.startswith("-") or (match["port"] and not 0 < int(match["port"]) < 65536):
        raise UsageError(f"{quoted(name)} is no host", hint="write a name, user@host, or user@host:port")
    bare = match["bracketed"] or match["plain"] or match["v6"]
    port = int(match["port"]) if match["port"] else None
    known = loaded.hosts.get(bare)
    if known and not known.local:
        return records.replace(known, user=match["user"] or known.user, port=port or known.port)
    address = bare if bare != name else None
    return Host(name, address, match["user"], port, become=loaded.become)


def resolve(names: Sequence[str], loaded: LoadedHosts) -> list[Host]:
    """The hosts that ``names`` stand for, groups filled in, each host once, in order. Raises ``UsageError``."""
    found: dict[str, Host] = {}
    waiting = list(reversed(names))
    opened: set[str] = set()
    while waiting:
        name = waiting.pop()
        if not name.startswith("@"):
            host = destination(name, loaded)
            found.setdefault(host.name, host)
        elif name[1:] not in loaded.groups:
            near = nearest(name[1:], list(loaded.groups))
            known = ", ".join(f"@{group}" for group in loaded.groups)
            listed = f"groups are {known}" if known else "hosts.toml has no [groups]"
            hint = f"did you mean @{near}?" if near else listed
            raise UsageError(f"no group {name}", hint=hint)
        elif name not in opened:
            opened.add(name)
            waiting += reversed(loaded.groups[name[1:]])
    return list(found.values())
