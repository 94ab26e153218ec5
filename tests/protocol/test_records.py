"""``records`` and ``patterns`` behave as what they stand for: ``dataclasses`` and ``re``."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from deployer.protocol import patterns, records


def made(by: Any, **options: Any) -> Any:
    """The same class, by either module."""
    @by.dataclass(**options)
    class Base:
        name: str
        size: int = 3

    @by.dataclass(**options)
    class Record(Base):
        parts: Any = by.field(default_factory=dict)
        key: str = by.field(default="", repr=False)
        seen: int = by.field(default=0, compare=False)

        @property
        def twice(self) -> int:
            return self.size * 2

    return Record


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"frozen": True, "eq": False}])
def test_as_dataclasses(options: dict[str, bool]) -> None:
    ours, theirs = made(records, **options), made(dataclasses, **options)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("a",), {}), (("a", 4), {"key": "k"}), ((), {"size": 1, "name": "b", "parts": (1,)}),
        (("a", 1, (), "k", 9), {}),
    ]
    for args, kwargs in calls:
        one, other = ours(*args, **kwargs), theirs(*args, **kwargs)
        assert vars(one) == vars(other) and one.twice == other.twice
        assert repr(one).rpartition("Record(")[2] == repr(other).rpartition("Record(")[2]
        assert (one == ours(*args, **kwargs)) == (other == theirs(*args, **kwargs))
        assert (one == records.replace(one, seen=77)) == (other == dataclasses.replace(other, seen=77))
        assert one != records.replace(one, name="c") and one != other
        assert copy.deepcopy(one).parts == one.parts
    assert [each.name for each in records.fields(ours)] == [each.name for each in dataclasses.fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__ and ours.size == theirs.size


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), (("a", 1, 2, 3, 4, 5), {}), (("a",), {"other": 1}),
                                              (("a",), {"name": "b"})])
def test_wrong_arguments_are_refused(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for by in (records, dataclasses):
        with pytest.raises(TypeError):
            made(by)(*args, **kwargs)


def test_wrong_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):
        @records.dataclass
        class Shared:
            parts: Any = []  # noqa: RUF012

    with pytest.raises(TypeError, match="no default"):
        @records.dataclass
        class Reversed:
            size: int = 1
            name: str  # type: ignore[misc]

    with pytest.raises(TypeError):
        records.fields(int)  # type: ignore[arg-type]


def test_frozen_and_hashed() -> None:
    frozen, open_, own = made(records, frozen=True), made(records), made(records, eq=False)
    one = frozen("a", parts=())
    with pytest.raises(AttributeError):
        one.name = "b"
    with pytest.raises(AttributeError):
        del one.name
    assert hash(one) == hash(frozen("a", parts=(), seen=4)) and one in {frozen("a", parts=())}
    with pytest.raises(TypeError):
        hash(open_("a"))
    assert own("a") != own("a") and hash(own("a"))


def test_after_the_fields() -> None:
    @records.dataclass
    class Range:
        low: int
        high: int = 9

        def __post_init__(self) -> None:
            self.high = max(self.low, self.high)

        def __repr__(self) -> str:
            return f"{self.low}-{self.high}"

    assert repr(Range(12)) == "12-12" and Range(1).high == 9


def test_pickled() -> None:
    from deployer.protocol.codec import Unknown

    assert pickle.loads(pickle.dumps(Unknown("no answer"))) == Unknown("no answer")


def test_a_pattern_is_compiled_when_it_is_used() -> None:
    pattern = patterns.compile(r"(?P<n>\d+)", re.IGNORECASE)
    assert "_compiled" not in vars(pattern)
    found = pattern.search("a 12")
    assert found and found["n"] == "12" and pattern.sub("x", "1 2") == "x x"
    assert pattern.pattern == r"(?P<n>\d+)" and pattern.flags & re.IGNORECASE and pattern.groups == 1
    with pytest.raises(AttributeError):
        pattern.no_such_thing  # type: ignore[attr-defined]  # noqa: B018


def test_every_pattern_of_the_package_compiles() -> None:
    """Compiled late, a wrong one would be found late."""
    program = textwrap.dedent("""
        import importlib, pkgutil, deployer
        from deployer.protocol import patterns
        made, compile = [], patterns.compile
        def kept(*words, **named):
            made.append(compile(*words, **named))
            return made[-1]
        patterns.compile = kept
        for module in pkgutil.walk_packages(deployer.__path__, "deployer."):
            if not module.name.endswith(("__main__", ".unpack")):
                importlib.import_module(module.name)
        print(len([pattern.groups for pattern in made]))
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 200
