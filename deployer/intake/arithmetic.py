"""Arithmetic of the shell on whole numbers. Source: bash(1), "ARITHMETIC EVALUATION"."""

from __future__ import annotations

import re
from collections.abc import Callable

from deployer.protocol import patterns

_TOKEN = patterns.compile(
    r"\s*(0[xX][0-9A-Fa-f]+|\d+#\w+|\d+|[A-Za-z_]\w*(?:\[[^\]]*\])?|\+\+|--|\*\*|<<=|>>=|<<|>>|<=|>=|"
    r"==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^!~<>=?:(),])")
_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
           ("*", "/", "%"))


class Unreadable(ValueError):
    """An expression that is none, or whose value cannot be known."""


def evaluate(text: str, get: Callable[[str], str], put: Callable[[str, str], None]) -> int:
    """The value of an expression in which ``$`` has been filled in. Raises ``Unreadable``."""
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise Unreadable(text)
        tokens.append(match[1])
        at = match.end()
    if not tokens:
        return 0
    reader = _Reader(tokens, get, put)
    value = reader.comma()
    if reader.at != len(tokens):
        raise Unreadable(text)
    return value


class _Reader:
    def __init__(self, tokens: list[str], get: Callable[[str], str], put: Callable[[str, str], None]) -> None:
        self.tokens, self.at, self.get, self.put = tokens, 0, get, put

    def _next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._next()
        if not token:
            raise Unreadable("")
        self.at += 1
        return token

    def comma(self) -> int:
        value = self.assignment()
        while self._next() == ",":
            self.at += 1
            value = self.assignment()
        return value

    def assignment(self) -> int:
        name = self._next()
        after = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ""
        if re.match(r"[A-Za-z_]", name) and re.fullmatch(r"(?:[-+*/%&|^]|<<|>>)?=", after):
            self.at += 2
            value = self.assignment()
            if after != "=":
                value = _binary(after[:-1], self._value(name), value)
            self.put(name, str(value))
            return value
        return self.choice()

    def choice(self) -> int:
        value = self.level(0)
        if self._next() != "?":
            return value
        self.at += 1
        yes = self.comma()
        if self._take() != ":":
            raise Unreadable("?")
        no = self.assignment()
        return yes if value else no

    def level(self, index: int) -> int:
        if index == len(_LEVELS):
            return self.power()
        value = self.level(index + 1)
        while self._next() in _LEVELS[index]:
            operator = self._take()
            value = _binary(operator, value, self.level(index + 1))
        return value

    def power(self) -> int:
        value = self.unary()
        if self._next() == "**":
            self.at += 1
            exponent = self.power()
            if not 0 <= exponent < 64:
                raise Unreadable("**")
            return int(value**exponent)
        return value

    def unary(self) -> int:
        token = self._take()
        if token in ("+", "-", "!", "~"):
            value = self.unary()
            return {"+": value, "-": -value, "!": int(not value), "~": ~value}[token]
        if token in ("++", "--"):
            name = self._take()
            value = self._value(name) + (1 if token == "++" else -1)
            self.put(name, str(value))
            return value
        if token == "(":
            value = self.comma()
            if self._take() != ")":
                raise Unreadable("(")
            return value
        if re.match(r"[A-Za-z_]", token):
            value = self._value(token)
            if self._next() in ("++", "--"):
                self.put(token, str(value + (1 if self._take() == "++" else -1)))
            return value
        return _number(token)

    def _value(self, name: str, depth: int = 0) -> int:
        text = self.get(name).strip()
        if not text:
            return 0
        if re.fullmatch(r"[A-Za-z_]\w*", text) and depth < 16:
            return self._value(text, depth + 1)
        return evaluate(text, self.get, self.put) if depth < 16 else 0


def _number(token: str) -> int:
    try:
        if "#" in token:
            base, _, digits = token.partition("#")
            return int(digits, int(base))
        if token[:2].lower() == "0x":
            return int(token, 16)
        return int(token, 8) if len(token) > 1 and token[0] == "0" else int(token)
    except ValueError:
        raise Unreadable(token) from None


def _binary(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if not right:
            raise Unreadable("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator in ("<<", ">>") and not 0 <= right < 64:
        raise Unreadable(operator)
    functions: dict[str, Callable[[], int]] = {
        "||": lambda: int(bool(left or right)), "&&": lambda: int(bool(left and right)), "|": lambda: left | right,
        "^": lambda: left ^ right, "&": lambda: left & right, "==": lambda: int(left == right),
        "!=": lambda: int(left != right), "<": lambda: int(left < right), ">": lambda: int(left > right),
        "<=": lambda: int(left <= right), ">=": lambda: int(left >= right), "<<": lambda: left << right,
        ">>": lambda: left >> right, "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
    }
    return functions[operator]()
