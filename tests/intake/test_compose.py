"""Compose files: interpolation, anchors, both forms of everything that has two."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from deployer.errors import UsageError
from deployer.intake.bring import How, Imported, bring_file

HEAD = "services:\n  llm:\n    image: ${IMAGE:-lmsysorg/sglang:v0.5.9}\n"


def one(tmp_path: Path, text: str, **files: str) -> list[Imported]:
    for name, content in files.items():
        (tmp_path / name.replace("dot_", ".").replace("__", ".")).write_text(content)
    (tmp_path / "compose.yaml").write_text(text)
    return list(bring_file(tmp_path / "compose.yaml", How(cwd="/srv/llm")).units)


def test_command_as_text_and_as_list(tmp_path: Path) -> None:
    text = HEAD + """\
    command: >-
      python3 -m sglang.launch_server --model-path "/m/a b"
      --json-model-override-args '{"a": 1}' --port ${PORT:-30000} --x $$HOME
  two:
    image: x
    entrypoint: ["python3", "-m"]
    command: [sglang.launch_server, --tp, "2", "--flag", yes]
  db: {image: postgres}
"""
    first, second = one(tmp_path, text)
    assert first.launch and second.launch
    assert first.launch.argv == ["python3", "-m", "sglang.launch_server", "--model-path", "/m/a b",
                                 "--json-model-override-args", '{"a": 1}', "--port", "30000", "--x", "$HOME"]
    assert second.launch.argv == ["python3", "-m", "sglang.launch_server", "--tp", "2", "--flag", "yes"]
    assert (first.name, second.name) == ("llm", "two")
    assert first.launch.container and first.launch.container["image"] == "lmsysorg/sglang:v0.5.9"


def test_environment_of_all_kinds(tmp_path: Path) -> None:
    text = """\
x-common: &common
  environment: &env {NCCL_DEBUG: WARN, PORT: 030, ON: yes, EMPTY: ""}
""" + HEAD + """\
    <<: *common
    env_file: [a.env, {path: none.env, required: false}]
    working_dir: /w
    deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ["0", "3"], capabilities: [gpu]}]}}}
    command: bash -c "B=2 exec python3 -m sglang.launch_server --model-path $$MODEL --api-key $${KEY} --n ${NOWHERE}"
"""
    (found,) = one(tmp_path, text, a__env="MODEL='/m'\nexport KEY=abc # remark\n", dot_env="NOBODY=1\n")
    assert found.launch
    assert found.launch.env == {"NCCL_DEBUG": "WARN", "PORT": "030", "ON": "yes", "EMPTY": "", "MODEL": "/m",
                                "KEY": "abc", "B": "2"}
    assert found.launch.argv[3:] == ["--model-path", "/m", "--api-key", "abc", "--n", "${NOWHERE}"]
    assert (found.launch.unresolved, found.launch.cwd) == (["NOWHERE"], "/w")
    data = tomllib.loads(found.settings)
    assert data["gpu"]["devices"] == [0, 3]
    assert "abc" not in found.settings


def test_no_compose(tmp_path: Path) -> None:
    for text in ("a: [", "a: 1", "- x", ""):
        with pytest.raises(UsageError, match="no compose file"):
            one(tmp_path, text)
