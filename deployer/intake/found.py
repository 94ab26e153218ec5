"""What an import finds: server processes, and what is said about them."""

from __future__ import annotations

from typing import Any

from deployer.protocol.records import dataclass, field


@dataclass
class Launch:
    """One server process as it would be executed. Texts that are not known stand as ``${NAME}`` or ``$(command)``.

    ``env``: what the script or unit sets. ``wrapper``: the words in front (numactl …, docker run … image). ``cwd``:
    None where nothing changes it. ``exe``: the program where argv[0] does not tell. ``sourced``: variables that an
    activated environment adds. ``container``: what docker was asked for. ``line`` counts from 1; 0: not known.
    ``opaque``: the texts above that hold something unknown, ``marks`` how that is written in them.
    """

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    wrapper: list[str] = field(default_factory=list)
    cwd: str | None = None
    unresolved: list[str] = field(default_factory=list)
    exe: str | None = None
    removed: list[str] = field(default_factory=list)
    sourced: dict[str, str] = field(default_factory=dict)
    container: dict[str, Any] | None = None
    line: int = 0
    name: str | None = None
    marks: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()


SERVERS = {"sglang.launch_server": "sglang", "sglang_router.launch_router": "router",
           "sglang_router.launch_server": "router", "sglang.srt.entrypoints.http_server": "sglang"}
"""Modules that serve, and the program of the settings that they are."""


def server(argv: list[str]) -> tuple[str, int] | None:
    """Whether a command line starts a server: its program, and where its own arguments begin."""
    import re

    name = argv[0].rpartition("/")[2] if argv else ""
    if name == "sglang" and argv[1:2] == ["serve"]:
        return "sglang", 2
    if name in ("sglang-router", "sglang_router", "smg"):
        return "router", 2 if argv[1:2] == ["launch"] else 1
    if not re.fullmatch(r"(?:python|pypy)[\d.]*", name):
        return module(argv) if name.startswith("sgl") else None
    return module(argv)


def module(argv: list[str]) -> tuple[str, int] | None:
    """The same behind an interpreter of any name: ``-m sglang.launch_server``, or the file of that name."""
    at = 1
    while at < len(argv):
        word = argv[at]
        if word == "-m" and at + 1 < len(argv):
            program = SERVERS.get(argv[at + 1])
            return (program, at + 2) if program else _serve(argv, at + 1)
        if word.startswith("-m"):
            program = SERVERS.get(word[2:])
            return (program, at + 1) if program else None
        if word in ("-X", "-W"):
            at += 2
        elif word.startswith("-") and word not in ("-", "-c"):
            at += 1
        else:
            tail = word.replace("/", ".").removesuffix(".py")
            found = next((SERVERS[each] for each in SERVERS if tail == each or tail.endswith("." + each)), None)
            return (found or "sglang", at + 1) if found or word.rpartition("/")[2] == "launch_server.py" else None
    return None


def _serve(argv: list[str], at: int) -> tuple[str, int] | None:
    """``python -m sglang serve`` and ``python -m sglang.cli.main serve``."""
    if argv[at] in ("sglang", "sglang.cli.main") and argv[at + 1 : at + 2] == ["serve"]:
        return "sglang", at + 2
    return None
