"""A command line on its way to the server: what it would get, and what ``env``, ``exec`` and ``sudo`` make of it."""

from __future__ import annotations

import re

from deployer.intake.found import server
from deployer.intake.machine import Machine
from deployer.intake.words import split
from deployer.protocol.records import dataclass, field, replace


@dataclass(frozen=True)
class Process:
    """A command line with what it would get. ``shell``: the variables that a shell started by it would see."""

    argv: list[str]
    env: dict[str, str]
    wrapper: list[str] = field(default_factory=list)
    removed: tuple[str, ...] = ()
    cwd: str | None = None
    exe: str | None = None
    container: dict[str, object] | None = None


def child_of(machine: Machine, process: Process) -> Machine:
    child = machine.child(process.env, process.removed)
    child.cwd, child.wrapper, child.background = process.cwd, list(process.wrapper), process.container
    if process.container is not None and machine.background is None:
        child.start, child.inherited, child.sourced = None, {}, {}
    return child


def env_of(machine: Machine, process: Process) -> Process | None:
    """``env``: options, then assignments, then the command."""
    env, removed, cwd = dict(process.env), list(process.removed), process.cwd
    argv = process.argv[1:]
    while argv:
        word = argv[0]
        if word in ("-i", "-", "--ignore-environment"):
            env, removed, argv = {}, [*removed, *process.env], argv[1:]
        elif word in ("-u", "--unset", "-C", "--chdir") and len(argv) > 1:
            env, cwd = _taken(env, removed, cwd, word, argv[1])
            argv = argv[2:]
        elif re.match(r"-u.|--unset=|--chdir=|-C.", word):
            option, _, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
            env, cwd = _taken(env, removed, cwd, option, value)
            argv = argv[1:]
        elif word in ("-S", "--split-string") or word.startswith(("-S", "--split-string=", "-vS")):
            apart = word in ("-S", "--split-string", "-vS")
            text = "".join(argv[1:2]) if apart else re.sub(r"^(-v?S|--split-string=)", "", word)
            argv = [*machine.words.fields(split(text)), *argv[2 if apart else 1:]]
        elif word == "--":
            argv = argv[1:]
            break
        elif word.startswith("-"):
            argv = argv[1:]
        else:
            break
    while argv and re.match(r"[^=]+=", argv[0]):
        name, _, value = argv[0].partition("=")
        env[name] = value
        argv = argv[1:]
    return replace(process, argv=argv, env=env, removed=tuple(removed), cwd=cwd) if argv else None


def _taken(env: dict[str, str], removed: list[str], cwd: str | None, option: str, value: str) -> tuple[
        dict[str, str], str | None]:
    if option in ("-u", "--unset"):
        removed.append(value)
        return {key: item for key, item in env.items() if key != value}, cwd
    return env, value


def without_first(process: Process, name: str) -> Process:
    argv = process.argv[1:]
    exe, first = process.exe, None
    while argv and argv[0].startswith("-"):
        if name == "exec" and argv[0] in ("-a", "-la", "-ca") and len(argv) > 1:
            first, argv = argv[1], argv[2:]
        else:
            argv = argv[1:]
    if first is not None and argv:
        exe, argv = argv[0], argv
        if server(argv):
            return replace(process, argv=[first, *argv[1:]] if server([first, *argv[1:]]) else argv, exe=exe)
    return replace(process, argv=argv, exe=exe)


def with_sudo(process: Process) -> Process:
    """Assignments among sudo's words reach the command's environment."""
    env, argv, at = dict(process.env), process.argv, 1
    while at < len(argv):
        word = argv[at]
        if re.match(r"[A-Za-z_]\w*=", word):
            name, _, value = word.partition("=")
            env[name] = value
            argv = argv[:at] + argv[at + 1:]
        elif word.startswith("-"):
            at += 2 if word in ("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-U", "-D", "--user", "--group") else 1
        else:
            break
    return replace(process, argv=argv, env=env)
