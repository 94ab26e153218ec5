"""Programs whose output follows from their words and input alone: what ``$(…)`` may be resolved through."""

from __future__ import annotations

import posixpath
import re

from deployer.intake.expand import ansi_text
from deployer.intake.machine import FAILURE, SUCCESS, Machine, Unknowable

_KNOWN = {"echo", "printf", "cat", "basename", "dirname", "seq", "uname", "pwd", "tr", "cut", "head", "tail", "wc",
          "tee", "xargs", "sort", "grep"}


def known(args: list[str]) -> bool:
    return args[0].rpartition("/")[2] in _KNOWN


def run(machine: Machine, args: list[str]) -> int:
    """Prints what the program would print, where somebody wants it. Raises ``Unknowable`` where that is not known."""
    if machine.out is None:
        return SUCCESS
    name = args[0].rpartition("/")[2]
    if any(machine.unknowns.found(arg) for arg in args) and name not in ("echo", "printf"):
        raise Unknowable
    text = _output(machine, name, args[1:])
    if text is None:
        raise Unknowable
    machine.out.append(text)
    return SUCCESS if name != "cat" or text is not None else FAILURE


def _output(machine: Machine, name: str, args: list[str]) -> str | None:
    if name == "echo":
        return _echo(args)
    if name == "printf":
        return _printf(args)
    if name in ("cat", "tee"):
        return _cat(machine, name, args)
    if name == "pwd":
        folder = machine.folder
        return folder + "\n" if folder and not machine.unknowns.found(folder) else None
    if name == "uname":
        return "Linux\n" if args in ([], ["-s"]) else None
    if name in ("basename", "dirname"):
        return _path(name, args)
    if name == "seq":
        return _seq(args)
    return _filtered(machine, name, args)


def _echo(args: list[str]) -> str:
    end, escapes = "\n", False
    while args and re.fullmatch(r"-[neE]+", args[0]):
        end = "" if "n" in args[0] else end
        escapes = "e" in args[0] or (escapes and "E" not in args[0])
        args = args[1:]
    text = " ".join(args)
    return (ansi_text(text) if escapes else text) + end


def _printf(args: list[str]) -> str | None:
    if args[:1] == ["--"]:
        args = args[1:]
    if not args or args[0] == "-v":
        return None
    form, values, out = args[0], args[1:], []
    while True:
        before = len(values)

        def one(match: re.Match[str]) -> str:
            if match[2] == "%":
                return "%"
            value = values.pop(0) if values else ""
            if match[2] == "b":
                return ansi_text(value)
            if match[2] == "q":
                import shlex

                return shlex.quote(value)
            if match[2] in "di":
                return f"%{match[1]}d" % int(value or 0)
            return f"%{match[1]}s" % value

        try:
            out.append(re.sub(r"%([-0]?\d*(?:\.\d+)?)([sdibq%])", one, ansi_text(form)))
        except ValueError:
            return None
        if not values or len(values) == before:
            return "".join(out)


def _cat(machine: Machine, name: str, args: list[str]) -> str | None:
    names = [arg for arg in args if not arg.startswith("-") or arg == "-"]
    if name == "tee":
        for path in names:
            machine.world.files.write(path, machine.input, machine.folder, append="-a" in args)
        return machine.input
    if any(arg.startswith("-") and arg != "-" for arg in args):
        return None
    files, folder = machine.world.files, machine.folder
    texts = [machine.input if path == "-" else files.read(path, folder) for path in names or ["-"]]
    return None if None in texts else "".join(text or "" for text in texts)


def _path(name: str, args: list[str]) -> str | None:
    args = [arg for arg in args if arg != "--"]
    if not args or args[0].startswith("-"):
        return None
    path = args[0].rstrip("/") or "/"
    if name == "dirname":
        return (posixpath.dirname(path) or ".") + "\n"
    base = path.rpartition("/")[2] or "/"
    return (base.removesuffix(args[1]) if args[1:] and base != args[1] else base) + "\n"


def _seq(args: list[str]) -> str | None:
    joined = "\n"
    if args[:1] == ["-s"] and len(args) > 2:
        joined, args = args[1], args[2:]
    try:
        numbers = [int(arg) for arg in args]
    except ValueError:
        return None
    if not 1 <= len(numbers) <= 3:
        return None
    first, step, last = (1, 1, *numbers) if len(numbers) == 1 else (
        (numbers[0], 1, numbers[1]) if len(numbers) == 2 else tuple(numbers))
    if not step or abs((last - first) // step) > 10_000:
        return None
    found = [str(n) for n in range(first, last + (1 if step > 0 else -1), step)]
    return joined.join(found) + ("\n" if found else "")


def _filtered(machine: Machine, name: str, args: list[str]) -> str | None:
    text = machine.input
    reads = name in ("head", "tail", "wc", "cut", "sort", "grep") and args and not args[-1].startswith("-")
    if reads and machine.input is None and re.search(r"[/.]", args[-1]):
        text, args = machine.world.files.read(args[-1], machine.folder), args[:-1]
    if text is None or machine.unknowns.found(text):
        return None
    lines = text.splitlines()
    if name in ("head", "tail"):
        match = re.fullmatch(r"-n?\s*(\d+)", " ".join(args)) if args else re.match("(.*)", "-n 10")
        count = int(match[1]) if match and match[1].isdigit() else 10 if not args else -1
        if count < 0:
            return None
        kept = lines[:count] if name == "head" else lines[len(lines) - min(count, len(lines)):]
        return "".join(line + "\n" for line in kept)
    if name == "grep":
        plain = [arg for arg in args if arg not in ("-E", "-m1", "-h", "-e")]
        if len(plain) != 1 or not re.fullmatch(r"\^?[\w=: \"/,-]+\$?", plain[0]):
            return None
        found = [line for line in lines if re.search(plain[0], line)]
        return "".join(line + "\n" for line in (found[:1] if "-m1" in args else found))
    if name == "wc" and args == ["-l"]:
        return f"{text.count(chr(10))}\n"
    if name == "wc" and args == ["-w"]:
        return f"{len(text.split())}\n"
    if name == "xargs" and not args:
        return " ".join(text.split()) + "\n" if not re.search(r"['\"\\]", text) else None
    if name == "sort" and not args:
        return "".join(line + "\n" for line in sorted(lines))
    return _letters(name, args, text, lines)


def _letters(name: str, args: list[str], text: str, lines: list[str]) -> str | None:
    if name == "tr" and len(args) == 2:
        if args[0] == "-d":
            gone = ansi_text(args[1])
            return "".join(c for c in text if c not in gone) if not re.search(r"\[|-", gone) else None
        old, new = ansi_text(args[0]), ansi_text(args[1])
        ranges = {"[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "[:lower:]": "abcdefghijklmnopqrstuvwxyz",
                  "A-Z": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "a-z": "abcdefghijklmnopqrstuvwxyz"}
        old, new = ranges.get(old, old), ranges.get(new, new)
        if not old or not new or re.search(r"\[:", old + new):
            return None
        return text.translate(str.maketrans(old, (new + new[-1] * len(old))[: len(old)]))
    match = re.fullmatch(r"-d\s?(.)\s-f\s?(\d+)(-?)", " ".join(args), re.DOTALL) if name == "cut" else None
    if match:
        mark, place = match[1], int(match[2]) - 1
        rows = (line.split(mark) if mark in line else [line] for line in lines)
        picked = (row[0] if len(row) == 1 else mark.join(row[place:] if match[3] else row[place : place + 1])
                  for row in rows)
        return "".join(item + "\n" for item in picked)
    return None
