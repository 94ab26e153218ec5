"""What the server is asked: its health, its account of itself, one completion, a short load. Each asks once."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Dict, List, Optional

from deployer.agent.log.median import median
from deployer.agent.verify.compare import ALWAYS_SECRET
from deployer.agent.verify.http import FAILURES, Answered, Target, begin, request, trouble, whole
from deployer.protocol import records
from deployer.protocol.expectations import Expectations, Load, Prompt

INFO_TIMEOUT = 10.0
INFO_PATHS = ("/server_info", "/get_server_info")
"""The first from 0.5.6 on, the second in every release from 0.4.0."""
ANSWER_TIMEOUT = 120.0


def health(at: Target, expected: Expectations, path: str, *, ready_path: bool = False) -> Dict[str, Any]:
    """The value of a ``health`` observation. Only the status counts: the body is empty in every release."""
    timeout = 5.0 if ready_path else expected.health.timeout
    keyless = records.replace(at, key="")          # exempt in every release, and the port may be another's
    return dict(request(keyless, path, timeout=timeout).plain(), path=path, ready_path=ready_path)


def info(at: Target, expected: Expectations) -> Dict[str, Any]:
    """The value of an ``info`` observation, with secrets and what is long left out."""
    paths = [expected.health.info_path or INFO_PATHS[0]]
    paths += [path for path in INFO_PATHS if path not in paths]
    answered = Answered(error="other", detail="not asked")
    for path in paths:
        answered = request(at, path, timeout=INFO_TIMEOUT)
        if answered.status != 404:
            break
    value = dict(answered.plain(), with_key=bool(at.key))
    if answered.status == 200:
        body = answered.json()
        if not isinstance(body, dict):
            return dict(value, status=None, error="other", detail="the answer is no JSON object")
        value["info"] = _presence(body, expected.secret_args)
    return value


def _presence(body: Dict[str, Any], secret: Any) -> Dict[str, Any]:
    """Of secret arguments only whether they are set; the launch command, which may hold them, goes."""
    hidden = {name.lstrip("-").replace("-", "_") for name in secret} | set(ALWAYS_SECRET)
    kept: Dict[str, Any] = {}
    for key, value in body.items():
        if key in hidden:
            kept[key] = bool(value)
        elif key == "launch_command":
            continue
        elif isinstance(value, dict):
            kept[key] = _presence(value, secret)
        else:
            kept[key] = value
    return kept


def completion(at: Target, prompt: Prompt, timeout: float = ANSWER_TIMEOUT) -> Dict[str, Any]:
    """The value of an ``answer`` observation: one completion, by /v1/completions, else by /generate.

    Greedy where something is expected, so that it is the same every time; else as the model samples by itself, since
    greedy decoding makes even a sound model that was never trained repeat itself.
    """
    greedy = {"temperature": 0} if prompt.expect else {}
    body = {"model": served_model(at), "prompt": prompt.text, "max_tokens": prompt.max_tokens, **greedy}
    path = "/v1/completions"
    answered = request(at, path, timeout=timeout, body=body)
    if answered.status in (404, 405):
        path = "/generate"
        parameters = {"max_new_tokens": prompt.max_tokens, **greedy}
        answered = request(at, path, timeout=timeout, body={"text": prompt.text, "sampling_params": parameters})
    value = dict(answered.plain(), path=path, text="")
    if answered.status == 200:
        text = completed(answered.json())
        if text is None:
            return dict(value, status=None, error="other", detail="the answer holds no text")
        value["text"] = text
    elif answered.status is not None:
        value["detail"] = answered.body[:300].decode("utf-8", "replace")
    return value


def served_model(at: Target) -> str:
    """The name under which the model is served; "default" is what SGLang takes where none is told."""
    body = request(at, "/v1/models", timeout=INFO_TIMEOUT).json()
    data = body.get("data") if isinstance(body, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    return str(first["id"]) if isinstance(first, dict) and first.get("id") else "default"


def completed(body: Any) -> Optional[str]:
    """The text of a completion in either API's form."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return None
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        body = choices[0]
    text = body.get("text")
    return text if isinstance(text, str) else None


def load(at: Target, prompt: Optional[Prompt], wanted: Load, timeout: float = ANSWER_TIMEOUT) -> Dict[str, Any]:
    """The value of a ``load`` observation: ``ttft`` in seconds (median), ``tokens_per_second`` over all, ``errors``."""
    text = prompt.text if prompt else "The capital of France is"
    body = {"model": served_model(at), "prompt": text, "max_tokens": wanted.tokens, "temperature": 0, "stream": True,
            "ignore_eos": True, "stream_options": {"include_usage": True}}
    results: List[Dict[str, Any]] = []
    left = list(range(wanted.requests))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not left:
                    return
                left.pop()
            result = _streamed(at, body, timeout)
            with lock:
                results.append(result)

    begun = time.monotonic()
    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(wanted.concurrency, wanted.requests))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - begun
    failures = [result for result in results if result.get("detail")]
    first = [result["first"] for result in results if result.get("first") is not None]
    tokens = sum(result.get("tokens", 0) for result in results)
    return {"requests": len(results), "errors": len(failures), "detail": failures[0]["detail"] if failures else "",
            "ttft": round(median(first), 4) if first else None, "seconds": round(seconds, 3),
            "tokens_per_second": round(tokens / seconds, 2) if seconds > 0 else None}


def _streamed(at: Target, body: Dict[str, Any], timeout: float) -> Dict[str, Any]:
    """One streamed completion: seconds to the first token, tokens, or what went wrong."""
    begun, first, tokens, told = time.monotonic(), None, 0, 0
    try:
        with begin(at, "/v1/completions", timeout, body) as exchange:
            if exchange.status != 200:
                said = whole(exchange, begun + timeout)[:200].decode("utf-8", "replace")
                return {"detail": "{} {}".format(exchange.status, said)}
            for raw in exchange.lines():
                event = raw.strip()
                if not event.startswith(b"data:") or event == b"data: [DONE]":
                    continue
                data = json.loads(event[5:])
                if completed(data):
                    first = time.monotonic() - begun if first is None else first
                    tokens += 1
                told = int((data.get("usage") or {}).get("completion_tokens") or told)
                if time.monotonic() - begun > timeout:
                    return {"detail": "does not end within {:.0f} s".format(timeout)}
    except (*FAILURES, AttributeError) as error:
        kind, detail = trouble(error)
        return {"detail": detail or kind}
    return {"first": first, "tokens": told or tokens} if first is not None else {"detail": "an answer without text"}
