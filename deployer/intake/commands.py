"""One simple command: assignments, redirections, then a function, a builtin, a known filter, or a program."""

from __future__ import annotations

import re
from collections.abc import Callable

from deployer.intake import builtins, conditions, filters, scan
from deployer.intake.launch import start
from deployer.intake.machine import FAILURE, MAYBE, SUCCESS, Machine, Return, Stop, Unknowable, Variable
from deployer.intake.words import Redirection, Simple, split

_OUTPUT = (">", ">>", ">|", "&>", "&>>")
DECLARE = {"export", "declare", "typeset", "local", "readonly"}
_QUIET = {":", "true", "mkdir", "chmod", "chown", "sleep", "ulimit", "umask", "rm", "touch", "wait", "trap", "shopt",
          "disown", "stty", "sync", "kill", "pkill", "ln", "install", "sysctl", "modprobe", "logger", "jobs", "hash",
          "enable", "complete", "bind", "setterm", "clear", "cp", "mv"}
"""Programs that print nothing that a script would go on with."""


def simple_command(machine: Machine, command: Simple) -> int:
    """Follows one command; returns its status."""
    words = list(command.words)
    if words and words[0].startswith("[[") and len(words[0]) > 4:
        return conditions.double(machine, words[0][2:-2])
    if words and words[0].startswith("((") and words[0].endswith("))"):
        value = machine.words.arithmetic(words[0][2:-2])
        machine.decided += machine.unknowns.names(value)
        return FAILURE if value == "0" else SUCCESS
    assigned: list[tuple[str, str]] = []
    while words and scan.ASSIGNMENT.match(words[0]):
        assigned.append(_parts(words.pop(0)))
    if words and re.fullmatch(r"\\?[a-z]+", words[0]) and words[0].lstrip("\\") in DECLARE:
        return declare(machine, words[0].lstrip("\\"), words[1:])
    args = machine.words.fields(words)
    if not args:
        for name, raw in assigned:
            assign(machine, name, raw)
        _targets(machine, command.redirections, "" if command.redirections else None)
        return SUCCESS
    prefix = _prefix(machine, assigned)
    return redirected(machine, command.redirections, lambda: run(machine, args, prefix))


