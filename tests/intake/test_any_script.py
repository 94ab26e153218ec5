"""Whatever is handed over: an import ends, and never with a fault of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.intake.bring import How, bring_text, bring_unit
from deployer.intake.files import Files

PIECES = [
    "python3 -m sglang.launch_server", " --a ", "$X", "${X:-", "}", "$(", ")", "`", "\"", "'", "\\", "\n", "\r\n",
    "|", "&", ";", "&&", "||", "if ", "then ", "fi", "for i in ", "do ", "done", "while ", "case x in ", "esac",
    "a)", ";;", "{ ", " }", "[[ ", " ]]", "((", "))", "$((", "<<EOF\n", "EOF\n", "A=", "A=(", "[0]", "#",
    "{1..3}", "{a,b}", "*", "~", "echo ", "eval ", "bash -c ", "env -S ", "source /x\n", "f() {", "f\n", "exec ",
    "docker run -e A img ", "\t", "$'", "é", "\udc80", "%", "!", "<(", "local ", "read A\n", "set -- ", "shift\n",
    "tmux new ",
]
UNIT = [
    "[Service]\n", "[Unit]\n", "[Container]\nImage=x\n", "ExecStart=", "/bin/sh -c ", "Environment=", "Exec=",
    "\\\n", "%h", "Type=notify\n", "User=%p\n", *PIECES,
]


@given(st.lists(st.sampled_from(PIECES), max_size=25))
@settings(max_examples=300, deadline=None)
def test_scripts(pieces: list[str]) -> None:
    text = "".join(pieces)
    result = bring_text(text.encode("utf-8", "surrogateescape"), "x.sh", "shell", Files(None), How())
    assert all(unit.settings and unit.launch for unit in result.units)


@given(st.lists(st.sampled_from(UNIT), max_size=25), st.booleans())
@settings(max_examples=300, deadline=None)
def test_units(pieces: list[str], quadlet: bool) -> None:
    data = "".join(pieces).encode("utf-8", "surrogateescape")
    result = bring_unit(data, "x.container" if quadlet else "x.service", {}, Files(None), How())
    assert len(result.units) >= 1
    assert set(result.traps) == {finding.code for finding in result.findings}
