"""The gates of what the server says of itself: declared = running, capacity, accuracy. Pure."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from deployer.agent.verify import compare
from deployer.agent.verify.say import count, fails, passes, skips, waits
from deployer.agent.verify.seen import Seen
from deployer.agent.verify.starting import said
from deployer.protocol.expectations import Expectations
from deployer.protocol.verdict import Verdict

INFO_TRIES = 4
"""Failed requests for the server's account of itself before the gate judges without it."""
FALL = 0.02
"""Share by which the capacity may be below the previous release's without being named."""
FORECAST_TOLERANCE = 0.05

History = Sequence[Mapping[str, Any]]


def declared(seen: Seen, expected: Expectations, now: float) -> Verdict:
    """Every declared argument is the running server's, as it says itself."""
    if expected.kind != "sglang":
        return skips("declared", "a {} does not tell its arguments".format(expected.kind))
    info, missing = _info(seen, expected, "declared")
    if info is None:
        return missing
    found = compare.compare(expected.args, info, (seen.unit or {}).get("argv", ()), expected.secret_args)
    figures: Dict[str, Any] = {
        "compared": found.equal + len(found.differences), "resolved": dict(found.resolved),
        "not_compared": list(found.unknown),
        "differences": [{"name": item.name, "declared": item.declared, "running": item.running, "passed": item.passed}
                        for item in found.differences],
    }
    wrong = [item for item in found.differences if not item.passed or _own(item)]
    if wrong:
        return fails("declared", "; ".join(item.text for item in wrong), **figures)
    text = "{} declared arguments run".format(found.equal)
    if found.differences:
        text += "; " + "; ".join(item.text for item in found.differences)
    if found.unknown:
        text += "; not told by the server: {}".format(", ".join(found.unknown))
    return passes("declared", text, **figures)


def _own(item: compare.Difference) -> bool:
    """What a server never changes by itself: its port, and a model's folder (a name of a hub it may resolve)."""
    return item.name == "port" or (item.name == "model_path" and str(item.declared).startswith("/"))


def _info(seen: Seen, expected: Expectations, gate: str) -> Tuple[Optional[Mapping[str, Any]], Verdict]:
    """The server's account, or the verdict that stands for its absence."""
    if expected.port is None or not expected.health.info_path:
        return None, skips(gate, "this release tells nothing of itself")
    if follows(expected):
        return None, skips(gate, "node rank above 0: only rank 0 tells its arguments")
    answer = seen.info
    if answer is None:
        return None, waits(gate, "waits for {}".format(expected.health.info_path))
    if answer.get("status") == 200:
        return dict(answer.get("info") or {}), waits(gate, "")
    if answer.get("status") in (401, 403):
        if answer.get("with_key"):
            return None, fails(gate, "{} refuses the declared key ({}): the running server has another".format(
                expected.health.info_path, answer["status"]))
        if expected.secret_args:
            return None, skips(gate, "{} asks for the key, which is not known here".format(expected.health.info_path))
        return None, fails(gate, "{} asks for a key ({}), but none is declared".format(
            expected.health.info_path, answer["status"]))
    if answer.get("status") == 404:
        return None, skips(gate, "this release has no {}".format(expected.health.info_path))
    if seen.info_tries >= INFO_TRIES and seen.answered_at is not None:
        return None, fails(gate, "{} {}".format(expected.health.info_path, said(answer)))
    return None, waits(gate, "waits for {}, which {}".format(expected.health.info_path, said(answer)))


def follows(expected: Expectations) -> bool:
    """Whether this is a node of rank above 0, which has no server of its own."""
    try:
        return int(expected.args.get("node_rank", 0) or 0) > 0
    except (TypeError, ValueError):
        return False


def tokens(seen: Seen) -> Tuple[Optional[int], Optional[int]]:
    """``max_total_num_tokens`` of the log and of the server's account, of one DP rank."""
    logged = (seen.log or {}).get("max_total_num_tokens")
    info = (seen.info or {}).get("info") or {}
    told = info.get("max_total_num_tokens")
    if told is None:
        for state in info.get("internal_states") or ():
            usage = state.get("memory_usage") if isinstance(state, dict) else None
            if isinstance(usage, dict) and usage.get("token_capacity"):
                told = usage["token_capacity"]
                break
    return (int(logged) if logged else None), (int(told) if isinstance(told, (int, float)) and told else None)


