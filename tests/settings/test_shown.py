"""Findings as a terminal shows them: the place marked, and never a secret of the settings in the shown line."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.cli.console import finding_lines
from deployer.errors import SettingsError
from deployer.rollout.secrets import resolve
from deployer.settings.workspace import Workspace

HEAD = '[sglang]\nversion = "0.5.9"\npython = "/x"\n'


def shown(tmp_path: Path, text: str) -> list[list[str]]:
    (tmp_path / "units").mkdir(exist_ok=True)
    (tmp_path / "units" / "x.toml").write_text(text, encoding="utf-8")
    return [finding_lines(finding) for finding in Workspace.find(tmp_path).load_unit("x").findings]


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ('[verify]\ndeadline = "20 Min"', '"20 Min"'),
        ("[verify]\nmin-total-tokens = 1.5", "1.5"),
        ("[verify]\nunheard = 1", "unheard"),
        ("[gpu]\ndevices = { a = 1 } # why", "{ a = 1 }"),
        ('[gpu]\ndevices = [0, "x y", 2]', '"x y"'),
        ("[env]\nA = [1, 2]", "[1, 2]"),
        ("[args]\n'-x y' = 1", "'-x y'"),
    ],
)
def test_the_whole_of_the_place_is_marked(tmp_path: Path, line: str, mark: str) -> None:
    ((_, source, marker, *_),) = shown(tmp_path, HEAD + line + "\n")
    begin = marker.index("^")
    assert source[begin : marker.rindex("^") + 1] == mark


def test_wide_characters_take_two_columns(tmp_path: Path) -> None:
    ((_, source, marker, *_),) = shown(tmp_path, HEAD + '[args]\nx = ["名前", true]\n')
    assert marker.index("^") == source.index("true") + 2


@pytest.mark.parametrize(
    "text",
    [
        '[args]\napi-key = "CANARY-1234"',
        "[env]\nMY_TOKEN = 'CANARY-1234'",
        '[secrets]\nOTHER = "CANARY-1234"',
        "[secrets]\nOTHER = 1234",
        '[secrets]\nOTHER = { value = "CANARY-1234" }',
        "[secrets]\nHF_TOKEN = CANARY-1234",
        "[secrets]\nHF_TOKEN = 12CANARY-1234",
        '[secrets]\nHF_TOKEN = "CANARY-1234',
        '[args]\napi-key = "x" CANARY-1234',
        '[secrets]\nHF_TOKEN = { fle = "CANARY-1234" }',
        '[secrets]\nHF_TOKEN = { file = "x", x = "CANARY-1234" }',
        '[secrets]\nHF_TOKEN = { file = ["CANARY-1234"] }',
        "[secrets]\nHF_TOKEN = { token = 1234 }",
    ],
)
def test_a_secret_in_the_settings_is_not_shown(tmp_path: Path, text: str) -> None:
    findings = shown(tmp_path, HEAD + text + "\n")
    assert findings
    assert "1234" not in "\n".join(line for lines in findings for line in lines)


@pytest.mark.parametrize(("line", "expected"), [
    ('api-key = { file = "secrets/none.key" }', 'api-key = { file = "secrets/none.key" }'),
    ("HF_TOKEN={file='a b'}  # CANARY-1234", "HF_TOKEN={file='a b'}"),
    ('HF_TOKEN = { env = "NO_SUCH_VARIABLE" }', 'HF_TOKEN = { env = "NO_SUCH_VARIABLE" }'),
    ('HF_TOKEN.file = "secrets/none"', 'HF_TOKEN.file = "secrets/none"'),
    ('HF_TOKEN = { command = ["false", "CANARY-1234"] }', 'HF_TOKEN = { command = ["[redacted]", "[redacted]"] }'),
])
def test_where_a_secret_should_be_is_shown(tmp_path: Path, line: str, expected: str) -> None:
    assert shown(tmp_path, f"{HEAD}[secrets]\n{line}\n") == []
    settings = Workspace.find(tmp_path).load_unit("x").settings
    assert settings is not None
    with pytest.raises(SettingsError) as caught:
        resolve(settings)
    (finding,) = caught.value.findings
    _, source, mark, *_ = finding_lines(finding)
    assert source == f"    5 | {expected}"
    assert source[mark.index("^") : mark.rindex("^") + 1] in ("api-key", "HF_TOKEN", "HF_TOKEN.file")
