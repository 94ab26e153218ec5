"""A script with everything inside words blotted out, so that what is left is structure alone.

tree-sitter-bash reads the structure (lists, pipelines, ``if``, ``for``, ``case``, functions). Inside words it does not
read as bash does: it takes a carriage return, a no-break blank or an escaped tab for a gap, and JSON in an expansion
for an error. So each character of a word becomes a plain letter of the same place; remarks, redirections and
here-documents become blanks, and are read from the original text (``words.py``).
"""

from __future__ import annotations

import re

from deployer.intake import scan
from deployer.protocol import patterns
from deployer.protocol.records import dataclass, field

REDIRECTION = patterns.compile(r"(?:\d+|\{[A-Za-z_]\w*\})?(&>>|&>|<<<|<<-|<<|>>|>&|<&|<>|>\||>|<)")
_KEPT = patterns.compile(r"[A-Za-z0-9_./-]")


@dataclass
class HereDocument:
    """``text`` as written; ``literal``: its delimiter was quoted, nothing in it is expanded."""

    text: str
    literal: bool


@dataclass
class Outline:
    """``masked`` has one ASCII character for each of ``text``. Here-documents by the place of their ``<<``."""

    text: str
    masked: str = ""
    documents: dict[int, HereDocument] = field(default_factory=dict)


def outline(text: str) -> Outline:
    """The outline of a script."""
    return _Masker(text).run()


class _Masker:
    def __init__(self, text: str) -> None:
        self.text = text
        self.out: list[str] = []
        self.at = 0
        self.found = Outline(text)
        self.waiting: list[tuple[int, str, bool, bool]] = []   # place, delimiter, literal, tabs stripped

    def run(self) -> Outline:
        fresh = True                                # at the beginning of a word
        while self.at < len(self.text):
            fresh = self._step(fresh)
        self.found.masked = "".join(self.out)
        return self.found

    def _put(self, end: int, char: str) -> None:
        end = min(end, len(self.text))
        self.out.append(char * (end - self.at))
        self.at = end

    def _step(self, fresh: bool) -> bool:
        text, at = self.text, self.at
        char = text[at]
        if text.startswith("\\\n", at):
            gap = fresh or text[at + 2 : at + 3] in ("", " ", "\t")
            self._put(at + 2, " " if gap else "x")
            return gap
        if char == "\n":
            self._put(at + 1, "\n")
            self._documents()
            return True
        if char in scan.BLANKS:
            self._put(at + 1, " ")
            return True
        if fresh and char == "#":
            end = text.find("\n", at)
            self._put(len(text) if end < 0 else end, " ")
            return True
        redirection = REDIRECTION.match(text, at) if fresh or char in "<>&" else None
        if redirection and text[redirection.end() : redirection.end() + 1] != "(":
            self._redirection(redirection)
            return True
        if char in "<>":                            # a process substitution
            self._put(scan.word(text, at), "x")
            return False
        if char in "|&;()":
            if fresh and text.startswith("((", at) and not re.search(r"\bfor\s*$", text[:at]):
                end = scan.parentheses(text, at)
                if text[end - 2 : end] == "))":
                    self._put(end, "x")
                    return False
            self._put(at + 1, char)
            return True
        if fresh:
            return self._word()
        self._put(at + 1, char)
        return False

    def _word(self) -> bool:
        text, at = self.text, self.at
        if re.match(r"\[\[[ \t\n]", text[at:at + 3]):
            close = patterns.compile(r"(?<=[ \t\n])\]\](?=[ \t\n;&|)]|$)").search(text, at)
            self._put(close.end() if close else len(text), "x")
            return False
        if text[at] in "{}!" and text[at + 1 : at + 2] in ("", " ", "\t", "\n", ";", ")", "&", "|"):
            self._put(at + 1, text[at])
            return True
        end = scan.word(text, at)
        if end == at:
            self._put(at + 1, "x")
            return False
        inner = text[at:end]
        plain = all(_KEPT.match(char) for char in inner)
        if plain:
            self.out.append(inner)
            self.at = end
        else:
            self._put(end, "x")
        return False

    def _redirection(self, match: re.Match[str]) -> None:
        begin, text = self.at, self.text
        at = match.end()
        while at < len(text) and text[at] in scan.BLANKS:
            at += 1
        end = scan.word(text, at)
        if match[1] in ("<<", "<<-"):
            raw = text[at:end]
            delimiter = re.sub(r"\\(.)|['\"]", lambda found: found[1] or "", raw)
            self.waiting.append((begin, delimiter, delimiter != raw, match[1] == "<<-"))
        self._put(end, " ")

    def _documents(self) -> None:
        for place, delimiter, literal, tabs in self.waiting:
            begin, body = self.at, []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at:end]
                line = line.lstrip("\t") if tabs else line
                self._put(end, " ")
                self._put(end + 1, "\n")
                if line == delimiter:
                    break
                body.append(line + "\n")
            self.found.documents[place] = HereDocument("".join(body), literal)
            assert self.at >= begin
        self.waiting = []
