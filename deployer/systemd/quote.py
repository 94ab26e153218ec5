"""Writing unit files: every text in the form that gives the process exactly that text, or a ``QuotingError``.

Source: systemd's extract-word.c, escape.c, load-fragment.c and env-file.c, tried on systemd 252 with random text.
``ExecStart=``, ``Environment=`` and an environment file are three languages; each has its function here.
"""

from __future__ import annotations

import re

from deployer.protocol import patterns

LONGEST_ARGUMENT = 131_071
"""Bytes of one argument or one ``NAME=value``: the kernel's MAX_ARG_STRLEN less its NUL. One more is 203/EXEC."""

LONGEST_LINE = 1024 * 1024 - 1
"""Bytes of one directive, continuation lines joined: systemd's LONG_LINE_MAX. Beyond it the unit is not loaded."""

_BARE = patterns.compile(r"[A-Za-z0-9_@+=:,./-]+")
_VARIABLE = patterns.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMED = {"\n": r"\n", "\t": r"\t", "\r": r"\r", '"': r"\"", "\\": r"\\", "%": "%%"}
_SPECIAL = patterns.compile("[\\x01-\\x1f\\x7f\"\\\\%$]")
_NOT_TEXT = patterns.compile(
    "[\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17))
    + "]"
)
"""What systemd's ``utf8_is_valid`` refuses although Python can hold it: lone surrogates and noncharacters."""


class QuotingError(ValueError):
    """A text that a unit file cannot carry; ``code`` is a finding's code, the message says what is wrong with it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def word(text: str) -> str:
    """One argument of ``ExecStart=`` and its like: bare where nothing in it means anything, else in double quotes."""
    if _BARE.fullmatch(text) and len(text) < LONGEST_ARGUMENT:
        return text
    _refuse(text, "an argument")
    return f'"{_escaped(text, dollar="$$")}"'


def program(path: str) -> str:
    """The program of ``ExecStart=``: an absolute path, or a bare name that systemd looks for in its own fixed list.

    systemd itself refuses quotes, backslashes and controls in it. ``$`` stays single in the path but is looked at
    again in argv[0], so such a path gets its argv[0] written apart (prefix ``@``).
    """
    if not path or path.endswith("/") or ("/" in path and not path.startswith("/")) or path in (".", ".."):
        raise QuotingError("bad-program", f"{path!r} is neither the absolute path of a program nor a plain name")
    if path[0] in "-@:+!":
        raise QuotingError("bad-program", f"systemd takes {path[0]!r} at the beginning of {path!r} for a prefix")
    if re.search("[\\x00-\\x1f\\x7f\"'\\\\]", path):
        raise QuotingError("bad-program", f"systemd takes no quotes, backslashes or control characters in {path!r}")
    if _BARE.fullmatch(path):
        return path
    _refuse(path, "the program's path")
    if "$" in path:
        return f'"@{_escaped(path, dollar="$")}" {word(path)}'
    return f'"{_escaped(path, dollar="$")}"'


def environment(name: str, value: str) -> str:
    """One assignment of ``Environment=``. ``$`` is not special there, ``%`` is."""
    _check_variable(name, value)
    if _BARE.fullmatch(value):
        return f"{name}={value}"
    return f'"{name}={_escaped(value, dollar="$")}"'


def environment_file(name: str, value: str) -> str:
    """One assignment of an ``EnvironmentFile=``, without the line's end. There neither ``%`` nor ``\\n`` is special:
    a newline is a real one, inside the quotes."""
    _check_variable(name, value)
    if _BARE.fullmatch(value):
        return f"{name}={value}"
    return f'{name}="' + re.sub(r'["\\$`]', lambda match: "\\" + match[0], value) + '"'


def text(value: str) -> str:
    """A plain value of one line (``Description=``): a line's end becomes a blank; blanks at the ends are lost, and so
    are backslashes at the end, which would continue the line."""
    flat = " ".join(value.split()).rstrip("\\").rstrip()
    _refuse(flat, "the text")
    if re.search(r"[\x01-\x1f\x7f]", flat):
        raise QuotingError("control-character", f"control characters cannot stand in {value!r}")
    return flat.replace("%", "%%")


def path(value: str) -> str:
    """One path of ``RequiresMountsFor=`` or ``ReadWritePaths=``: no escapes but ``\\"`` and ``\\\\`` there."""
    _refuse(value, "the path")
    if re.search(r"[\x01-\x1f\x7f]", value):
        raise QuotingError("control-character", f"control characters cannot stand in a list of paths: {value!r}")
    if _BARE.fullmatch(value):
        return value
    return '"' + re.sub(r'["\\]', lambda match: "\\" + match[0], value).replace("%", "%%") + '"'


def directive(value: str) -> str:
    """A value that is already in systemd's own language: unchanged, or refused where a line could not hold it."""
    _refuse(value, "the value")
    if re.search(r"[\n\r]", value):
        raise QuotingError("line-break", "a directive is one line; give a list to repeat it")
    if (len(value) - len(value.rstrip("\\"))) % 2:
        raise QuotingError("trailing-backslash", "a backslash at the end would swallow the next directive")
    if len(value.encode()) > LONGEST_LINE:
        raise QuotingError("line-too-long", f"systemd reads at most {LONGEST_LINE} bytes in one directive")
    return value


def is_variable(name: str) -> bool:
    """Whether systemd takes this as the name of a variable; others are dropped with a log line only."""
    return bool(_VARIABLE.fullmatch(name))


def _check_variable(name: str, value: str) -> None:
    if not is_variable(name):
        raise QuotingError("bad-variable-name", f"systemd drops variables of the name {name!r}")
    if "\0" in value:
        raise QuotingError("nul-byte", f"the value of {name} holds a NUL, which no variable can")
    if _NOT_TEXT.search(value):
        raise QuotingError("not-text", f"the value of {name} holds a character that systemd does not take as text")
    if len(value.encode()) + len(name) + 1 > LONGEST_ARGUMENT:
        raise QuotingError("argument-too-long", f"the value of {name} is longer than the {LONGEST_ARGUMENT} bytes "
                                                "that the kernel hands over")


def _refuse(text: str, what: str) -> None:
    if "\0" in text:
        raise QuotingError("nul-byte", f"{what} holds a NUL, which no process can be given: {text[:40]!r}")
    try:
        size = len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise QuotingError("not-text", f"{what} holds half a character: {text[:40]!r}") from None
    if size > LONGEST_ARGUMENT:
        raise QuotingError("argument-too-long", f"{what} has {size} bytes; the kernel hands over "
                                                f"at most {LONGEST_ARGUMENT}")


def _escaped(text: str, *, dollar: str) -> str:
    text = _SPECIAL.sub(
        lambda match: dollar if match[0] == "$" else _NAMED.get(match[0]) or f"\\x{ord(match[0]):02x}", text
    )
    return _NOT_TEXT.sub(_as_bytes, text)


def _as_bytes(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape"))
