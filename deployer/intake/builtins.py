"""Builtins of the shell that change what later commands get. Source: bash(1), "SHELL BUILTIN COMMANDS"."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from deployer.intake.arithmetic import Unreadable, evaluate
from deployer.intake.machine import FAILURE, MAYBE, SUCCESS, Leave, Machine, Return, Stop


def source(machine: Machine, args: list[str]) -> int:
    """``source FILE``: an activated environment is known by its path, another file is followed where it is there."""
    from deployer.intake.run import follow

    if len(args) < 2:
        return FAILURE
    path = args[1]
    if re.search(r"(?:^|/)bin/activate$", path):
        activate(machine, path.removesuffix("/bin/activate") if "/" in path else ".")
        return SUCCESS
    if path.endswith(("/conda.sh", "/mamba.sh")):
        return SUCCESS
    text = machine.world.files.read(path, machine.folder)
    if text is None:
        if path not in ("/etc/profile", "/dev/null") and not path.endswith((".bashrc", ".profile", ".bash_profile")):
            shown = machine.unknowns.shown(path)
            machine.world.note(f"line {machine.line}: {shown} is not here: what it sets is not known")
        return FAILURE
    before = machine.positional
    machine.positional = args[2:] or before
    machine.depth += 1
    try:
        return follow(machine, text)
    except Return:
        return SUCCESS
    finally:
        machine.depth -= 1
        machine.positional = before


def activate(machine: Machine, folder: str) -> None:
    """A virtual environment: its programs come first, and two variables tell of it."""
    if not folder.startswith("/"):
        base = machine.folder
        folder = posixpath.normpath(posixpath.join(base, folder)) if base else folder
    path = machine.get("PATH")
    value = f"{folder}/bin:{path if isinstance(path, str) else ''}"
    machine.sourced = {"VIRTUAL_ENV": folder, "VIRTUAL_ENV_PROMPT": f"({posixpath.basename(folder)}) ", "PATH": value}
    if "PATH" in machine.variables:
        machine.put("PATH", value)


def conda(machine: Machine, args: list[str]) -> int:
    """``conda activate NAME``: where the environment lies is the machine's matter, unless it is named by its path."""
    if args[1:2] == ["run"]:
        from deployer.intake.launch import start

        start(machine, args, machine.environment())
        return SUCCESS
    if args[1:2] == ["activate"] and args[2:]:
        name = args[2]
        folder = name if name.startswith("/") else machine.unknowns.mark("${CONDA_PREFIX}", ("CONDA_PREFIX",))
        path = machine.get("PATH")
        machine.sourced = {"CONDA_PREFIX": folder, "CONDA_DEFAULT_ENV": name,
                           "PATH": f"{folder}/bin:{path if isinstance(path, str) else ''}"}
    return SUCCESS if machine.out is None else MAYBE


def _cd(machine: Machine, args: list[str]) -> int:
    names = [arg for arg in args[1:] if arg not in ("-P", "-L", "--", "-e", "-@")]
    if args[0] == "pushd":
        machine.folders.append(machine.cwd)
    target = names[0] if names else machine.home("")
    if target == "-":
        old = machine.get("OLDPWD")
        target = old if isinstance(old, str) else target
    machine.old = machine.folder
    base = machine.folder
    if target.startswith("/") or machine.unknowns.found(target[:1]):
        machine.cwd = posixpath.normpath(target)
    elif base:
        machine.cwd = posixpath.normpath(posixpath.join(base, target))
    elif posixpath.normpath(target) != ".":
        mark = machine.unknowns.mark("${PWD}", ("PWD",))
        machine.cwd = posixpath.normpath(posixpath.join(mark, target))
    return SUCCESS


def _popd(machine: Machine, args: list[str]) -> int:
    if machine.folders:
        machine.cwd = machine.folders.pop()
    return SUCCESS


def _set(machine: Machine, args: list[str]) -> int:
    rest = args[1:]
    while rest:
        word = rest[0]
        if word == "--":
            machine.positional = rest[1:]
            return SUCCESS
        if word in ("-o", "+o"):
            if rest[1:2] == ["allexport"]:
                machine.all_exported = word == "-o"
            rest = rest[2:]
        elif re.fullmatch(r"[-+][A-Za-z]+", word):
            if "a" in word:
                machine.all_exported = word[0] == "-"
            rest = rest[2:] if word.endswith("o") and len(rest) > 1 else rest[1:]
        else:
            machine.positional = rest
            return SUCCESS
    return SUCCESS


