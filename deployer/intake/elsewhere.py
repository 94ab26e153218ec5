"""Servers that are started in a terminal of their own, on another machine, or as another account."""

from __future__ import annotations

import re
from collections.abc import Callable

from deployer.intake.machine import Machine
from deployer.intake.process import Process, child_of
from deployer.protocol.records import replace

Follow = Callable[[Process], bool]

_TMUX_VALUED = set("censtxyFfLSl")
_TMUX_STARTS = {"new-session", "new", "new-window", "neww", "split-window", "splitw", "respawn-pane", "respawn-window"}


def terminal(machine: Machine, process: Process, name: str, follow: Follow) -> bool:
    from deployer.intake.run import script

    argv = process.argv
    target = ""
    if name == "screen":
        return _screen(machine, process, follow)
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
        script(terminals.setdefault(target, child_of(machine, inner)), typed)
        return True
    if not rest:
        terminals[target] = child_of(machine, inner)
        return True
    if len(rest) == 1:
        script(child_of(machine, inner), rest[0])
        return True
    return bool(rest) and follow(replace(inner, argv=rest))


def _screen(machine: Machine, process: Process, follow: Follow) -> bool:
    from deployer.intake.run import script

    rest = process.argv[1:]
    while rest and rest[0].startswith("-"):
        word = rest[0]
        if word == "-X" and rest[1:2] == ["stuff"] and len(rest) > 2:
            script(child_of(machine, process), rest[2])
            return True
        valued = word in ("-Logfile", "-T") or (word[-1] in "Sctehpsx" and word not in ("-d", "-x"))
        rest = rest[2:] if valued else rest[1:]
    return bool(rest) and follow(replace(process, argv=rest))


def text_for_a_shell(machine: Machine, process: Process, name: str) -> bool:
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
        script(child_of(machine, inner), argv[at + 1])
        return True
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at][-1] in "BbcDEeFIiJLlmOopQRSWw" and len(argv[at]) == 2 else 1
    if at >= len(argv) or (at + 1 == len(argv) and machine.input is None):
        return False
    child = child_of(machine, replace(process, env={}, wrapper=[*process.wrapper, *argv[: at + 1]], cwd=None))
    child.start = None
    typed = machine.input if at + 1 == len(argv) else None
    script(child, " ".join(argv[at + 1:]) if typed is None else typed)
    return True
