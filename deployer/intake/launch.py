"""From a command line to the server behind it: wrappers, ``env``, shells within shells, terminals, containers."""

from __future__ import annotations

import re

from deployer.intake import docker
from deployer.intake.elsewhere import terminal, text_for_a_shell
from deployer.intake.found import Launch, server
from deployer.intake.machine import Machine
from deployer.intake.process import Process, child_of, env_of, with_sudo, without_first
from deployer.protocol.records import replace

SHELLS = {"bash", "sh", "dash", "zsh", "ksh", "ash"}
_LEFT_OUT = {"nohup", "setsid", "exec", "command", "builtin", "time", "env", "then", "do", "!"}
_NO_SERVER = {"echo", "printf", "cat", "grep", "egrep", "pgrep", "pkill", "kill", "killall", "ps", "which", "type",
              "man", "alias", "logger", "test", "[", "sed", "awk", "tee", "notify-send", "trap", "history", "vim",
              "nano", "less", "rm", "cp", "mv", "ls", "find", "pip", "export", "curl", "wget", "git"}


def start(machine: Machine, args: list[str], environment: dict[str, str]) -> bool:
    """Follows ``args`` to the servers that they start; False where they start none that is known."""
    process = Process(args, environment, list(machine.wrapper), (), machine.cwd, None, machine.background)
    return peel(machine, process)


def peel(machine: Machine, process: Process, depth: int = 0) -> bool:
    argv = process.argv
    if not argv or depth > 20:
        return False
    name = argv[0].rpartition("/")[2]
    if server(argv):
        _record(machine, process)
        return True
    if name in SHELLS:
        return _shell(machine, process)
    if name == "env":
        inner = env_of(machine, process)
        return bool(inner) and peel(machine, inner, depth + 1) if inner else False
    if name in _LEFT_OUT:
        return peel(machine, without_first(process, name), depth + 1)
    if name in ("tmux", "screen", "byobu"):
        return terminal(machine, process, name, lambda inner: peel(machine, inner, depth + 1))
    if name in docker.CLIENTS:
        return _container(machine, process, depth)
    if name in ("ssh", "su", "script"):
        return text_for_a_shell(machine, process, name)
    if name == "sudo":
        process = with_sudo(process)
    if name in _NO_SERVER or name.startswith("-") or machine.unknowns.found(name):
        return False
    return _wrapped(machine, process, depth)


def _wrapped(machine: Machine, process: Process, depth: int) -> bool:
    """A program that runs another one, whose words stand behind its own options."""
    argv = process.argv
    for at in range(1, len(argv)):
        rest, name = argv[at:], argv[at].rpartition("/")[2]
        if name in _NO_SERVER and at == 1:
            return False
        begins = server(rest) or (name in SHELLS and _command_of(rest)[0] is not None) or name in docker.CLIENTS or (
            name in (*_LEFT_OUT, "numactl", "taskset", "nice", "ionice", "chrt", "stdbuf", "timeout", "sudo"))
        if begins and len(rest) > 1:
            inner = replace(process, argv=rest, wrapper=[*process.wrapper, *argv[:at]])
            if peel(machine, inner, depth + 1):
                return True
    path = argv[0]
    text = machine.world.files.read(path, machine.folder) if "/" in path else None
    if text is not None and re.match(r"#!.*\b(?:ba|da|k|z)?sh\b|[A-Za-z_#{(]", text) and "\0" not in text[:200]:
        _script(machine, process, text, argv)
        return True
    return False


def _record(machine: Machine, process: Process) -> None:
    unknowns = machine.unknowns
    shown = unknowns.shown
    texts = [*process.argv, *process.wrapper, *process.env.values(), process.cwd or ""]
    decided = [name for name in machine.decided if not name.startswith(("*", "/"))]
    names = list(dict.fromkeys([*unknowns.names(*texts), *decided]))
    removed = [name for name in dict.fromkeys([*machine.unset, *process.removed]) if name not in process.env]
    exe = process.exe
    program = process.argv[0]
    sourced = {} if process.container else dict(machine.sourced)
    folder = sourced.get("VIRTUAL_ENV", sourced.get("CONDA_PREFIX"))
    if exe is None and "/" not in program and folder:
        exe = f"{folder}/bin/{program}"
    hidden = [*texts, exe or ""]
    machine.world.launches.append(Launch(
        argv=[shown(word) for word in process.argv],
        env={key: shown(value) for key, value in sorted(process.env.items())},
        wrapper=[shown(word) for word in process.wrapper],
        cwd=shown(process.cwd) if process.cwd else None,
        unresolved=names, exe=shown(exe) if exe else None, removed=removed,
        sourced={key: shown(value) for key, value in sourced.items()},
        container=dict(process.container) if process.container else None, line=machine.line,
        marks=unknowns.marks(*hidden), opaque=tuple(shown(text) for text in hidden if unknowns.found(text)),
    ))


def _command_of(argv: list[str]) -> tuple[str | None, list[str], str | None]:
    """The text behind ``-c``, the words behind it, and else the script's file."""
    at, wants, stdin = 1, False, False
    while at < len(argv):
        word = argv[at]
        if word == "--":
            at += 1
            break
        if word in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            at += 2
        elif re.fullmatch(r"-[A-Za-z]+", word):
            wants, stdin = wants or "c" in word, stdin or "s" in word
            at += 2 if word.endswith("o") else 1
        elif word.startswith("--"):
            at += 1
        else:
            break
    rest = argv[at:]
    if wants:
        return (rest[0] if rest else None), rest[1:], None
    if stdin:
        return None, rest, None
    return None, rest[1:], (rest[0] if rest else None)


def _shell(machine: Machine, process: Process) -> bool:
    from deployer.intake.run import script

    text, rest, file = _command_of(process.argv)
    if text is not None:
        child = child_of(machine, process)
        child.script, child.positional = rest[0] if rest else "bash", rest[1:]
        script(child, text)
        return True
    if file is None:
        if machine.input is not None:
            child = child_of(machine, process)
            child.positional, child.input = rest, None
            script(child, machine.input)
            return True
        return False
    text = machine.world.files.read(file, process.cwd or machine.start)
    if text is None:
        machine.world.note(f"line {machine.line}: the script {machine.unknowns.shown(file)} is not here: "
                           "what it starts is not known")
        return False
    _script(machine, process, text, [file, *rest])
    return True


def _script(machine: Machine, process: Process, text: str, argv: list[str]) -> None:
    from deployer.intake.run import script

    child = child_of(machine, process)
    child.script, child.positional = argv[0], argv[1:]
    script(child, text)


def _container(machine: Machine, process: Process, depth: int) -> bool:
    request = docker.read(process.argv)
    if request is None:
        return False
    inside, notes = docker.environment(request, {**machine.inherited, **process.env}, machine)
    for note in notes:
        machine.world.note(note)
    asked = docker.described(request, process.env, machine.unknowns.shown)
    inner = Process(request.command, inside, [*process.wrapper, *process.argv[: request.end]], (), request.folder, None,
                    asked)
    launches = len(machine.world.launches)
    if not request.command:
        shown = machine.unknowns.shown(request.image)
        machine.world.note(f"line {machine.line}: {shown} runs the command of its image, which is not known")
        return False
    if not peel(machine, inner, depth + 1):
        if request.command[0].startswith("-") and not request.entrypoint:
            if "sglang" in request.image:
                _record(machine, inner)
            machine.world.note(f"line {machine.line}: the arguments go to the image's entrypoint, which is not known")
        return len(machine.world.launches) > launches
    return True
