"""Plain records: ``dataclass``, ``field``, ``fields`` and ``replace`` of ``dataclasses``, made much quicker.

``dataclasses`` writes each method as text and compiles it: about 1 ms of CPU for each class and 11 ms for its own
import (CPython 3.11), in every process anew. The agent starts once for each contact with a host and the client for
each command, and most classes are then used once or never. Here the methods are closures over the fields' names. A
type checker sees the real ``dataclasses``. Not offered: ``order``, ``slots``, ``kw_only``, ``InitVar``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

if TYPE_CHECKING:
    from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
else:
    MISSING = object()

    class FrozenInstanceError(AttributeError):
        """A field of a frozen record was to be changed."""

    class Field:
        """One field: ``name`` and how it gets its value where none is given."""

        __slots__ = ("compare", "default", "default_factory", "name", "repr")

        def __init__(self, default: Any, default_factory: Any, compare: bool, repr: bool) -> None:
            self.name = ""
            self.default = default
            self.default_factory = default_factory
            self.compare = compare
            self.repr = repr

    def field(
        *, default: Any = MISSING, default_factory: Any = MISSING, compare: bool = True, repr: bool = True
    ) -> Any:
        return Field(default, default_factory, compare, repr)

    def fields(record: Any) -> Tuple[Field, ...]:
        """The fields of a record or of its class; raises TypeError for anything else."""
        try:
            return tuple(record.__record_fields__.values())
        except AttributeError:
            raise TypeError("{!r} is no record".format(record)) from None

    def is_dataclass(value: Any) -> bool:
        return hasattr(value, "__record_fields__")

    def replace(record: Any, **changes: Any) -> Any:
        return type(record)(**{**{name: getattr(record, name) for name in record.__record_fields__}, **changes})

    def dataclass(cls: Any = None, *, frozen: bool = False, eq: bool = True) -> Any:
        if cls is None:
            return lambda decorated: _make(decorated, frozen, eq)
        return _make(cls, frozen, eq)

    def _make(cls: Any, frozen: bool, eq: bool) -> Any:
        found = _fields_of(cls)
        cls.__record_fields__ = found
        cls.__match_args__ = tuple(found)
        cls.__init__ = _init(cls, found)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr(found)
        if eq:
            compared = [each.name for each in found.values() if each.compare]
            if "__eq__" not in cls.__dict__:
                cls.__eq__ = _eq(compared)
            if not frozen:
                cls.__hash__ = None
            elif not cls.__dict__.get("__hash__"):       # ``class`` puts None there beside an own __eq__
                cls.__hash__ = _hash(compared)
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
        return cls

    def _fields_of(cls: Any) -> Dict[str, Field]:
        found: Dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):
            found.update(base.__dict__.get("__record_fields__", {}))
        for name, kind in _annotations(cls).items():
            if "ClassVar" in str(kind):
                continue
            default = cls.__dict__.get(name, MISSING)
            this = default if isinstance(default, Field) else Field(default, MISSING, True, True)
            this.name = name
            if this.default is not MISSING:
                if type(this.default).__hash__ is None:
                    raise ValueError("{}.{}: one default for all would be shared; use default_factory".format(
                        cls.__qualname__, name))
                setattr(cls, name, this.default)
            elif name in cls.__dict__:
                delattr(cls, name)
            found[name] = this
        optional = False
        for this in found.values():
            given = this.default is not MISSING or this.default_factory is not MISSING
            if optional and not given:
                raise TypeError("{}.{} has no default, but a field before it has".format(cls.__qualname__, this.name))
            optional = optional or given
        return found

    def _annotations(cls: Any) -> Dict[str, Any]:
        """A class's own, not its base's (as 3.9 gives them where it has none)."""
        inherited = sys.version_info < (3, 10) and "__annotations__" not in vars(cls)
        return {} if inherited else cls.__annotations__

    def _init(cls: Any, found: Dict[str, Field]) -> Callable[..., None]:
        names = tuple(found)
        place = {name: index for index, name in enumerate(names)}
        defaults = {name: each.default for name, each in found.items() if each.default is not MISSING}
        factories = [
            (name, each.default_factory) for name, each in found.items() if each.default_factory is not MISSING]
        then = hasattr(cls, "__post_init__")
        count, title = len(names), cls.__qualname__

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            values = self.__dict__
            if len(args) > count:
                raise TypeError("{}() takes {} arguments, {} were given".format(title, count, len(args)))
            values.update(defaults)
            values.update(zip(names, args))
            for name in kwargs:
                if name not in place:
                    raise TypeError("{}() has no argument {!r}".format(title, name))
                if place[name] < len(args):
                    raise TypeError("{}() got two values for {!r}".format(title, name))
            values.update(kwargs)
            for name, make in factories:
                if name not in values:
                    values[name] = make()
            if len(values) != count:
                raise TypeError("{}() misses {}".format(title, ", ".join(n for n in names if n not in values)))
            if then:
                self.__post_init__()

        return __init__

    def _repr(found: Dict[str, Field]) -> Callable[[Any], str]:
        shown = [name for name, each in found.items() if each.repr]

        def __repr__(self: Any) -> str:
            words = ", ".join("{}={!r}".format(name, getattr(self, name)) for name in shown)
            return "{}({})".format(type(self).__qualname__, words)

        return __repr__

    def _eq(compared: List[str]) -> Callable[[Any, Any], Any]:
        def __eq__(self: Any, other: Any) -> Any:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return all(getattr(self, name) == getattr(other, name) for name in compared)

        return __eq__

    def _hash(compared: List[str]) -> Callable[[Any], int]:
        def __hash__(self: Any) -> int:
            return hash(tuple(getattr(self, name) for name in compared))

        return __hash__

    def _refuse_to_set(self: Any, name: str, value: Any) -> None:
        raise FrozenInstanceError("cannot assign to {!r} of a {}".format(name, type(self).__qualname__))

    def _refuse_to_delete(self: Any, name: str) -> None:
        raise FrozenInstanceError("cannot delete {!r} of a {}".format(name, type(self).__qualname__))


__all__ = ["MISSING", "dataclass", "field", "fields", "is_dataclass", "replace"]
