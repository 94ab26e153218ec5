"""One TOML file: its data, the places in it, and what is wrong with its text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from deployer.protocol import patterns
from deployer.protocol.finding import Finding, Level, Where
from deployer.protocol.records import dataclass
from deployer.protocol.redact import is_secret_name
from deployer.settings.model import WrittenFloat
from deployer.settings.spans import Places, Scan, ScanError

_PLACE = patterns.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True)
class Document:
    """``data`` is None where the text could not be read; ``findings`` then say why."""

    file: Path
    data: dict[str, Any] | None
    places: Places
    findings: tuple[Finding, ...] = ()


def read(file: Path) -> Document:
    """Reads a file; what is wrong with it is a finding, never an exception."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        finding = Finding("unreadable", Level.ERROR, f"cannot read the file: {error.strerror}", (), Where(str(file)))
        return Document(file, None, Places(str(file), ""), (finding,))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Document(file, None, Places(str(file), ""), (_not_utf8(file, raw, error),))
    return parse(file, text)


def parse(file: Path, text: str) -> Document:
    """As ``read``, for a text that is already here."""
    places = Places(str(file), text)
    try:
        return Document(file, tomllib.loads(text, parse_float=WrittenFloat), places)
    except tomllib.TOMLDecodeError as error:
        return Document(file, None, places, (_syntax(places, str(error)),))
    except RecursionError:
        finding = Finding("toml-syntax", Level.ERROR, "arrays or tables are nested too deeply", (), Where(str(file)))
        return Document(file, None, places, (finding,))


def _not_utf8(file: Path, raw: bytes, error: UnicodeDecodeError) -> Finding:
    begin = raw.rfind(b"\n", 0, error.start) + 1
    where = Where(str(file), raw.count(b"\n", 0, error.start) + 1, len(raw[begin : error.start].decode("utf-8")) + 1)
    message = f"byte 0x{raw[error.start]:02x} is no UTF-8, and TOML is UTF-8"
    hint = f"save the file as UTF-8: iconv -f latin1 -t utf-8 {file.name}"
    return Finding("not-utf8", Level.ERROR, message, (), where, hint)


def _syntax(places: Places, said: str) -> Finding:
    """``tomllib``'s words with the place, and with what most likely was meant."""
    match = _PLACE.search(said)
    message = said[: match.start()] if match else said
    at = places.offset(int(match[1]), int(match[2])) if match and match[1] else len(places.text.rstrip())
    found, opened = _scanned(places.text)
    if message.startswith(("Cannot overwrite", "Cannot declare", "Duplicate", "Cannot mutate")):
        return _duplicate(places, found, at, message)
    if opened is not None and opened < at and message.startswith(("Unclosed", "Unterminated", "Expected ']")):
        words = f"the `{places.text[opened]}` here is not closed"
        hint = f"that showed in line {places.at(at).line}" if places.at(at).line != places.at(opened).line else ""
        return Finding("toml-syntax", Level.ERROR, words, (), places.at(opened), hint)
    message, hint, at = _explained(message, places.text, at)
    return Finding("toml-syntax", Level.ERROR, message, (), places.at(at), hint)


def _scanned(text: str) -> tuple[list[tuple[tuple[str, ...], int, int]], int | None]:
    """Keys that stand twice, and where something was opened that is not closed."""
    scanner = Scan(text)
    try:
        scanner.run()
    except ScanError as error:
        return scanner.duplicates, error.opened
    return scanner.duplicates, None


def _duplicate(places: Places, found: list[tuple[tuple[str, ...], int, int]], at: int, said: str) -> Finding:
    if not found:
        name = re.search(r"\((.*?),?\)", said)
        words = name[1].replace("', '", ".").strip("'") if name else ""
        message = f"`{words}` is set already, in another form" if words else "this is set already, in another form"
        return Finding("duplicate-key", Level.ERROR, message, (), places.at(at), "keep one of the two")
    path, first, second = found[0]
    line = places.at(first).line
    where = "earlier in this line" if line == places.at(second).line else f"in line {line}"
    if places.text[second - 1] == "[":
        message, hint = f"[{'.'.join(path)}] stands a second time", f"it stands {where} already: put its keys there"
        return Finding("duplicate-key", Level.ERROR, message, path, places.at(second), hint)
    return Finding(
        "duplicate-key", Level.ERROR, f"`{'.'.join(path)}` is set a second time", path, places.at(second),
        f"it is set {where} already: keep one of the two",
    )


def _explained(message: str, text: str, at: int) -> tuple[str, str, int]:
    """The message in a sysadmin's words, a hint for the usual slips, and the place to mark."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    rest = text[at:].split("\n", 1)[0].rstrip("\r")
    if message == "Invalid value":
        return (*_no_value(re.split(r"[\s,\]}#]", rest, maxsplit=1)[0], before), at)
    if message.startswith("Expected '=' after a key"):
        if rest.startswith(":"):
            return "a key and its value are joined by `=`, not by `:`", "", at
        return "a `=` is missing after the key", "", at
    if message.startswith("Expected newline or end of document"):
        number = re.search(r"=\s*([+-]?[0-9][0-9_.]*)$", before)
        word = re.split(r"[\s,\]}#]", rest, maxsplit=1)[0]
        if number and word:
            return (*_no_value(number[1] + word, before), at - len(number[1]))
        if rest.startswith("\r"):
            return "a carriage return alone ends no line", "save the file with line feeds (dos2unix)", at
        return "something stands behind the end of the value", "one key a line; text stands in quotes", at
    if message.startswith("Invalid statement"):
        return "this is no key, table or comment", "", at
    if message.startswith("Unescaped '\\' in a string"):
        slash = text.rfind("\\", 0, at)
        hint = "write \\\\, or put the text between single quotes: '…'"
        return "a backslash in text between double quotes", hint, slash if slash >= 0 else at
    if message.startswith("Illegal character '\\n'"):
        hint = 'add the closing quote; text of several lines stands between """ and """'
        return "the text is not closed on its line", hint, at
    return message[:1].lower() + message[1:], "", at


def _no_value(word: str, before: str) -> tuple[str, str]:
    """A word in the place of a value; ``before`` is its line up to it, which tells whether it is a secret."""
    lowered = word.lower()
    if not word:
        return "a value is missing", ""
    if lowered in ("true", "yes", "on", "false", "no", "off"):
        return f"`{word}` is no TOML value", "write true" if lowered in ("true", "yes", "on") else "write false"
    if lowered in ("none", "null", "nil"):
        return f"`{word}` is no TOML value", "TOML knows no null: leave the line out"
    if word[0] in "“”‘’„«":
        return "a typographic quotation mark", 'text stands between plain quotes: "…"'
    if any(is_secret_name(name) for name in re.findall(r"[A-Za-z0-9_-]+", before)):
        return "this is no TOML value", "text stands in quotes"
    return f"`{word}` is no TOML value", f'text stands in quotes: "{word}"'