def _prefix(machine: Machine, assigned: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Assignments in front of a command: each sees those before it, the command's own words saw none."""
    found: list[tuple[str, str]] = []
    before = {name: machine.variables.get(name) for name, _ in assigned}
    for name, raw in assigned:
        value = machine.words.text(raw, assignment=True)
        if name.endswith("+"):
            old = machine.get(name[:-1])
            name, value = name[:-1], (old if isinstance(old, str) else "") + value
        found.append((name, value))
        machine.variables[name] = Variable(value, True)
    for name, variable in before.items():
        machine.variables.pop(name.removesuffix("+"), None)
        if variable is not None:
            machine.variables[name] = variable
    return found


def _parts(raw: str) -> tuple[str, str]:
    match = scan.ASSIGNMENT.match(raw)
    assert match is not None
    return match[1] + (match[2] or "") + ("+" if match[3] == "+=" else ""), raw[match.end():]


def assign(machine: Machine, name: str, raw: str, exported: bool | None = None, keyed: bool = False) -> None:
    """``NAME=raw``; ``NAME+`` adds. A list in parentheses makes an array, but only where nothing stands behind it."""
    add, name = name.endswith("+"), name.removesuffix("+")
    before = machine.get(name) if add else None
    if raw.startswith("(") and scan.parentheses(raw, 0) == len(raw) and raw.endswith(")"):
        machine.put(name, _array(machine, raw[1:-1], before, keyed or isinstance(machine.get(name), dict)), exported)
        return
    if raw.startswith("("):
        # What follows the parenthesis makes it a plain text, of whose words bash keeps one blank between.
        end = scan.parentheses(raw, 0)
        raw = "(" + " ".join(split(raw[1 : end - 1])) + ")" + raw[end:]
    value = machine.words.text(raw, assignment=True)
    if isinstance(before, list):
        machine.put(name, [(before[0] if before else "") + value, *before[1:]], exported)
    else:
        machine.put(name, (before if isinstance(before, str) else "") + value, exported)


def _array(machine: Machine, inner: str, before: object, keyed: bool) -> list[str] | dict[str, str]:
    words = split(inner)
    if keyed:
        table = dict(before) if isinstance(before, dict) else {}
        for word in words:
            match = re.match(r"\[(.*?)\]=", word, re.DOTALL)
            if match:
                table[machine.words.text(match[1])] = machine.words.text(word[match.end():])
        return table
    items = list(before) if isinstance(before, list) else [before] if isinstance(before, str) else []
    for word in words:
        match = re.match(r"\[(\d+)\]=", word)
        if match:
            items += [""] * (int(match[1]) + 1 - len(items)) if int(match[1]) < 10_000 else []
            items[min(int(match[1]), len(items) - 1)] = machine.words.text(word[match.end():])
        else:
            items += machine.words.fields([word])
    return items


def declare(machine: Machine, kind: str, words: list[str]) -> int:
    """``export``, ``declare``, ``local``, ``readonly`` with assignments among their words."""
    flags = ""
    exported: bool | None = True if kind == "export" else None
    own = kind in ("local", "declare", "typeset") and machine.locals is not None
    for word in words if own else ():
        name = re.split(r"\+?=|\[", word, maxsplit=1)[0]
        if machine.locals is not None and scan.NAME.fullmatch(name) and name not in machine.locals:
            machine.locals[name] = machine.variables.get(name)
    for word in words:
        if re.fullmatch(r"[-+][A-Za-z]+", word):
            flags += word
            if kind == "export" and word == "-n":
                exported = False
            if "x" in word:
                exported = word[0] == "-"
            continue
        if scan.ASSIGNMENT.match(word):
            name, raw = _parts(word)
            assign(machine, name, raw, exported, "A" in flags)
            continue
        for name in machine.words.fields([word]):
            name, equals, value = name.partition("=")
            if not scan.NAME.fullmatch(name):
                continue
            if equals:
                machine.put(name, value, exported)
            elif exported is not None and name in machine.variables:
                machine.export(name, exported)
            elif exported is None and (kind == "local" or name not in machine.variables) and kind != "readonly":
                machine.put(name, {} if "A" in flags else [] if "a" in flags else "")
            elif exported and name not in machine.variables:
                machine.exported_later.add(name)
    return SUCCESS


def redirected(machine: Machine, redirections: tuple[Redirection, ...], act: Callable[[], int]) -> int:
    """Does ``act`` with its input and output where the redirections put them."""
    out, given = machine.out, machine.input
    target = next((r for r in redirections if r.operator in _OUTPUT and r.descriptor in ("", "1")), None)
    reads = [r for r in redirections if r.operator.startswith("<") and r.descriptor in ("", "0")]
    try:
        for redirection in reads:
            machine.input = _input(machine, redirection)
        if target:
            machine.out = []
        try:
            status = act()
        except Unknowable:
            if not target:
                raise
            machine.out, status = None, MAYBE
        finally:
            if target:
                written = "".join(machine.out) if machine.out is not None else None
                _targets(machine, (target,), written)
        return status
    finally:
        machine.out = out
        if reads:
            machine.input = given


def _input(machine: Machine, redirection: Redirection) -> str | None:
    if redirection.document:
        text = redirection.document.text
        return text if redirection.document.literal else machine.words.document(text)
    target = machine.words.text(redirection.target)
    if redirection.operator == "<<<":
        return target + "\n"
    if redirection.operator in ("<", "<>"):
        return machine.world.files.read(target, machine.folder)
    return None


def _targets(machine: Machine, redirections: tuple[Redirection, ...], text: str | None) -> None:
    for redirection in redirections:
        if redirection.operator in _OUTPUT and redirection.descriptor in ("", "1"):
            path = machine.words.text(redirection.target)
            machine.world.files.write(path, text, machine.folder, append=redirection.operator.endswith(">>"))


def run(machine: Machine, args: list[str], prefix: list[tuple[str, str]] | None = None) -> int:
    """A command whose words are known. ``prefix``: assignments for it alone."""
    prefix = prefix or []
    name = args[0]
    if name in machine.functions:
        return _call(machine, name, args, prefix)
    if name in ("source", "."):
        return builtins.source(machine, args)
    if name in ("[", "test"):
        rest = args[1:-1] if name == "[" else args[1:]
        return conditions.plain(machine, rest)
    if name == "exec" and len(args) == 1:
        return SUCCESS
    builtin = builtins.BUILTINS.get(name)
    if builtin:
        return builtin(machine, args)
    environment = {**machine.environment(), **dict(prefix)}
    launches = len(machine.world.launches)
    if start(machine, args, environment):
        if len(machine.world.launches) > launches and machine.out is not None:
            machine.out.append("")
        if name == "exec":
            raise Stop
        return SUCCESS
    if name == "exec":
        raise Stop
    if name in ("command", "builtin", "time", "nohup", "setsid") and len(args) > 1:
        return run(machine, args[1:], prefix) if not args[1].startswith("-") else MAYBE
    if filters.known(args):
        return filters.run(machine, args)
    if name in _QUIET:
        return SUCCESS
    if machine.unknowns.found(name):
        machine.world.note(f"line {machine.line}: which program `{machine.unknowns.shown(name)}` is, is not known")
    if machine.out is not None:
        raise Unknowable
    return MAYBE


def _call(machine: Machine, name: str, args: list[str], prefix: list[tuple[str, str]]) -> int:
    if machine.depth > 60:
        raise Stop
    before, machine.positional = machine.positional, args[1:]
    around, machine.locals = machine.locals, {}
    kept = {key: machine.variables.get(key) for key, _ in prefix}
    for key, value in prefix:
        machine.variables[key] = Variable(value, True)
    machine.depth += 1
    try:
        return int(machine.functions[name](machine))
    except Return:
        return SUCCESS
    finally:
        machine.depth -= 1
        machine.positional = before
        kept, machine.locals = {**kept, **(machine.locals or {})}, around
        for key, variable in kept.items():
            if variable is None:
                machine.variables.pop(key, None)
            else:
                machine.variables[key] = variable
