"""The scanner of places against ``tomllib``: the same paths, and each span read alone gives the value at its path."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.settings.spans import Places, ScanError, scan

NAMES = ["a", "b", "tp-size", "tp_size", "0", "1", "", "é", "x.y", "with space", "#", "=", "]", '"', "\\", "\t", "😀"]
BARE = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def basic(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "é": "\\u00e9", "😀": "\\U0001f600"}
    return '"' + "".join(escapes.get(letter, letter) for letter in text) + '"'


@st.composite
def keys(draw: Any) -> str:
    name = draw(st.sampled_from(NAMES))
    styles = [basic(name)]
    if name and set(name) <= BARE:
        styles.append(name)
    if "'" not in name:
        styles.append(f"'{name}'")
    return draw(st.sampled_from(styles))


blanks = st.sampled_from(["", " ", "  ", "\t"])
comments = st.sampled_from(["", "  # a comment", "# = [ { \" ' \"\"\" ''' é 😀"])


@st.composite
def dotted(draw: Any) -> str:
    parts = draw(st.lists(keys(), min_size=1, max_size=3))
    return f"{draw(blanks)}.{draw(blanks)}".join(parts)


scalars = st.sampled_from(
    [
        "0", "-17", "1_000", "0xdead_beef", "0o17", "0b1", "3.14", "-1e-9", "inf", "true", "false", "1979-05-27",
        "1979-05-27 07:32:00", "1979-05-27T07:32:00.5+01:00", "07:32:00", '""', "''", '"#"', "'#'",
        '"] } , = \\" \\\\"',
        "'\\'", '"é😀"', '""""""', "''''''", '"""a"b""c"""', '"""a"""""', "'''a'''''", '"""\nline\n  [x]\nk = 1\n"""',
        "'''\n\\ # no comment\n'''", '"""\\\n   joined \\\n\n  lines"""', '"""\\""""', "'''''a'''", '""" " "" ]}, """',
    ]
)  # fmt: skip


@st.composite
def arrays(draw: Any, items: Any) -> str:
    values = draw(st.lists(items, max_size=3))
    gap = st.sampled_from(["", " ", "\n", " # , ] \"\n  ", "\n\n"])
    text = "["
    for index, value in enumerate(values):
        comma = "," if index < len(values) - 1 or draw(st.booleans()) else ""
        text += draw(gap) + value + draw(gap) + comma
    return text + draw(gap) + "]"


@st.composite
def tables(draw: Any, items: Any) -> str:
    pairs = draw(st.lists(st.tuples(dotted(), items), max_size=3))
    return "{" + ",".join(f"{draw(blanks)}{key}{draw(blanks)}={draw(blanks)}{item}" for key, item in pairs) + " }"


values = st.recursive(scalars, lambda items: arrays(items) | tables(items), max_leaves=6)


@st.composite
def statements(draw: Any) -> str:
    kind = draw(st.sampled_from(["pair", "pair", "pair", "table", "array", "blank"]))
    tail = draw(blanks) + draw(comments) + "\n"
    if kind == "pair":
        return f"{draw(blanks)}{draw(dotted())}{draw(blanks)}={draw(blanks)}{draw(values)}{tail}"
    if kind == "table":
        return f"{draw(blanks)}[{draw(blanks)}{draw(dotted())}{draw(blanks)}]{tail}"
    if kind == "array":
        return f"[[{draw(blanks)}{draw(dotted())}{draw(blanks)}]]{tail}"
    return tail


@st.composite
def documents(draw: Any) -> str:
    """A document that ``tomllib`` takes: each statement is kept if the text with it is still valid."""
    text = ""
    for statement in draw(st.lists(statements(), max_size=12)):
        try:
            tomllib.loads(text + statement)
        except tomllib.TOMLDecodeError:
            continue
        text += statement
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def flattened(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {path: value} if path else {}
    for name, item in items:
        found.update(flattened(item, (*path, str(name))))
    return found


@settings(max_examples=150, deadline=None)
@given(documents())
def test_every_span_is_the_value_at_its_path(text: str) -> None:
    expected = flattened(tomllib.loads(text))
    spans = scan(text).spans
    assert set(spans) == set(expected)
    for path, span in spans.items():
        if span.value:
            assert tomllib.loads("v = " + text[slice(*span.value)])["v"] == expected[path]
        if span.key != span.value:
            named = path[-2] if isinstance(expected.get(path[:-1]), list) else path[-1]
            assert tomllib.loads(text[slice(*span.key)] + " = 1") == {named: 1}


@settings(max_examples=50, deadline=None)
@given(documents(), st.integers(0, 400))
def test_lines_and_columns_count_characters_from_1(text: str, offset: int) -> None:
    offset = min(offset, len(text))
    place = Places("f", text).at(offset)
    lines = text[:offset].split("\n")
    assert (place.line, place.column) == (len(lines), len(lines[-1]) + 1)
    assert Places("f", text).offset(place.line or 0, place.column or 0) == offset


@settings(max_examples=80, deadline=None)
@given(documents(), st.integers(0, 400), st.sampled_from(list("[]{}\"'=.,#\n\\ a")))
def test_a_broken_text_ends_in_spans_or_in_a_scan_error(text: str, offset: int, letter: str) -> None:
    broken = text[: offset % (len(text) + 1)] + letter + text[offset % (len(text) + 1) :]
    try:
        spans = scan(broken).spans
    except ScanError as error:
        assert 0 <= error.offset <= len(broken)
    else:
        assert all(0 <= span.key[0] <= span.key[1] <= len(broken) for span in spans.values())


TEXT = """\
"a.b" = 1
[args]
tp_size = 8
json = { x = [1, { "é" = 2 }] }
[[hooks.before]]
command = ["x"]
[[hooks.before]]
command = ["y"]
"""


def test_places_are_found_in_either_spelling_and_by_their_ancestors() -> None:
    places = Places("f", TEXT)
    assert str(places.where(("a.b",))) == "f:1:1"
    assert str(places.where(("args", "tp-size"))) == "f:3:1"
    assert str(places.value(("args", "tp-size"))) == "f:3:11"
    assert str(places.value(("args", "json", "x", "1", "é"))) == "f:4:26"
    assert str(places.where(("args", "port"))) == "f:2:2"
    assert str(places.value(("args", "port"))) == "f:2:2"
    assert str(places.where(("hooks", "before", "1", "command"))) == "f:8:1"
    assert str(places.where(("verify", "stall"))) == "f:1:1"


def test_the_exact_spelling_comes_before_the_other() -> None:
    places = Places("f", "tp-size = 1\ntp_size = 2\n")
    assert str(places.where(("tp_size",))) == "f:2:1"
    assert str(places.where(("tp-size",))) == "f:1:1"
