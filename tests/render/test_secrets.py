"""Secrets: who carries which, in which release; and that no value can come out of a release."""

from __future__ import annotations

import ast
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployer.errors import SettingsError
from deployer.render import credentials
from deployer.render.model import SecretText
from deployer.settings.model import SecretRef
from tests.render.declared import codes, file, rendered, text

KEY = {"api-key": SecretRef(env="KEY")}
FOLDER = "/etc/deployer/x"


def test_from_0_5_3_on_a_credential() -> None:
    release = rendered(secrets={"api_key": SecretRef(env="KEY")}, sglang="0.5.3")
    carried = file(release, f"{FOLDER}/sglang.yaml")
    assert (carried.mode, carried.owner) == (0o600, "root:root")
    assert carried.text == SecretText((("api-key", SecretRef(env="KEY")),), "yaml", ("api_key",))
    assert f"LoadCredential=sglang.yaml:{FOLDER}/sglang.yaml\n" in text(release)
    assert "    --config ${CREDENTIALS_DIRECTORY}/sglang.yaml\n" in text(release)
    assert release.argv[-2:] == ("--config", "/run/credentials/x.service/sglang.yaml")
    assert release.expectations.secret_args == ("api_key",)


@pytest.mark.parametrize(("changes", "table"), [
    ({"sglang": "0.5.2"}, "sglang"), ({"sglang": ">=0.5.0,<0.6"}, "sglang"),
    ({"sglang": "0.3.2", "program": "router", "template": "sglang-router.service"}, "router"),
])
def test_before_only_with_consent(changes: dict[str, Any], table: str) -> None:
    assert codes(secrets=KEY, **changes) == [("secret-only-in-argv", ("secrets", "api-key"))]
    release = rendered(secrets=KEY, allow_secrets_in_argv=True, **changes)
    assert "--api-key=${DEPLOYER_SECRET_API_KEY}\n" in text(release)
    assert release.argv[-1] == "--api-key=[secret api-key]"
    assert credentials.fill(_secret(release, "secrets.env"), {"api-key": "v"}) == "DEPLOYER_SECRET_API_KEY=v\n"


def test_variables_go_into_an_environment_file() -> None:
    release = rendered(secrets={"HF_TOKEN": SecretRef(env="HF_TOKEN")})
    assert f"EnvironmentFile={FOLDER}/secrets.env\n" in text(release)
    assert "HF_TOKEN" not in text(release)
    assert "HF_TOKEN" not in release.env
    assert file(release, f"{FOLDER}/secrets.env").mode == 0o600


def test_config_file_beside_secrets_is_refused_and_a_table_merged() -> None:
    assert codes(secrets=KEY, args={"config": "/etc/x.yaml"}) == [("config-beside-secrets", ("args", "config"))]
    argv = rendered(secrets=KEY, args={"config": {"port": 5}}).argv
    assert argv[3:] == ("--port", "5", "--config", "/run/credentials/x.service/sglang.yaml")


def test_a_name_stands_in_one_place() -> None:
    assert codes(secrets=KEY, args={"api_key": "x"}) == [("declared-twice", ("secrets", "api-key"))]
    assert codes(secrets={"A": SecretRef(env="A")}, env={"A": "x"}) == [("declared-twice", ("secrets", "A"))]


def test_digest_shows_where_a_secret_is_and_not_what() -> None:
    one = rendered(secrets=KEY).digest
    assert one == rendered(secrets=KEY).digest
    assert one != rendered(secrets={"api-key": SecretRef(env="OTHER")}).digest
    assert one != rendered(secrets={"admin-api-key": SecretRef(env="KEY")}).digest


def test_digest_is_the_same_in_two_checkouts(tmp_path: Path) -> None:
    digests = {
        rendered(secrets={"api-key": SecretRef(file=root / "secrets/k")}, file=root / "units/x.toml").digest
        for root in (tmp_path / "a", tmp_path / "b")
    }
    assert len(digests) == 1


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")).filter(
    lambda value: not value.startswith("-")))
def test_yaml_gives_back_the_value(value: str) -> None:
    """YAML's double-quoted escapes written here are those of Python, too."""
    line = credentials.fill(SecretText((("api-key", SecretRef(env="K")),), "yaml"), {"api-key": value})
    assert line.isascii()
    assert line.count("\n") == 1
    assert ast.literal_eval(line.removeprefix("api-key: ")) == value


@pytest.mark.parametrize("value", ["plain", "with blank", "q\"u'o", "$HOME `id` \\ \\n", "é#;=", ""])
def test_environment_file_agrees_with_a_shell(value: str) -> None:
    """For one line the language of environment files is the shell's."""
    line = credentials.fill(SecretText((("V", SecretRef(env="K")),), "environment"), {"V": value})
    ran = subprocess.run(["sh", "-c", f"{line}printf %s \"$V\""], capture_output=True, text=True, check=True)
    assert ran.stdout == value
    assert shlex.split(line)[0] == f"V={value}" or "$" in value or "`" in value


@pytest.mark.parametrize(("encoding", "value", "code"), [
    ("yaml", "-abc", "secret-begins-with-dash"), ("environment", "a\0", "nul-byte"),
])
def test_a_value_that_cannot_be_carried_is_not_shown(encoding: str, value: str, code: str) -> None:
    with pytest.raises(SettingsError) as raised:
        credentials.fill(SecretText((("V", SecretRef(env="K")),), encoding), {"V": value})
    assert [finding.code for finding in raised.value.findings] == [code]
    assert value.strip("\0") not in raised.value.findings[0].message or value == "a\0"


def test_masked_text_says_where() -> None:
    hidden = SecretText((("api-key", SecretRef(env="KEY")),), "yaml")
    assert credentials.masked(hidden) == "api-key: <from variable KEY>\n"


def _secret(release: Any, name: str) -> SecretText:
    found = file(release, f"{FOLDER}/{name}").text
    assert isinstance(found, SecretText)
    return found
