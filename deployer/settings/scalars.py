"""Kinds of single values: text, flags, numbers, durations, sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from deployer.protocol import patterns
from deployer.settings import quantity
from deployer.settings.shape import INVALID, Kind, Schema
from deployer.settings.sink import Key, Sink, nearest
from deployer.settings.words import assigned, dotted, quoted


class Text(Kind):
    """Text; one of ``choices`` where given, or matching ``pattern`` (described by ``words``); not empty by itself."""

    def __init__(
        self, words: str = "text", choices: Sequence[str] = (), pattern: str = "", empty: bool = False
    ) -> None:
        listed = ", ".join(f'"{choice}"' for choice in choices)
        self.words = f"one of {listed}" if len(choices) > 1 else listed or words
        self.choices = tuple(choices)
        self.pattern = patterns.compile(pattern) if pattern else None
        self.empty = empty

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if not isinstance(value, str):
            lone = isinstance(value, (int, float)) and not isinstance(value, bool) and not self.choices
            return self.wrong(value, key, sink, f"write {assigned(key, str(value))}" if lone else "")
        if self.choices and value not in self.choices:
            near = nearest(value, self.choices)
            hint = f'did you mean "{near}"?' if near else ""
            sink.value("bad-choice", key, f"`{dotted(key)}` takes {self.words}, not {quoted(value)}", hint)
            return INVALID
        if (not value and not self.empty) or (self.pattern and not self.pattern.fullmatch(value)):
            message = f"`{dotted(key)}` takes {self.words}, not {quoted(value)}"
            sink.value("bad-value", key, message, self.hint(value, key))
            return INVALID
        return value

    def hint(self, value: str, key: Key) -> str:
        """What to write instead of text that does not match."""
        return ""

    def schema(self) -> Schema:
        if self.choices:
            return {"enum": list(self.choices)}
        pattern = {"pattern": f"^({self.pattern.pattern})$"} if self.pattern else {}
        return {"type": "string", **pattern, **({} if self.empty or pattern else {"minLength": 1})}


class Flag(Kind):
    words = "true or false"
    takes_false = True

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if isinstance(value, bool):
            return value
        meant = {"true": "true", "yes": "true", "on": "true", "1": "true"}.get(str(value).lower(), "false")
        return self.wrong(value, key, sink, f"write {key[-1]} = {meant}")

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Number(Kind):
    """A number within bounds, both included; ``whole``: an integer."""

    def __init__(self, words: str, least: float | None = None, most: float | None = None, whole: bool = True) -> None:
        self.words = words
        self.least = least
        self.most = most
        self.whole = whole

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        kinds = int if self.whole else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool):
            plain = re.fullmatch(r"[+-]?\d+(_\d+)*", value) if isinstance(value, str) else None
            hint = f"write {assigned(key, int(plain[0]))}, without quotes" if plain else ""
            return self.wrong(value, key, sink, hint)
        if (self.least is not None and not value >= self.least) or (self.most is not None and not value <= self.most):
            bounds = [f"at least {self.least}"] if self.least is not None else []
            bounds += [f"at most {self.most}"] if self.most is not None else []
            sink.value("out-of-range", key, f"`{dotted(key)}` is {value}, and must be {' and '.join(bounds)}")
            return INVALID
        return value

    def schema(self) -> Schema:
        bounds = {"minimum": self.least, "maximum": self.most}
        return {"type": "integer" if self.whole else "number", **{k: v for k, v in bounds.items() if v is not None}}


class Quantity(Kind):
    """A duration or a size, read by ``convert``; ``above_zero``: 0 is no value."""

    def __init__(
        self, words: str, convert: Callable[[Any], float], schema: Schema, numbers: bool, above_zero: bool
    ) -> None:
        self.words = words
        self.convert = convert
        self._schema = schema
        self.numbers = numbers
        self.above_zero = above_zero

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not isinstance(value, str) and not (number and self.numbers):
            return self.wrong(value, key, sink, f'a size needs its unit: write "{value}MiB"' if number else "")
        try:
            result = self.convert(value)
        except quantity.QuantityError as error:
            sink.value("bad-value", key, f"`{dotted(key)}` takes {self.words}: {error}", error.hint)
            return INVALID
        if self.above_zero and result <= 0:
            sink.value("out-of-range", key, f"`{dotted(key)}` is 0, and must be above 0")
            return INVALID
        return result

    def schema(self) -> Schema:
        return self._schema


def Duration(above_zero: bool = False) -> Quantity:
    """Seconds as a float."""
    text = {"type": "string", "pattern": quantity.DURATION_PATTERN}
    number = {"type": "number", "exclusiveMinimum" if above_zero else "minimum": 0}
    words = 'a duration such as "90s" or "1h 30min"'
    return Quantity(words, quantity.duration, {"anyOf": [text, number]}, numbers=True, above_zero=above_zero)


def Size() -> Quantity:
    """Whole MiB as an integer."""
    text = {"type": "string", "pattern": quantity.SIZE_PATTERN}
    return Quantity('a size such as "4GiB"', quantity.size, text, numbers=False, above_zero=False)
