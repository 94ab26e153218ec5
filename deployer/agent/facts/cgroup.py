"""Where a process belongs, by its control group: unit, login session, container. Pure.

Paths as written by systemd (v1 with ``name=systemd``, hybrid, v2), Docker, Podman, containerd and CRI-O (Kubernetes),
LXC, Incus and LXD (``lxc.payload.NAME``), Proxmox (``lxc/ID/ns``) and systemd-nspawn (``machine-NAME.scope``).
"""

from __future__ import annotations

import re
from typing import Optional, Sequence, Tuple

from deployer.protocol import patterns, records

_UNIT = patterns.compile(r".+\.(?:service|scope|socket|mount|swap)")
_SESSION = patterns.compile(r"session-[^/]+\.scope|user@[^/]+\.service|user-runtime-dir@[^/]+\.service")
_HEX = r"[0-9a-f]{12,64}"
_DELETED = " (deleted)"

_IN_ONE_WORD: Tuple[Tuple[str, "re.Pattern[str]"], ...] = (
    ("docker", patterns.compile(r"docker-(" + _HEX + r")\.scope")),
    ("podman", patterns.compile(r"libpod-(?:payload-)?(" + _HEX + r")(?:\.scope)?")),
    ("kubernetes", patterns.compile(r"(?:cri-containerd|crio|containerd)-(" + _HEX + r")(?:\.scope)?")),
    ("nerdctl", patterns.compile(r"nerdctl-(" + _HEX + r")\.scope")),
    ("machine", patterns.compile(r"machine-(.+)\.scope")),
    ("machine", patterns.compile(r"systemd-nspawn@(.+)\.service")),
    ("lxc", patterns.compile(r"lxc\.payload\.(.+)")),
    ("container", patterns.compile(r"([0-9a-f]{64})")),
)
_IN_TWO_WORDS = {"docker": "docker", "lxc": "lxc", "lxc.payload": "lxc"}


@records.dataclass(frozen=True)
class Container:
    """``kind``: docker, podman, kubernetes, nerdctl, lxc, machine, container or group; ``id`` as the path has it."""

    kind: str
    id: str

    def __str__(self) -> str:
        return "{} {}".format(self.kind, self.id[:12] if re.fullmatch(_HEX, self.id) else self.id)


@records.dataclass(frozen=True)
class Place:
    """``path`` is relative to the system's own root; ``unit`` is the outermost unit on it.

    ``session`` names a login session's scope or a user's manager. ``container`` is one inside this system; ``below``
    is the rest of the path inside it. No unit, session or container: the root, a bare slice, or init.scope.
    """

    path: str
    unit: Optional[str] = None
    session: Optional[str] = None
    container: Optional[Container] = None
    below: str = ""


def root_of(init: str) -> str:
    """The path under which a system's units lie, from the text of its PID 1's /proc/1/cgroup."""
    path = systemd_path(init)
    return path[: -len("/init.scope")] if path.endswith("/init.scope") else path.rstrip("/")


def systemd_path(text: str) -> str:
    """The path in systemd's own hierarchy, of the text of a /proc/PID/cgroup file; "/" where there is none."""
    named, unified = "/", "/"
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        path = path[: -len(_DELETED)] if path.endswith(_DELETED) else path
        if controllers == "name=systemd":
            named = path
        elif not controllers:
            unified = path
    return named if named != "/" else unified


def place(text: str, root: str = "") -> Place:
    """What the text of a /proc/PID/cgroup file says, in a system whose units lie under ``root``."""
    path = systemd_path(text)
    inside = path == root or path.startswith(root + "/")
    found = _walk((path[len(root):] if inside else path) or "/")
    if found.unit or found.container:
        return found
    # A container engine that is not systemd's may use the other hierarchies alone.
    for line in text.splitlines():
        other = _walk(line.partition(":")[2].partition(":")[2])
        if other.container and not (root and inside):
            return records.replace(other, unit=None, session=None)
    return found


def _walk(path: str) -> Place:
    parts = [part for part in path.split("/") if part and part != ".."]
    unit: Optional[str] = None
    session: Optional[str] = None
    for index, part in enumerate(parts):
        container, used = _container(parts, index)
        if container:
            return Place(path, unit, session, container, "/" + "/".join(parts[index + used:]))
        if unit is None and _UNIT.fullmatch(part) and not (index == 0 and part == "init.scope"):
            if not all(before.endswith(".slice") for before in parts[:index]):
                # Units of this system lie under slices alone: this is another systemd's, in a group of its own.
                below = "/" + "/".join(parts[index:])
                return Place(path, None, None, Container("group", "/".join(parts[:index])), below)
            unit = part
            session = part if _SESSION.fullmatch(part) else None
    return Place(path, unit, session)


def _container(parts: Sequence[str], index: int) -> Tuple[Optional[Container], int]:
    """The container that begins at this part of the path, and how many parts name it."""
    part = parts[index]
    if part.startswith("kubepods"):
        return Container("kubernetes", _pod(parts[index:])), len(parts) - index
    if part in _IN_TWO_WORDS and index + 1 < len(parts) and (part != "docker" or re.fullmatch(_HEX, parts[index + 1])):
        skip = 1 if parts[index + 2: index + 3] == ["ns"] else 0
        return Container(_IN_TWO_WORDS[part], parts[index + 1]), 2 + skip
    for kind, pattern in _IN_ONE_WORD:
        match = pattern.fullmatch(part)
        if match:
            return Container(kind, match.group(1).replace("\\x2d", "-")), 1
    return None, 0


def _pod(parts: Sequence[str]) -> str:
    """The container's id under kubepods, or the pod's where the path ends there."""
    matches = [re.search(r"(" + _HEX + r")(?:\.scope)?$", part) for part in parts]
    ids = [match.group(1) for match in matches if match]
    return ids[-1] if ids else parts[-1]
