"""``test``, ``[`` and ``[[``. Source: bash(1), "CONDITIONAL EXPRESSIONS"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deployer.intake.machine import ABSENT, FAILURE, MAYBE, SUCCESS, Machine
from deployer.intake.patterns import regex
from deployer.intake.words import split

if TYPE_CHECKING:
    from deployer.intake.expand import Piece

Word = tuple[str, list["Piece"]]
_FILES = set("abcdefghkprstuwxGLNOS")
_BINARY = {"=", "==", "!=", "<", ">", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"}


def plain(machine: Machine, args: list[str]) -> int:
    """``[ … ]`` with its words already expanded."""
    return _Reader(machine, [(arg, [("quo", arg)]) for arg in args], False).whole()


def double(machine: Machine, text: str) -> int:
    """``[[ … ]]`` as written between the brackets: words are not split, right sides are patterns."""
    parts = re.split(r"\s+(&&|\|\|)\s+", text.strip())
    status = _part(machine, parts[0])
    for operator, part in zip(parts[1::2], parts[2::2], strict=True):
        if (status in (SUCCESS, MAYBE)) == (operator == "&&"):
            status = _part(machine, part)
    return status


def _part(machine: Machine, text: str) -> int:
    matched = re.fullmatch(r"(\S+|\"[^\"]*\")\s+=~\s+(.*)", text.strip(), re.DOTALL)
    if matched:
        left, right = (machine.words.pieces(part) for part in matched.groups())
        words: list[Word] = [("".join(t for _, t in left), left), ("=~", [("lit", "=~")]),
                             ("".join(t for _, t in right), right)]
        return _Reader(machine, words, True).whole()
    words = []
    for raw in split(text):
        pieces = [("lit", raw)] if raw in ("<", ">", "(", ")", "!") else machine.words.pieces(raw)
        words.append(("".join(part for _, part in pieces), pieces))
    return _Reader(machine, words, True).whole()


class _Reader:
    def __init__(self, machine: Machine, words: list[Word], double: bool) -> None:
        self.machine, self.words, self.at, self.double = machine, words, 0, double

    def whole(self) -> int:
        if not self.words:
            return FAILURE
        names = self.machine.unknowns.names(*(text for text, _ in self.words))
        self.machine.decided += [name for name in names if name not in self.machine.decided]
        return self._or()

    def _next(self, ahead: int = 0) -> str | None:
        return self.words[self.at + ahead][0] if self.at + ahead < len(self.words) else None

    def _or(self) -> int:
        value = self._and()
        while self._next() in ("||", "-o"):
            self.at += 1
            other = self._and()
            value = SUCCESS if SUCCESS in (value, other) else max(value, other, key=lambda s: s in (MAYBE, ABSENT))
        return value

    def _and(self) -> int:
        value = self._not()
        while self._next() in ("&&", "-a") and self.at + 1 < len(self.words):
            self.at += 1
            other = self._not()
            value = FAILURE if FAILURE in (value, other) else other if value == SUCCESS else value
        return value

    def _not(self) -> int:
        if self._next() == "!" and self._next(1) is not None:
            self.at += 1
            value = self._not()
            return {SUCCESS: FAILURE, FAILURE: SUCCESS}.get(value, value)
        if self._next() == "(" and self._next(1) is not None and self._next(1) not in _BINARY:
            self.at += 1
            value = self._or()
            self.at += self._next() == ")"
            return value
        return self._primary()

    def _primary(self) -> int:
        first = self._next()
        if first is None:
            return FAILURE
        if self._next(1) in _BINARY and self._next(2) is not None:
            operator, right = self._next(1) or "", self.words[self.at + 2]
            self.at += 3
            return self._compare(first, operator, right)
        if re.fullmatch(r"-[a-zA-Z]", first) and self._next(1) is not None:
            operand = self._next(1) or ""
            self.at += 2
            return self._unary(first[1], operand)
        self.at += 1
        return SUCCESS if first else FAILURE

    def _unary(self, operator: str, operand: str) -> int:
        if operator == "n":
            return SUCCESS if operand else FAILURE
        if operator == "z":
            return FAILURE if operand else SUCCESS
        if operator in "vR":
            return SUCCESS if self.machine.get(operand) is not None else FAILURE
        if operator in "to":
            return FAILURE
        if operator in _FILES:
            files, folder = self.machine.world.files, self.machine.folder
            if not files.exists(operand, folder):
                return ABSENT
            folder_there = files.is_folder(operand, folder)
            return SUCCESS if (operator == "d") == folder_there or operator not in "df" else FAILURE
        return MAYBE

    def _compare(self, left: str, operator: str, right: Word) -> int:
        if operator in ("=", "==", "!="):
            equal = (bool(re.fullmatch(regex([("lit" if k == "exp" else k, t) for k, t in right[1]]), left))
                     if self.double else left == right[0])
            return SUCCESS if equal == (operator != "!=") else FAILURE
        if operator == "=~":
            pattern = "".join(re.escape(t) if k == "quo" else t for k, t in right[1])
            try:
                found = re.search(pattern, left)
            except re.error:
                return MAYBE
            self.machine.put("BASH_REMATCH", [found[0], *(g or "" for g in found.groups())] if found else [])
            return SUCCESS if found else FAILURE
        if operator in "<>":
            return SUCCESS if (left < right[0] if operator == "<" else left > right[0]) else FAILURE
        if operator in ("-nt", "-ot", "-ef"):
            return MAYBE
        try:
            a, b = (int(self.machine.words.arithmetic(t) if self.double else t.strip()) for t in (left, right[0]))
        except ValueError:
            return MAYBE if self.machine.unknowns.found(left + right[0]) else FAILURE
        results = {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}
        return SUCCESS if results[operator] else FAILURE
