"""The gates of what the server answers: one real completion, and a short measured load. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from deployer.agent.verify.say import fails, passes, skips, waits
from deployer.agent.verify.seen import Seen
from deployer.agent.verify.serving import History, follows, last
from deployer.agent.verify.starting import said
from deployer.protocol.expectations import Expectations
from deployer.protocol.verdict import Verdict


def answer(seen: Seen, expected: Expectations) -> Verdict:
    """One real completion: not empty, not one character over and over, and with what is expected in it."""
    prompt = expected.prompt
    if prompt is None or expected.port is None:
        return skips("answer", "no prompt is declared")
    if follows(expected):
        return skips("answer", "only node rank 0 answers")
    got = seen.answer
    if got is None:
        return waits("answer", "waits for the answer to the declared prompt")
    if got.get("status") != 200:
        if got.get("status") in (401, 403):
            return fails("answer", "{} refuses the declared key ({})".format(got.get("path"), got["status"]))
        return fails("answer", "{} {}".format(got.get("path"), said(got)))
    text = str(got.get("text", ""))
    figures = {"seconds": got.get("seconds"), "answer": text[:200], "path": got.get("path")}
    fault = nonsense(text)
    if fault and not (prompt.expect and prompt.expect in text):
        return fails("answer", "the answer is {}: {!r}".format(fault, text[:80]), **figures)
    if prompt.expect and prompt.expect not in text:
        return fails("answer", "the answer does not contain {!r}: {!r}".format(prompt.expect, text[:120]), **figures)
    return passes("answer", "answered in {:.1f} s: {!r}".format(
        float(got.get("seconds") or 0), text.strip()[:60]), **figures)


def nonsense(text: str) -> str:
    """What is wrong with an answer whatever was asked, or nothing: empty, one character or one word repeated."""
    bare = "".join(text.split())
    if not bare:
        return "empty"
    if len(bare) >= 4 and len(set(bare)) == 1:
        return "one character repeated"
    words = text.split()
    if len(words) >= 6 and len(set(words)) == 1:
        return "one word repeated"
    return ""


def load(seen: Seen, expected: Expectations, history: History) -> Verdict:
    """A short measured load against the release before."""
    wanted = expected.load
    if wanted is None:
        return skips("load", "no load is declared")
    got = seen.load
    if got is None:
        return waits("load", "waits for {} requests, {} at a time".format(wanted.requests, wanted.concurrency))
    figures = {key: got.get(key) for key in ("ttft", "tokens_per_second", "requests", "errors", "seconds")}
    if got.get("errors"):
        return fails("load", "{} of {} requests failed: {}".format(
            got["errors"], got.get("requests"), got.get("detail", "")), **figures)
    text = "first token after {:.2f} s (median), {:.0f} tokens a second".format(
        float(got.get("ttft") or 0), float(got.get("tokens_per_second") or 0))
    fallen = _fallen(got, history, wanted.max_fall)
    if fallen:
        return fails("load", "{}; {}".format(text, "; ".join(fallen)), **figures)
    return passes("load", text, **figures)


def _fallen(got: Mapping[str, Any], history: History, limit: Optional[float]) -> List[str]:
    before = last(history, "load") or {}
    if limit is None:
        return []
    found = []
    rate, rate_before = got.get("tokens_per_second"), before.get("tokens_per_second")
    if rate is not None and rate_before and rate < rate_before * (1 - limit):
        found.append("{:.0f} % fewer tokens a second than the release before ({:.0f})".format(
            (1 - rate / rate_before) * 100, rate_before))
    first, first_before = got.get("ttft"), before.get("ttft")
    if first is not None and first_before and first > first_before * (1 + limit):
        found.append("the first token comes {:.0f} % later than in the release before ({:.2f} s)".format(
            (first / first_before - 1) * 100, first_before))
    return found
