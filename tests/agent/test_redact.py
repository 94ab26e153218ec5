"""The redactor: what names a secret is masked, figures about tokens are not."""

from __future__ import annotations

import pytest

from deployer.protocol.redact import MASK, Redactor

PLAIN = (
    # SGLang 0.5.23's own lines.
    "Prefill batch, #new-seq: 1, #new-token: 28, #cached-token: 0, token usage: 0.01, #pending-token: 0",
    "max_total_num_tokens=4096, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=4",
    "KV Cache is allocated. dtype: torch.float16, #tokens: 4096, K size: 0.00 GB, V size: 0.00 GB",
    "'tokenizer_path': '/srv/models/tiny-gpt2', 'tokenizer_mode': 'auto', 'api_key': None",
)
SECRET = (
    "server_args={'api_key': 'wobble-1', 'tokenizer_path': '/m'}",
    "ServerArgs(model_path='/m', api_key='wobble-1', admin_api_key=None)",
    "python -m sglang.launch_server --api-key wobble-1 --port 30000",
    "Authorization: Bearer wobble-1-and-more",
    "HF_TOKEN=wobble-1",
    "password: wobble-1",
)


@pytest.mark.parametrize("line", PLAIN)
def test_figures_stay(line: str) -> None:
    assert Redactor().text(line) == line


@pytest.mark.parametrize("line", SECRET)
def test_what_stands_where_secrets_stand_is_masked(line: str) -> None:
    masked = Redactor().text(line)
    assert MASK in masked and "wobble" not in masked


def test_a_known_value_is_masked_wherever_it_stands() -> None:
    assert Redactor(["wobble"]).text("a wobble in a path/wobble/x") == f"a {MASK} in a path/{MASK}/x"


def test_a_text_redacted_twice_is_as_redacted_once() -> None:
    redactor = Redactor(["s3cret-value"])
    for text in ("api_key='s3cret-value', x", "hf_token: abcdefgh, y", "--api-key abcd", "{'hf_token': 'x'}"):
        once = redactor.text(text)
        assert MASK in once and redactor.text(once) == once