def capacity(seen: Seen, expected: Expectations, history: History) -> Verdict:
    """Tokens of the KV pool against the declared floor, the forecast, and the release before."""
    if expected.kind != "sglang" or follows(expected):
        return skips("capacity", "no KV cache is judged here")
    logged, told = tokens(seen)
    have = told if told is not None else logged
    if have is None:
        return _no_tokens(seen, expected)
    figures: Dict[str, Any] = {"max_total_num_tokens": have}
    info = (seen.info or {}).get("info") or {}
    running = compare.flat(info)
    notes = ["{} tokens{}".format(count(have), _per_rank(running))]
    if logged is not None and told is not None and logged != told:
        notes.append("the log says {}".format(count(logged)))
        figures["logged"] = logged
    notes.append("{} requests of 4,096 tokens".format(count(have // 4096)))
    figures["requests_of_4096"] = have // 4096
    if expected.forecast_tokens:
        off = have / expected.forecast_tokens - 1
        figures["forecast"] = expected.forecast_tokens
        if abs(off) > FORECAST_TOLERANCE:
            notes.append("{:+.0f} % against the forecast of {}".format(off * 100, count(expected.forecast_tokens)))
    before = last(history, "max_total_num_tokens")
    if before and have < before * (1 - FALL):
        figures["before"] = before
        notes.append("{:.1f} % less than the release before ({}), {}".format(
            (1 - have / before) * 100, count(before), _reason(running, history)))
    if expected.min_tokens and have < expected.min_tokens:
        return fails("capacity", "{} tokens are below the declared {} ({})".format(
            count(have), count(expected.min_tokens), "; ".join(notes[1:])), **figures)
    return passes("capacity", "; ".join(notes), **figures)


def _no_tokens(seen: Seen, expected: Expectations) -> Verdict:
    _, missing = _info(seen, expected, "capacity")
    if missing.state.value == "waiting" and missing.text:
        return waits("capacity", "waits for max_total_num_tokens")
    if seen.answered_at is None:
        return waits("capacity", "waits for max_total_num_tokens")
    if expected.min_tokens:
        return fails("capacity", "max_total_num_tokens is neither in the log nor told by the server, and at least {} "
                                 "are declared".format(count(expected.min_tokens)))
    return skips("capacity", "the server does not tell its tokens")


def _per_rank(running: Mapping[str, Any]) -> str:
    size = running.get("dp_size") or 1
    return " for each of {} DP ranks".format(size) if isinstance(size, int) and size > 1 else ""


def last(history: History, key: str) -> Any:
    """The newest known figure of that name."""
    for figures in reversed(history):
        if figures.get(key):
            return figures[key]
    return None


def _reason(running: Mapping[str, Any], history: History) -> str:
    """The likeliest reason of a fall, from what differs between the two releases' resolved arguments."""
    before = last(history, "resolved") or {}
    wider = {"fp8_e4m3": 1, "fp8_e5m2": 1, "bfloat16": 2, "float16": 2, "auto": 2}
    was, now = compare.dtype(before.get("kv_cache_dtype")), compare.dtype(running.get("kv_cache_dtype"))
    if was and now and was != now and wider.get(now, 2) > wider.get(was, 2):
        return "likely since the KV cache is {} now, {} before".format(now, was)
    for key, words in (("mem_fraction_static", "mem-fraction-static"), ("tp_size", "tp-size"),
                       ("max_total_tokens", "max-total-tokens"), ("speculative_algorithm", "speculative-algorithm"),
                       ("dp_size", "dp-size"), ("max_running_requests", "max-running-requests")):
        if before and before.get(key) != running.get(key):
            return "likely by {} {} (before: {})".format(words, compare.shown(running.get(key)),
                                                         compare.shown(before.get(key)))
    return "with the same arguments: likely less GPU memory was free when it started"


def accuracy(seen: Seen, expected: Expectations) -> Verdict:
    """The KV cache dtype is the declared one: nothing changed it silently."""
    if expected.kind != "sglang" or follows(expected):
        return skips("accuracy", "no KV cache is judged here")
    logged = compare.dtype((seen.log or {}).get("kv_cache_dtype"))
    info = compare.flat((seen.info or {}).get("info") or {})
    told = compare.dtype(info.get("kv_cache_dtype"))
    have = logged or (told if told != "auto" else None)
    wanted = compare.dtype(expected.kv_dtype)
    figures = {"kv_cache_dtype": have}
    if wanted in (None, "auto"):
        if seen.info is None and have is None and expected.health.info_path and seen.answered_at is None:
            return waits("accuracy", "waits for the KV cache dtype")
        text = "no KV cache dtype is declared"
        return skips("accuracy", text + ("; the server runs {}".format(have) if have else ""), **figures)
    if have is None:
        _, missing = _info(seen, expected, "accuracy")
        if seen.answered_at is None or (missing.state.value == "waiting" and missing.text):
            return waits("accuracy", "waits for the KV cache dtype")
        return fails("accuracy", "KV cache dtype {} is declared; neither log nor server tell what runs{}".format(
            wanted, " (auto)" if told == "auto" else ""), **figures)
    if have != wanted or (told not in (None, "auto") and told != wanted):
        return fails("accuracy", "KV cache dtype {} is declared, {} runs".format(
            wanted, have if have != wanted else told), **figures)
    where = "log" if logged else "the server's own arguments"
    return passes("accuracy", "KV cache dtype {} as declared ({})".format(wanted, where), **figures)
