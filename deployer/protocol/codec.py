"""Frozen records (``records``) to plain JSON values and back.

Reading is tolerant where another version may have written (unknown keys are skipped, missing ones take their
default) and strict about shapes: a value of the wrong kind raises ``DecodeError``.
Understood field types: str, int, float, bool, Any, Optional[X], Tuple[X, ...], Dict[str, X], Enum, Union of
one record or scalar with ``Unknown``, and records of these.
"""

from __future__ import annotations

import enum
import functools
import typing
from typing import Any, Dict, Tuple, Type, TypeVar

from deployer.protocol import records

T = TypeVar("T")


class DecodeError(ValueError):
    """A message that is not what its type says: the text names the type and the field."""


@records.dataclass(frozen=True)
class Unknown:
    """A value that could not be found out, with the reason in words. Never stands for 0 or for an empty value."""

    reason: str

    def __bool__(self) -> bool:
        return False


def to_plain(value: Any) -> Any:
    """The JSON form of a record, enum, tuple or dict: what ``from_plain`` reads back to an equal value."""
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if records.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in records.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def from_plain(kind: Type[T], data: Any) -> T:
    """The value of type ``kind`` that ``data`` (decoded JSON) stands for; raises ``DecodeError``."""
    return typing.cast(T, _decode(kind, data, getattr(kind, "__name__", str(kind))))


@functools.lru_cache(maxsize=None)
def _fields(kind: Any) -> Tuple[Tuple[str, Any], ...]:
    hints = typing.get_type_hints(kind)
    return tuple((f.name, hints[f.name]) for f in records.fields(kind))


def _decode(kind: Any, data: Any, where: str) -> Any:
    if kind is Any or kind is object:
        return data
    origin = typing.get_origin(kind)
    if origin is typing.Union:
        return _union(typing.get_args(kind), data, where)
    if origin is tuple:
        item = typing.get_args(kind)[0]
        _expect(isinstance(data, list), where, "a list", data)
        return tuple(_decode(item, entry, "{}[{}]".format(where, index)) for index, entry in enumerate(data))
    if origin is dict:
        item = typing.get_args(kind)[1]
        _expect(isinstance(data, dict), where, "an object", data)
        return {key: _decode(item, entry, "{}.{}".format(where, key)) for key, entry in data.items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError:
            raise DecodeError("{}: {!r} is no {}".format(where, data, kind.__name__)) from None
    if records.is_dataclass(kind):
        _expect(isinstance(data, dict), where, "an object", data)
        return _construct(kind, data, where)
    if kind is float:
        _expect(isinstance(data, (int, float)) and not isinstance(data, bool), where, "a number", data)
        return float(data)
    if kind is int:
        _expect(isinstance(data, int) and not isinstance(data, bool), where, "an integer", data)
        return data
    _expect(isinstance(data, kind), where, kind.__name__, data)
    return data


def _construct(kind: Any, data: Dict[str, Any], where: str) -> Any:
    values = {
        name: _decode(hint, data[name], "{}.{}".format(where, name)) for name, hint in _fields(kind) if name in data
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise DecodeError("{}: {}".format(where, error)) from None


def _union(options: Tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in options:
        return None
    if Unknown in options and isinstance(data, dict) and set(data) == {"unknown"}:
        return Unknown(str(data["unknown"]))
    failures = []
    for option in options:
        if option in (Unknown, type(None)):
            continue
        try:
            return _decode(option, data, where)
        except DecodeError as error:
            failures.append(str(error))
    raise DecodeError("; ".join(failures) or "{}: null is not allowed".format(where))


def _expect(condition: bool, where: str, what: str, data: Any) -> None:
    if not condition:
        raise DecodeError("{}: expected {}, got {}".format(where, what, type(data).__name__))
