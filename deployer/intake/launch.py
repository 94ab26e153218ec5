"""From a command line to the server behind it: wrappers, ``env``, shells within shells, terminals, containers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from deployer.intake import docker
from deployer.intake.found import Launch, server
from deployer.intake.machine import Machine

SHELLS = {"bash", "sh", "dash", "zsh", "ksh", "ash"}
_LEFT_OUT = {"nohup", "setsid", "exec", "command", "builtin", "time", "env", "then", "do", "!"}
_NO_SERVER = {"echo", "printf", "cat", "grep", "egrep", "pgrep", "pkill", "kill", "killall", "ps", "which", "type",
              "man", "alias", "logger", "test", "[", "sed", "awk", "tee", "notify-send", "trap", "history", "vim",
              "nano", "less", "rm", "cp", "mv", "ls", "find", "pip", "export", "curl", "wget", "git"}


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


def start(machine: Machine, args: list[str], environment: dict[str, str]) -> bool:
    """Follows ``args`` to the servers that they start; False where they start none that is known."""
    process = Process(args, environment, list(machine.wrapper), (), machine.cwd, None, machine.background)
    return _peel(machine, process)


def _peel(machine: Machine, process: Process, depth: int = 0) -> bool:
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
        inner = _env(machine, process)
        return bool(inner) and _peel(machine, inner, depth + 1) if inner else False
    if name in _LEFT_OUT:
        return _peel(machine, _left_out(process, name), depth + 1)
    if name in ("tmux", "screen", "byobu"):
        return _terminal(machine, process, name, depth)
    if name in docker.CLIENTS:
        return _container(machine, process, depth)
    if name in ("ssh", "su", "script"):
        return _text_for_a_shell(machine, process, name)
    if name == "sudo":
        process = _sudo(process)
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
            if _peel(machine, inner, depth + 1):
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


def _child(machine: Machine, process: Process) -> Machine:
    child = machine.child(process.env, process.removed)
    child.cwd, child.wrapper, child.background = process.cwd, list(process.wrapper), process.container
    if process.container is not None and machine.background is None:
        child.start, child.inherited, child.sourced = None, {}, {}
    return child


def _shell(machine: Machine, process: Process) -> bool:
    from deployer.intake.run import script

    text, rest, file = _command_of(process.argv)
    if text is not None:
        child = _child(machine, process)
        child.script, child.positional = rest[0] if rest else "bash", rest[1:]
        script(child, text)
        return True
    if file is None:
        if machine.input is not None:
            child = _child(machine, process)
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

    child = _child(machine, process)
    child.script, child.positional = argv[0], argv[1:]
    script(child, text)


def _env(machine: Machine, process: Process) -> Process | None:
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
            argv = [*machine.words.fields(_split_string(text)), *argv[2 if apart else 1:]]
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


def _split_string(text: str) -> list[str]:
    from deployer.intake.words import split

    return split(text)


def _taken(env: dict[str, str], removed: list[str], cwd: str | None, option: str, value: str) -> tuple[
        dict[str, str], str | None]:
    if option in ("-u", "--unset"):
        removed.append(value)
        return {key: item for key, item in env.items() if key != value}, cwd
    return env, value


def _left_out(process: Process, name: str) -> Process:
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


def _sudo(process: Process) -> Process:
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


_TMUX_VALUED = set("censtxyFfLSl")
_TMUX_STARTS = {"new-session", "new", "new-window", "neww", "split-window", "splitw", "respawn-pane", "respawn-window"}


def _terminal(machine: Machine, process: Process, name: str, depth: int) -> bool:
    from deployer.intake.run import script

    argv = process.argv
    target = ""
    if name == "screen":
        return _screen(machine, process, depth)
    at = next((i for i, word in enumerate(argv) if word in _TMUX_STARTS or word in ("send-keys", "send")), 0)
    if not at:
        return False
    env, cwd, rest = dict(process.env), process.cwd, argv[at + 1:]
    while rest and rest[0].startswith("-") and rest[0] != "--":
        letter = rest[0][1:2]
        valued = letter in _TMUX_VALUED and not (argv[at] in ("send-keys", "send") and letter not in "tN")
        last = rest[0][-1]
        if not valued and len(rest[0]) > 2 and last in _TMUX_VALUED:
            letter, valued = last, True
            value, rest = (rest[1] if len(rest) > 1 else ""), rest[2:]
        elif valued:
            value = rest[0][2:] or (rest[1] if len(rest) > 1 else "")
            rest = rest[1:] if rest[0][2:] else rest[2:]
        else:
            rest = rest[1:]
            continue
        if letter == "c":
            cwd = value
        elif letter in "ts":
            target = value.partition(":")[0].partition(".")[0]
        elif letter == "e" and "=" in value:
            env[value.partition("=")[0]] = value.partition("=")[2]
    rest = rest[1:] if rest[:1] == ["--"] else rest
    rest = [word for word in rest if word != ";"]
    inner = replace(process, env=env, cwd=cwd)
    terminals = machine.world.terminals
    if argv[at] in ("send-keys", "send"):
        typed = "".join("\n" if word in ("Enter", "C-m", "KPEnter") else word for word in rest)
        script(terminals.setdefault(target, _child(machine, inner)), typed)
        return True
    if not rest:
        terminals[target] = _child(machine, inner)
        return True
    if len(rest) == 1:
        script(_child(machine, inner), rest[0])
        return True
    return bool(rest) and _peel(machine, replace(inner, argv=rest), depth + 1)


def _screen(machine: Machine, process: Process, depth: int) -> bool:
    from deployer.intake.run import script

    rest = process.argv[1:]
    while rest and rest[0].startswith("-"):
        word = rest[0]
        if word == "-X" and rest[1:2] == ["stuff"] and len(rest) > 2:
            script(_child(machine, process), rest[2])
            return True
        valued = word in ("-Logfile", "-T") or (word[-1] in "Sctehpsx" and word not in ("-d", "-x"))
        rest = rest[2:] if valued else rest[1:]
    return bool(rest) and _peel(machine, replace(process, argv=rest), depth + 1)


def _text_for_a_shell(machine: Machine, process: Process, name: str) -> bool:
    """``ssh HOST 'text'``, ``su USER -c 'text'``: a shell elsewhere, or of another account."""
    from deployer.intake.run import script

    argv = process.argv
    if name in ("su", "script"):
        at = next((i for i, word in enumerate(argv) if re.fullmatch(r"-[a-z]*c|--command", word)), 0)
        if not at or at + 1 >= len(argv):
            return False
        user = [word for word in argv[1:at] if word != "-"] if name == "su" else []
        env = {} if {"-", "-l", "--login"} & set(argv) and name == "su" else process.env
        wrapper = [*process.wrapper, *argv[:at]] if name == "su" else process.wrapper
        inner = replace(process, env=dict(env), wrapper=wrapper, cwd=process.cwd if env or not user else None)
        script(_child(machine, inner), argv[at + 1])
        return True
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at][-1] in "BbcDEeFIiJLlmOopQRSWw" and len(argv[at]) == 2 else 1
    if at >= len(argv) or (at + 1 == len(argv) and machine.input is None):
        return False
    child = _child(machine, replace(process, env={}, wrapper=[*process.wrapper, *argv[: at + 1]], cwd=None))
    child.start = None
    typed = machine.input if at + 1 == len(argv) else None
    script(child, " ".join(argv[at + 1:]) if typed is None else typed)
    return True


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
    if not request.command:
        shown = machine.unknowns.shown(request.image)
        machine.world.note(f"line {machine.line}: {shown} runs the command of its image, which is not known")
        return False
    if not _peel(machine, inner, depth + 1):
        if request.command[0].startswith("-") and not request.entrypoint:
            machine.world.note(f"line {machine.line}: the arguments go to the image's entrypoint, which is not known")
        return False
    return True
