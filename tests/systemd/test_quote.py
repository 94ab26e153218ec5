"""What is written is what is read, for any text; and what cannot be written is said."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deployer.systemd import quote, specifiers
from deployer.systemd.command import commands
from deployer.systemd.environment import assignments, entries
from deployer.systemd.parse import merge, parse

NONCHARACTERS = "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17))
ANY = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))
TRICKY = st.text(st.sampled_from("%$\"'\\;#={} \n\t\r-@:+!abnx0é\x7f\x01`"), max_size=12)
TEXT = st.one_of(ANY, TRICKY)
PLAIN = TEXT.filter(lambda text: not any(char in NONCHARACTERS or "\ufdd0" <= char <= "\ufdef" for char in text))
SPECIFIERS = {**specifiers.SYSTEM, **specifiers.of_unit("unit-a@in-st.service")}


def run(line: str) -> tuple[list[str], dict[str, str]]:
    """argv and environment of a unit with these [Service] lines, as the parser reads them; nothing odd in it."""
    unit = merge(parse(f"[Service]\n{line}\n[Install]\nWantedBy=a.target\n"))
    env, env_problems = assignments(unit.effective("Service", "Environment"), SPECIFIERS)
    found, problems = commands(unit.effective("Service", "ExecStart"), SPECIFIERS)
    assert not [*unit.problems, *env_problems, *problems]
    assert unit.value("Install", "WantedBy") == "a.target"
    return (found[0].argv(env) if found else []), env


@given(st.lists(TEXT, max_size=5))
@example([";", "", "#", "-", "\ufffe", "\\", "$", "${X}", "%n", "a\\\nb"])
def test_words_of_a_command(words: list[str]) -> None:
    line = " \\\n    ".join(["ExecStart=/bin/x", *map(quote.word, words)])
    assert run(line)[0] == ["/bin/x", *words]


@given(TEXT.filter(lambda text: not set(text) & set("\"'\\\x7f") and min([*text, " "]) >= " "))
@example("$HOME")
@example("${X} $$ %n #;")
def test_program(name: str) -> None:
    path = f"/opt/{name}/python"
    assert run(f"ExecStart={quote.program(path)} x")[0] == [path, "x"]


@given(PLAIN)
@example('{"a": "b c"}')
def test_environment(value: str) -> None:
    assert run(f"Environment={quote.environment('NAME', value)}")[1] == {"NAME": value}


@given(st.lists(PLAIN, min_size=1, max_size=3))
@example(["a\\", "\n", "'\"`$x"])
@example([" blanks "])
def test_environment_file(values: list[str]) -> None:
    text = "".join(quote.environment_file(f"V{index}", value) + "\n" for index, value in enumerate(values))
    for systemd in (247, 257):
        found, problems = entries(text, systemd=systemd)
        assert ([(entry.name, entry.value) for entry in found], problems) == (
            [(f"V{index}", value) for index, value in enumerate(values)], [])


@given(PLAIN)
@example("%n \\")
@example("two\nlines")
def test_text_stays_one_line(value: str) -> None:
    try:
        written = quote.text(value)
    except quote.QuotingError as error:
        assert error.code == "control-character"
        return
    unit = merge(parse(f"[Unit]\nDescription={written}\nAfter=b.target\n"))
    assert unit.problems == ()
    assert unit.words("Unit", "After") == ["b.target"]
    expected = " ".join(value.split()).rstrip("\\").rstrip()
    assert specifiers.expand(unit.value("Unit", "Description") or "", SPECIFIERS) == expected


@pytest.mark.parametrize(("act", "code"), [
    (lambda: quote.word("a\0b"), "nul-byte"),
    (lambda: quote.word("x" * 131_072), "argument-too-long"),
    (lambda: quote.word("é" * 65_536), "argument-too-long"),
    (lambda: quote.word("\ud800"), "not-text"),
    (lambda: quote.program("bin/python"), "bad-program"),
    (lambda: quote.program("/opt/x/"), "bad-program"),
    (lambda: quote.program('/opt/"x"/python'), "bad-program"),
    (lambda: quote.program("@python"), "bad-program"),
    (lambda: quote.environment("1X", "a"), "bad-variable-name"),
    (lambda: quote.environment("A-B", "a"), "bad-variable-name"),
    (lambda: quote.environment("A", "a\0"), "nul-byte"),
    (lambda: quote.environment("A", "\ufffe"), "not-text"),
    (lambda: quote.environment("A", "x" * 131_070), "argument-too-long"),
    (lambda: quote.environment_file("export X", "a"), "bad-variable-name"),
    (lambda: quote.path("/a\nb"), "control-character"),
    (lambda: quote.directive("a\nb"), "line-break"),
    (lambda: quote.directive("a\\"), "trailing-backslash"),
    (lambda: quote.directive("x" * 1024 * 1024), "argument-too-long"),
])
def test_what_cannot_be_written_is_said(act: object, code: str) -> None:
    with pytest.raises(quote.QuotingError) as raised:
        act()  # type: ignore[operator]
    assert raised.value.code == code


def test_longest_argument_fits() -> None:
    assert quote.word("x" * 131_070) == "x" * 131_070
    assert quote.word("\n" * 131_071).count("\\n") == 131_071


@pytest.mark.parametrize("bare", ["--port", "30000", "/models/x-1.5", "a=b", "http://h:1/x,y", "user@host", "1e-3"])
def test_plain_words_stay_bare(bare: str) -> None:
    assert quote.word(bare) == bare