def _unset(machine: Machine, args: list[str]) -> int:
    for name in args[1:]:
        if not name.startswith("-"):
            machine.take_away(name)
            machine.functions.pop(name, None) if "-f" in args else None
    return SUCCESS


def _shift(machine: Machine, args: list[str]) -> int:
    count = int(args[1]) if args[1:] and args[1].isdigit() else 1
    if count > len(machine.positional):
        return FAILURE
    machine.positional = machine.positional[count:]
    return SUCCESS


def _eval(machine: Machine, args: list[str]) -> int:
    from deployer.intake.run import follow

    text = " ".join(args[1:])
    shown = machine.unknowns.shown(text)
    if machine.unknowns.found(text) and re.search(r"conda|hook|activate|ssh-agent|direnv", shown):
        return SUCCESS
    machine.depth += 1
    try:
        return follow(machine, text)
    finally:
        machine.depth -= 1


def _exit(machine: Machine, args: list[str]) -> int:
    raise Stop


def _return(machine: Machine, args: list[str]) -> int:
    raise Return


def _leave(machine: Machine, args: list[str]) -> int:
    raise Leave(args[0] == "continue")


def _read(machine: Machine, args: list[str]) -> int:
    text = machine.input
    flags, names = _flags(args[1:], "dinNptua")
    if text is None:
        for name in names:
            machine.put(name, machine.unknowns.variable(name))
        return FAILURE
    whole = flags.get("d") == ""
    taken, _, rest = (text, "", "") if whole else text.partition("\n")
    machine.input = rest
    if not text:
        for name in names or ["REPLY"]:
            machine.put(name, "")
        return FAILURE
    if "r" not in flags and not whole:
        taken = re.sub(r"\\(.)", r"\1", taken)
    if "a" in flags:
        machine.put(flags["a"], taken.split())
        return SUCCESS
    ifs = machine.get("IFS")
    if ifs == "" or not names:
        machine.put(names[0] if names else "REPLY", taken)
        return SUCCESS
    marks = ifs if isinstance(ifs, str) else " \t\n"
    taken = taken.strip(marks)
    parts = re.split(f"[{re.escape(marks)}]+", taken, maxsplit=len(names) - 1) if len(names) > 1 else [taken]
    for index, name in enumerate(names):
        machine.put(name, parts[index] if index < len(parts) else "")
    return FAILURE if whole else SUCCESS


def _mapfile(machine: Machine, args: list[str]) -> int:
    flags, names = _flags(args[1:], "dnOsuCc")
    text = machine.input
    if text is None:
        machine.put(names[0] if names else "MAPFILE", [machine.unknowns.variable(names[0] if names else "MAPFILE")])
        return MAYBE
    machine.put(names[0] if names else "MAPFILE", text.splitlines(keepends="t" not in flags))
    return SUCCESS


def _flags(args: list[str], valued: str) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    while args and args[0].startswith("-") and args[0] != "-":
        word, args = args[0], args[1:]
        for index, letter in enumerate(word[1:], 1):
            found[letter] = ""
            if letter in valued:
                found[letter] = word[index + 1:]
                if index + 1 == len(word):
                    found[letter], args = (args[0], args[1:]) if args else ("", [])
                break
    return found, args


def _let(machine: Machine, args: list[str]) -> int:
    def get(name: str) -> str:
        value = machine.get(name)
        return value if isinstance(value, str) else ""

    try:
        return FAILURE if [evaluate(arg, get, machine.put) for arg in args[1:]][-1:] == [0] else SUCCESS
    except Unreadable:
        return MAYBE


def _false(machine: Machine, args: list[str]) -> int:
    return FAILURE


def _printf(machine: Machine, args: list[str]) -> int:
    from deployer.intake import filters

    if args[1:2] == ["-v"] and len(args) > 3:
        out, machine.out = machine.out, []
        try:
            filters.run(machine, ["printf", *args[3:]])
            machine.put(args[2], "".join(machine.out))
        finally:
            machine.out = out
        return SUCCESS
    return filters.run(machine, args)


BUILTINS: dict[str, Callable[[Machine, list[str]], int]] = {
    "cd": _cd, "pushd": _cd, "popd": _popd, "set": _set, "unset": _unset, "shift": _shift, "eval": _eval, "exit": _exit,
    "return": _return, "break": _leave, "continue": _leave, "read": _read, "mapfile": _mapfile, "readarray": _mapfile,
    "let": _let, "false": _false, "printf": _printf, "conda": conda, "mamba": conda, "micromamba": conda,
}
