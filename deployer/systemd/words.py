"""Words as systemd reads them: quotes and escapes of extract-word.c and escape.c (252 to 257 read alike)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deployer.protocol import patterns

WHITESPACE = " \t\n\r"

_PLAIN = patterns.compile(r"""[^ \t\n\r"'\\]*""")
_IN_DOUBLE = patterns.compile(r'[^"\\]*')
_IN_SINGLE = patterns.compile(r"[^'\\]*")
_BLANKS = patterns.compile(r"[ \t\n\r]*")
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"',
          "'": "'", "s": " "}
_NUMBERED = patterns.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{3})")


class BadQuoting(ValueError):
    """Quotes that are not closed, or an escape that this directive does not take."""


def first_word(
    text: str,
    start: int = 0,
    *,
    unescape: bool = False,
    keep_unknown: bool = False,
    relax: bool = False,
    retain_escape: bool = False,
    unquote: bool = True,
) -> tuple[str | None, int]:
    """The first word at ``start`` and where the next begins; None where nothing is left.

    ``unescape``: C escapes are filled in, otherwise a backslash only protects the next character. ``keep_unknown``:
    an unknown escape stays as it stands, otherwise ``BadQuoting``. ``relax``: an end inside quotes ends the word.
    """
    at = _BLANKS.match(text, start).end()  # type: ignore[union-attr]
    if at >= len(text):
        return None, at
    pieces: list[str] = []
    quote = ""
    while True:
        pattern = _PLAIN if not quote else _IN_DOUBLE if quote == '"' else _IN_SINGLE
        match = pattern.match(text, at)
        assert match is not None
        pieces.append(match[0])
        at = match.end()
        if at >= len(text):
            if quote and not relax:
                raise BadQuoting("the quotes are not closed")
            break
        char = text[at]
        if char == "\\":
            at = _backslash(text, at, pieces, quote, unescape, keep_unknown, relax, retain_escape)
        elif quote:
            quote = ""
            at += 1
        elif char in WHITESPACE:
            at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
            break
        elif unquote:
            quote = char
            at += 1
        else:
            pieces.append(char)
            at += 1
    word = "".join(pieces)
    return (_text(word) if unescape else word), at


def split(text: str, **how: bool) -> list[str]:
    """All words of ``text``; the options of ``first_word``. Raises ``BadQuoting``."""
    return list(_words(text, how))


def _words(text: str, how: dict[str, bool]) -> Iterator[str]:
    word, at = first_word(text, 0, **how)
    while word is not None:
        yield word
        word, at = first_word(text, at, **how)


def _backslash(
    text: str, at: int, pieces: list[str], quote: str, unescape: bool, keep_unknown: bool, relax: bool,
    retain_escape: bool,
) -> int:
    """What a backslash at ``at`` comes to; returns where reading goes on."""
    if retain_escape:
        pieces.append("\\")
        return at + 1
    if at + 1 >= len(text):
        if keep_unknown and (not quote or relax):
            pieces.append("\\")
        elif not relax:
            raise BadQuoting("a backslash ends the value")
        return len(text)
    if not unescape:
        pieces.append(text[at + 1])
        return at + 2
    char = text[at + 1]
    if char in _NAMED:
        pieces.append(_NAMED[char])
        return at + 2
    match = _NUMBERED.match(text, at + 1)
    value = _number(match) if match else None
    if match and value is not None:
        pieces.append(value)
        return match.end()
    if not keep_unknown:
        raise BadQuoting(f"\\{char} is no escape")
    pieces.append("\\" + char)
    return at + 2


def _number(match: re.Match[str]) -> str | None:
    """The character, or the byte (as a surrogate escape) behind ``\\x``, ``\\u``, ``\\U`` or three octal digits."""
    byte, short, long, octal = match.groups()
    code = int(byte or short or long, 16) if not octal else int(octal, 8)
    if code == 0 or (octal and code > 255):
        return None
    if (short or long) and (code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or 0xFDD0 <= code <= 0xFDEF
                            or code & 0xFFFE == 0xFFFE):
        return None
    if (byte or octal) and code >= 0x80:
        return chr(0xDC00 + code)
    return chr(code)


def _text(word: str) -> str:
    """Bytes that were written one by one and are UTF-8 together become the characters they stand for."""
    if word.isascii() or not any("\udc80" <= char <= "\udcff" for char in word):
        return word
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
