"""Every key of ``hosts.toml``, with its description: validation, JSON Schema and model in one place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from deployer.protocol import records
from deployer.settings.model import Hypervisor
from deployer.settings.scalars import Number, Text
from deployer.settings.shape import Field, Kind, ListOf, MapOf, Schema, Table
from deployer.settings.sink import Key, Sink, nearest
from deployer.settings.unit_keys import UNIT
from deployer.settings.words import dotted, toml

HOST_NAME = r"[A-Za-z0-9][A-Za-z0-9._:%-]*"
UNIT_NAME = r"[A-Za-z0-9_][A-Za-z0-9:_.-]*"
"""The characters of a unit's name that need no quoting (systemd.unit(5)), ``@`` left out: templates are not units."""


class Named(MapOf):
    """Tables by names that may hold dots. Without quotes such a name is several keys to TOML: the hint says so."""

    def __init__(self, item: Kind, name: str, name_words: str, known: Callable[[], Iterable[str]]) -> None:
        super().__init__(item, name, name_words)
        self.known = known

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if not isinstance(value, dict):
            return super().read(value, key, sink)
        whole = {}
        for name, entry in value.items():
            parts = self._unquoted(entry)
            if parts:
                path = (*key, name, parts[0])
                message = f"`{dotted(key)}.{name}.{parts[0]}`: a name with dots stands in quotes"
                sink.key("unquoted-name", path, message, f'write [{dotted(key)}."{".".join([name, *parts])}"]')
            else:
                whole[name] = entry
        return super().read(whole, key, sink)

    def _unquoted(self, entry: Any) -> list[str]:
        """The rest of a dotted name that was written without quotes; empty for an ordinary one."""
        known = list(self.known())
        for name, below in entry.items() if isinstance(entry, dict) else ():
            if isinstance(below, dict) and not nearest(name, known, 0.75):
                return [name, *self._unquoted(below)]
        return []


class ContainerName(Kind):
    words = "the number or the name of a container"

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return str(value)
        if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", value):
            return value
        return self.wrong(value, key, sink)

    def schema(self) -> Schema:
        name = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$"}
        return {"anyOf": [{"type": "integer", "minimum": 0}, name]}


class Overrides(Kind):
    """A unit's settings, each optional. Kept as written: they are merged in TOML's own terms, then read as one."""

    words = "a table of settings"

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if not isinstance(value, dict):
            return self.wrong(value, key, sink)
        part = Sink(sink.spans, UNIT, sink.prefix + key, partial=True)
        UNIT.read(value, (), part)
        for finding in part.findings:
            sink.take(records.replace(finding, key=(*key, *finding.key)))
        return value

    def schema(self) -> Schema:
        return {"$ref": "#/$defs/overrides"}


class Members(ListOf):
    def list_hint(self, value: Any, key: Key) -> str:
        return f"write {key[-1]} = {toml([value])}" if isinstance(value, str) else ""


_DEFAULTS = {
    "user": Field(Text("a user's name"), "The user who logs in. Not given: what ssh_config says.", example="admin"),
    "port": Field(Number("a port", 1, 65535), "The SSH server's port. Not given: what ssh_config says.", example=22),
    "identity-file": Field(
        Text("a path"), "The private key to log in with; relative to the workspace.", example="~/.ssh/id_ed25519"
    ),
    "become": Field(
        Text(choices=("sudo", "none")),
        'How the agent becomes root: "sudo", or "none" where the user who logs in is root.',
        example="sudo",
    ),
}

_HOST_FIELDS = {
    "address": Field(
        Text("a name or an address", pattern=r"[^\s/@]+"),
        "What SSH connects to. Not given: the host's name here, which ssh_config may know.",
        example="192.0.2.11",
    ),
    **_DEFAULTS,
    "units": Field(
        ListOf(Text("the name of a unit", pattern=UNIT_NAME), "a list of units' names"),
        "The units that this host runs: what a push without --unit brings there.",
        example=["qwen3.5-397b"],
    ),
    "hypervisor": Field(
        Table(
            {
                "host": Field(
                    Text("a host", pattern=r"[^\s/]+"),
                    "The machine outside, as a name of this file or of ssh_config.",
                    required=True,
                    example="pve1",
                ),
                "container": Field(
                    ContainerName(), "This host's container there: its number or name.", required=True, example=129
                ),
            },
            Hypervisor,
        ),
        "Where this host is a container of Proxmox, LXC or Incus: GPU memory whose holder cannot be seen from "
        "inside is looked for there.",
        example={"host": "pve1", "container": 129},
    ),
    "overrides": Field(
        Named(Overrides(), UNIT_NAME, "the name of a unit", lambda: UNIT.fields),
        "This host's own values for a unit, merged over units/NAME.toml key by key. `false` takes a key away where "
        "it is no value of its own.",
        example={"qwen3.5-397b": {"args": {"port": 30001}}},
    ),
}

HOSTS = Table(
    {
        "defaults": Field(Table(_DEFAULTS), "What holds for each host of this file that does not say otherwise."),
        "hosts": Field(
            Named(Table(_HOST_FIELDS), HOST_NAME, "a host's name", lambda: _HOST_FIELDS),
            "The hosts by name: [hosts.NAME]. `local` is this machine without SSH.",
        ),
        "groups": Field(
            MapOf(
                Members(Text("a host or @group", pattern=r"\S+"), "a list of hosts"),
                r"[A-Za-z0-9_][A-Za-z0-9_.-]*",
                "a group's name",
            ),
            "Groups of hosts, written @NAME on the command line; a group may hold another as @NAME.",
            example={"coding": ["gpu1", "gpu2"]},
        ),
    }
)


def expand(path: str, root: Path) -> Path:
    """A path of the operator's machine: ``~`` filled in, else relative to the workspace."""
    return root / Path(path).expanduser()
