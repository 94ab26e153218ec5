"""The admin's ssh_config, read as OpenSSH reads it (ssh_config(5), OpenSSH 9.2), with Include and Match.

What has an effect on security or routing and is not understood is a warning with its place, never silence.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deployer.protocol.records import dataclass, field
from deployer.remote.sshkeywords import ALIASES, HARMLESS, HONOURED, UNSUPPORTED

MAX_DEPTH = 16
EXEC_SECONDS = 10.0

_OFF = {"no", "none", "false", ""}
_MULTI = {"identityfile", "certificatefile"}
_TIMES = {"connecttimeout", "serveraliveinterval"}
_LISTS = {"userknownhostsfile", "globalknownhostsfile", "canonicaldomains"}


class ConfigError(Exception):
    """A configuration that ssh itself would refuse; the text names file and line."""


@dataclass
class Found:
    """The values that apply, by lower-case keyword; the first one found wins, as in ssh."""

    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def get(self, keyword: str, default: str = "") -> str:
        """The first word of a value."""
        found = self.values.get(keyword)
        return found[0] if found else default

    def words(self, keyword: str) -> tuple[str, ...]:
        """All words of a value, or all values of a keyword that may stand several times."""
        return self.values.get(keyword, ())

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


@dataclass
class Query:
    """What is looked up, as on ssh's command line, and the machine that it is looked up on."""

    host: str
    user: str | None = None
    port: int | None = None
    local_user: str = ""
    home: Path = field(default_factory=Path.home)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    expand: Callable[[Found, str, str], str] = lambda found, keyword, text: text
    """Expands the tokens of a keyword's text in the light of what was found so far: ``deployer.remote.tokens``."""


def default_files(home: Path) -> tuple[Path, ...]:
    """The user's file, then the system's: the order in which ssh reads them."""
    return home / ".ssh" / "config", Path("/etc/ssh/ssh_config")


def lookup(query: Query, files: Sequence[Path] | None = None) -> Found:
    """The options for ``query``. Raises ConfigError for what ssh refuses to run with."""
    files = default_files(query.home) if files is None else files
    reader = _Reader(query, Found())
    reader.read_all(files)
    canonical = reader.canonical()
    if canonical is not None or reader.wants_final:
        reader.again(canonical)
        reader.read_all(files)
    return reader.found


def split(line: str, where: str = "") -> tuple[str, list[str], str]:
    """Keyword (lower case), its words, and the rest of the line as it stands; raises ConfigError."""
    match = re.match(r'\s*("?)([A-Za-z0-9]+)\1\s*=?\s*(.*)$', line)
    if not match:
        raise ConfigError(f"{where}: no keyword")
    rest = match[3].rstrip()
    return match[2].lower(), words(rest, where), rest


def words(text: str, where: str = "") -> list[str]:
    """Words in OpenSSH's quoting (``argv_split``): quotes of both kinds, a backslash before a quote or blank."""
    found: list[str] = []
    index, size = 0, len(text)
    while index < size:
        if text[index] in " \t":
            index += 1
            continue
        if text[index] == "#":
            break
        word, quote = [], ""
        while index < size:
            char = text[index]
            escaped = text[index + 1:index + 2] if char == "\\" else ""
            if escaped and (escaped in "'\"\\" or (escaped == " " and not quote)):
                word.append(text[index + 1])
                index += 2
                continue
            if quote:
                if char == quote:
                    quote = ""
                else:
                    word.append(char)
            elif char in "'\"":
                quote = char
            elif char in " \t":
                break
            else:
                word.append(char)
            index += 1
        if quote:
            raise ConfigError(f"{where}: a quote is not closed")
        found.append("".join(word))
    return found


def matches(pattern: str, text: str) -> bool:
    """ssh's patterns: ``*`` and ``?``, nothing else."""
    expression = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None


def matches_list(patterns: Sequence[str], text: str) -> bool:
    """Whether one of the patterns matches, and none of the negated ones does."""
    hit = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if matches(pattern[1:], text):
                return False
        elif matches(pattern, text):
            hit = True
    return hit


