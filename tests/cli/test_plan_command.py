"""``deployer plan`` without a host: what it takes from this machine, and what it says where something is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.cli.plan import command
from deployer.errors import UsageError

UNIT = """\
[{program}]
version = ">=0.5.4,<0.5.10"
python = "/opt/sglang/.venv/bin/python"

[args]
{model}
"""
CONFIG = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "num_attention_heads": 32,
          "num_key_value_heads": 8, "hidden_size": 4096, "torch_dtype": "bfloat16"}


def plan(space: Path, *words: str) -> int:
    code = command.main(["q", "--gpu-memory", "24GiB", "--config", str(space / "model"), *words], obj=str(space),
                        standalone_mode=False)
    assert isinstance(code, int)
    return code


@pytest.fixture
def space(tmp_path: Path) -> Path:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "q.toml").write_text(UNIT.format(program="sglang", model='model-path = "/m"'))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_a_config_alone_says_what_to_give_and_which_release(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(space) == 1
    said = capsys.readouterr()
    assert "SGLang 0.5.9" in said.out
    assert "  next: --weights SIZE" in said.err
    assert "note: planned for 0.5.9, the newest of" in said.err


def test_with_the_size_of_the_weights_it_is_enough(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(space, "--weights", "15GiB", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["missing"] is None and told["next"] is None
    assert told["dtypes"][0]["tokens"] > 1_000
    assert told["notes"][0].startswith("planned for 0.5.9")
    with pytest.raises(UsageError, match="--weights 15"):
        plan(space, "--weights", "15")


def test_a_router_has_nothing_to_plan(space: Path) -> None:
    (space / "units" / "q.toml").write_text(UNIT.format(program="router", model=""))
    with pytest.raises(UsageError, match="router"):
        plan(space)
