"""Whatever is read, reading says what is wrong instead of raising, and always ends."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from deployer.systemd import specifiers
from deployer.systemd.command import commands
from deployer.systemd.environment import assignments, entries
from deployer.systemd.lint import lint
from deployer.systemd.parse import merge, parse, service_settings

PIECES = st.sampled_from([
    b"[Unit]\n", b"[Service]\n", b"[", b"]", b"=", b"\\", b"\\\n", b"\n", b"\r", b"\0", b'"', b"'", b"%", b"$", b"${",
    b"}", b";", b"#", b" ", b"ExecStart=", b"Environment=", b"After=", b"WantedBy=", b"User=", b"a", b"\xff",
    b"\xef\xbb\xbf", b"\xef\xbf\xbe", b"\\x", b"\\U0011", b"-@:+!", b"%I", b"Restart=", b"/bin/a ",
])
ANY = st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=30).map(b"".join))


@settings(max_examples=400, deadline=None)
@given(ANY, ANY)
@example(b"[Service]\nExecStart=", b"")
@example(b"[Service]\nExecStart=-\nExecStart=@/bin/a\nExecStart=\"", b"A='")
@example(b"\\", b"\\")
def test_reading_never_raises(text: bytes, file: bytes) -> None:
    unit = merge(parse(text, "a.service"), [parse(file, "b.conf")])
    values = {**specifiers.SYSTEM, **specifiers.of_unit("a@b.service")}
    env, _ = assignments(unit.effective("Service", "Environment"), values)
    found, _ = commands(unit.effective("Service", "ExecStart"), values)
    for systemd in (247, 257):
        variables, _ = entries(file, systemd=systemd)
        env.update({entry.name: entry.value for entry in variables if entry.valid})
    assert all(isinstance(word, str) for command in found for word in command.argv(env))
    assert all(problem.line >= 1 and problem.code for problem in lint(unit))
    for section in ("Unit", "Service", "Install"):
        for key in unit.keys(section):
            assert len(unit.effective(section, key)) <= len(unit.all(section, key))
            unit.words(section, key)
    service_settings(text.decode("utf-8", "surrogateescape"))


def test_a_line_beyond_the_limit_is_not_read() -> None:
    unit = parse("[Service]\nUser=a\nExecStart=/bin/a " + "x" * 1024 * 1024 + "\nGroup=b\n")
    assert [(problem.code, problem.fatal) for problem in unit.problems] == [("line-too-long", True)]
    assert [item.key for item in unit.assignments] == ["User"]


def test_reading_is_linear() -> None:
    """A megabyte of continued lines is read once, not once a line."""
    import time

    begun = time.process_time()
    sum(range(20_000_000))
    work = time.process_time() - begun
    begun = time.process_time()
    parse("[Service]\nExecStart=/bin/a" + " \\\n  --x y" * 20_000)
    assert time.process_time() - begun < 10 * work