class _Reader:
    def __init__(self, query: Query, found: Found) -> None:
        self.query = query
        self.found = found
        self.final = False
        self.wants_final = False
        self._original = query.host
        self._host = query.host
        self._system = False

    def read_all(self, files: Sequence[Path]) -> None:
        for path in files:
            self._system = path == Path("/etc/ssh/ssh_config")
            self._read(path, True, 0, checked=not self._system)

    def again(self, canonical: str | None) -> None:
        """Sets up the second pass: `Host` is now compared with the real name, which stays what it is."""
        name = self.found.get("hostname")
        self._host = canonical or (self.query.expand(self.found, "hostname", name) if name else self.query.host)
        self.found.values["hostname"] = (self._host.replace("%", "%%"),)
        self.final = True

    def canonical(self) -> str | None:
        """The full name, where CanonicalizeHostname asks for it and one is found."""
        import socket

        wish = self.found.get("canonicalizehostname", "no").lower()
        name = self.query.expand(self.found, "hostname", self.found.get("hostname", self.query.host))
        if wish not in ("yes", "always") or (wish == "yes" and self._proxied()):
            return None
        if re.fullmatch(r"[0-9.]+|.*:.*", name) or name.count(".") > int(self.found.get("canonicalizemaxdots", "1")):
            return name
        for domain in self.found.words("canonicaldomains"):
            try:
                socket.getaddrinfo(f"{name}.{domain}", None)
            except OSError:
                continue
            return f"{name}.{domain}".lower()
        if self.found.get("canonicalizefallbacklocal", "yes").lower() == "no":
            raise ConfigError(f"{name} has no address in CanonicalDomains")
        return name

    def _proxied(self) -> bool:
        return any(self.found.get(key, "none").lower() != "none" for key in ("proxyjump", "proxycommand"))

    def _read(self, path: Path, active: bool, depth: int, checked: bool) -> None:
        try:
            with path.open(encoding="utf-8", errors="surrogateescape") as file:
                if checked:
                    _check_owner(path, os.fstat(file.fileno()))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            self.found.warn(f"{path} cannot be read ({error.strerror}), and was left out")
            return
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            keyword, arguments, rest = split(text, where)
            keyword = ALIASES.get(keyword, keyword)
            if keyword == "host":
                active = matches_list(arguments, self._host)
            elif keyword == "match":
                active = self._match(arguments, where)
            elif not active:
                continue
            elif keyword == "include":
                for pattern in arguments:
                    for included in self._included(pattern):
                        if depth >= MAX_DEPTH:
                            raise ConfigError(f"{where}: files include each other too deeply")
                        self._read(Path(included), active, depth + 1, checked)
            else:
                self._option(keyword, arguments, rest, where)

    def _included(self, pattern: str) -> list[str]:
        if pattern.startswith("~"):
            own = pattern[1:2] in ("", "/")
            pattern = str(self.query.home) + pattern[1:] if own else str(Path(pattern).expanduser())
        pattern = re.sub(r"\$\{(\w+)\}", lambda m: self.query.environment.get(m[1], ""), pattern)
        beside = Path("/etc/ssh") if self._system else self.query.home / ".ssh"
        return sorted(glob.glob(str(beside / pattern)))  # noqa: PTH207 - the pattern may be absolute

    def _option(self, keyword: str, arguments: list[str], rest: str, where: str) -> None:
        if keyword not in HONOURED:
            self._not_honoured(keyword, arguments, where)
            return
        if not arguments:
            raise ConfigError(f"{where}: {keyword} has no value")
        values = self.found.values
        if keyword == "proxycommand":
            arguments = [rest]
        if keyword in ("proxycommand", "proxyjump") and ("proxycommand" in values or "proxyjump" in values):
            return                                   # the first of the two wins, whichever it is
        if keyword in _MULTI:
            if arguments[0] not in values.get(keyword, ()):
                values[keyword] = (*values.get(keyword, ()), arguments[0])
        elif keyword not in values and not (keyword in _TIMES and arguments[0].lower() == "none"):
            values[keyword] = tuple(arguments) if keyword in _LISTS else (arguments[0],)
            self.found.places[keyword] = where

    def _not_honoured(self, keyword: str, arguments: list[str], where: str) -> None:
        value = arguments[0] if arguments else ""
        if keyword in UNSUPPORTED:
            if value.lower() not in _OFF:
                self.found.warn(f"{where}: {keyword} is not understood here: {UNSUPPORTED[keyword]}")
        elif keyword not in HARMLESS and not matches_list(self.found.get("ignoreunknown").split(","), keyword):
            self.found.warn(f"{where}: {keyword} is not understood, and was left out")

    # -- Match

    def _match(self, arguments: list[str], where: str) -> bool:
        rest = list(arguments)
        result = bool(rest)
        while rest:
            criterion = rest.pop(0)
            negated = criterion.startswith("!")
            name, equals, value = criterion.lstrip("!").partition("=")
            name = name.lower()
            if name in ("all", "canonical", "final"):
                hit = name == "all" or self.final    # to ssh both words mean the second pass
                self.wants_final = self.wants_final or name == "final"
            else:
                if not equals:
                    if not rest:
                        raise ConfigError(f"{where}: Match {name} has no value")
                    value = rest.pop(0)
                # Like ssh: a command is not run once the line cannot match any more.
                hit = self._criterion(name, value, where, result, negated)
            result = result and hit != negated
        return result

    def _criterion(self, name: str, value: str, where: str, matching: bool, negated: bool) -> bool:
        query = self.query
        host = self.found.get("hostname") or query.host
        if name == "host":
            return matches_list(value.lower().split(","), query.expand(self.found, "hostname", host).lower())
        if name == "originalhost":
            return matches_list(value.split(","), self._original)
        if name == "user":
            return matches_list(value.split(","), query.user or self.found.get("user") or query.local_user)
        if name == "localuser":
            return matches_list(value.split(","), query.local_user)
        if name == "tagged":
            return matches_list(value.split(","), self.found.get("tag"))
        if name == "sessiontype":
            return matches_list(value.split(","), "exec")
        if name == "exec":
            return matching and self._exec(query.expand(self.found, "match-exec", value), where)
        self.found.warn(f"{where}: Match {name} is not understood, and the lines under it were left out")
        return negated                               # neither the criterion nor its negation then matches

    def _exec(self, command: str, where: str) -> bool:
        shell = self.query.environment.get("SHELL") or "/bin/sh"
        try:
            ran = subprocess.run(
                [shell, "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=EXEC_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            self.found.warn(f"{where}: Match exec did not end within {EXEC_SECONDS:.0f} s or could not be run, "
                            "and the lines under it were left out")
            return False
        return ran.returncode == 0


def _check_owner(path: Path, found: os.stat_result) -> None:
    """ssh refuses a user's configuration that others could have written, and so is it here."""
    if found.st_uid not in (0, os.getuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"{path} can be written by others, and ssh would not read it: `chmod go-w {path}`")
