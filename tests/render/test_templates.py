"""Templates of the workspace: which counts, and where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer import resources
from deployer.settings.model import SecretRef
from tests.render.declared import codes, findings, rendered, text

UNIT = """\
[Service]
Environment=DEPLOYER_UNIT={{ unit }}
{% for assignment in environment %}
Environment={{ assignment }}
{% endfor %}
ExecStart={{ command_line }}{% for argument in arguments %} {{ argument }}{% endfor +%}
"""


def write(folder: Path, name: str, body: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.j2").write_text(body, encoding="utf-8")
    return folder


def test_the_workspaces_own_comes_first(tmp_path: Path) -> None:
    release = rendered(write(tmp_path, "sglang.service", UNIT), args={"port": 5}, env={"A": "1"})
    assert text(release) == (
        "[Service]\nEnvironment=DEPLOYER_UNIT=x.service\nEnvironment=A=1\n"
        "ExecStart=/opt/sglang/bin/python -m sglang.launch_server --port 5\n")
    assert release.argv[-2:] == ("--port", "5")


def test_own_macros_come_first_in_packaged_templates_too(tmp_path: Path) -> None:
    packaged = (resources.templates() / "macros.j2").read_text(encoding="utf-8")
    body = packaged.replace("{{ argument }}", "{{ argument }} ")
    assert "--port 5 \n" in text(rendered(write(tmp_path, "macros", body), args={"port": 5}))
    assert "--port 5\n" in text(rendered(None, args={"port": 5}))


def test_a_template_of_another_name(tmp_path: Path) -> None:
    folder = write(tmp_path, "mine", "{% include 'part.j2' %}" + UNIT)
    write(tmp_path, "part", "# {{ args['model-path'] | word }} {{ settings.name }}\n")
    assert text(rendered(folder, template="mine", args={"model-path": "/a b"})).startswith('# "/a b" x\n')


def test_an_added_argument_is_executed_and_told(tmp_path: Path) -> None:
    body = UNIT.replace("{{ command_line }}", "{{ command_line }} --log-level debug")
    argv = rendered(write(tmp_path, "sglang.service", body), args={"port": 5}).argv
    assert argv[3:] == ("--log-level", "debug", "--port", "5")


def test_marker_is_added_where_the_template_forgot_it(tmp_path: Path) -> None:
    body = UNIT.replace("Environment=DEPLOYER_UNIT={{ unit }}\n", "")
    assert rendered(write(tmp_path, "sglang.service", body)).env == {"DEPLOYER_UNIT": "x.service"}


@pytest.mark.parametrize(("body", "code", "line"), [
    (UNIT + "# {{ nothing }}\n", "template-undefined", 7),
    (UNIT + "# {{ args['port'] }}\n", "template-undefined", 7),
    ("# fine\n{% if unit %}\n", "template-syntax", 2),
    ("# fine\n{{ unit }\n", "template-syntax", 2),
    ("# fine\n\n{% include 'absent.j2' %}\n", "template-missing", 3),
    ("# fine\n{{ 1 / 0 }}\n", "template-failed", 2),
    ("# fine\n{{ unit | nofilter }}\n", "template-syntax", 2),
    ("# fine\n{{ '\\0' | word }}\n", "nul-byte", 2),
])
def test_a_fault_has_its_place_in_the_template(tmp_path: Path, body: str, code: str, line: int) -> None:
    folder = write(tmp_path, "sglang.service", body)
    (finding,) = findings(folder)
    assert finding.code == code
    assert finding.where is not None
    assert (finding.where.file, finding.where.line) == (str(folder / "sglang.service.j2"), line)


@pytest.mark.parametrize(("body", "line", "words"), [
    ("a\nX={{ unit\nY=1\nZ={{ unit }}\n", 2, "the `{{` here is not closed"),
    ("a\nX={{ unit\n", 2, "the `{{` here is not closed"),
    ("a\nX={{ unit\n\n\n# more\n", 2, "the `{{` here is not closed"),
    ("a\n{% if unit\nY=1\n{% endif %}\n", 2, "the `{%` here is not closed"),
    ("a\n{% for x in y %}\n{{ x\n{% endfor %}\n", 3, "the `{{` here is not closed"),
    ("a\n{{ unit }\nb\n", 2, "the `{{` here is not closed"),
    ("a\n{{ unit %}\nb\n", 2, "the `{{` here is not closed"),
    ("a\n{# {{ unit }}\nb\n", 2, "the `{#` here is not closed"),
    ("a\n{% raw %}\n{{\n{% endraw %}\n{{ unit\nb\n", 5, "the `{{` here is not closed"),
    ("a\n{% if unit %}\nY\n\n\n", 2, "the block `if` here is not closed"),
    ("a\n{% if unit %}\n{% if unit %}\n{% endif %}\nY\n", 2, "the block `if` here is not closed"),
    ("a\n{%- for x in [] %}\n{{ x }}\n\n", 2, "the block `for` here is not closed"),
    # Jinja's own place is the right one.
    ("a\n{{ unit\n unit }}\n", 3, "expected token 'end of print statement', got 'unit'"),
    ("a\n{{ {'a': {'b': 1}} }}\n{% endif %}\n", 3, "Encountered unknown tag 'endif'."),
    ("a\n{{ unit }}\n{{ unit | }}\n{{ unit\n", 3, "expected token 'name', got 'end of print statement'"),
])
def test_what_is_not_closed_has_its_place_where_it_was_opened(
    tmp_path: Path, body: str, line: int, words: str,
) -> None:
    (finding,) = findings(write(tmp_path, "sglang.service", body))
    assert finding.where is not None
    assert (finding.code, finding.where.line, finding.message) == ("template-syntax", line, words)


def test_a_fault_in_an_included_template_has_its_place_there(tmp_path: Path) -> None:
    folder = write(tmp_path, "sglang.service", "{% include 'part.j2' %}\n")
    write(tmp_path, "part", "\n{{ nothing }}\n")
    (finding,) = findings(folder)
    assert str(finding.where) == f"{folder / 'part.j2'}:2"


def test_an_unknown_template_is_named(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, template="sglang")
    assert finding.code == "template-missing"
    assert "sglang.service" in finding.hint


@pytest.mark.parametrize(("body", "found"), [
    (UNIT.replace("{% for argument in arguments %} {{ argument }}{% endfor +%}", ""),
     ("template-drops-argument", ("args", "port"))),
    (UNIT.replace("Environment={{ assignment }}", ""), ("template-drops-variable", ("env", "A"))),
    (UNIT.replace("ExecStart=", "ExecStart=bin/"), ("relative-execstart", ("template",))),
    (UNIT + "ExecStart=/bin/true\n", ("two-execstart", ("template",))),
    (UNIT.replace("ExecStart=", "#"), ("no-command", ("template",))),
    (UNIT.replace("{{ argument }}", "\\\n{{ argument }} \\\n\n--lost"),
     ("continuation-into-empty-line", ("template",))),
])
def test_what_a_template_loses_is_a_finding(
    tmp_path: Path, body: str, found: tuple[str, tuple[str, ...]]
) -> None:
    folder = write(tmp_path, "sglang.service", body)
    assert found in codes(folder, args={"port": 5}, env={"A": "1"})


def test_a_template_without_the_secrets_is_a_finding(tmp_path: Path) -> None:
    body = UNIT.replace("in arguments", "in arguments[:-1]")
    folder = write(tmp_path, "sglang.service", body)
    assert codes(folder, secrets={"api-key": SecretRef(env="K")}) == [("template-drops-secret", ("secrets",))]
