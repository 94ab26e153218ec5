"""The gates of a start as such: unit, log, port, health. Pure: what was seen and what is expected, to a verdict."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from deployer.agent.verify.say import duration, fails, passes, skips, waits
from deployer.agent.verify.seen import Seen
from deployer.protocol.expectations import Expectations
from deployer.protocol.verdict import Verdict

START_GRACE = 2.0
"""Seconds in which a unit that was told to start may still show its earlier state."""
FOREIGN_GRACE = 2.0
"""Seconds that another process may hold the port before it counts: a server that was just ended may linger."""
UNANNOUNCED_LIMIT = 45.0
"""Seconds between a healthy answer and the ready line of the same start, beyond which one of the two lies. journald
tells of lost messages only once its interval (30 s) is over."""
SILENT_LIMIT = 3.0
"""Seconds after a healthy answer in which the first line of the start must have come, where there is a journal."""
UNHEALTHY_LIMIT = 120.0
"""Seconds between the ready line and a healthy answer; the server's own probe gives up after 20 (0.4.4 on)."""
SICK_LIMIT = 10.0
"""The same for a server that had started before it was looked at, above two of its answers' own time."""
MISSES = 3
"""Missed answers in a row of a server that was healthy; one miss under load is not death."""

_EXITS = {
    "200": "the working directory cannot be entered (200/CHDIR)",
    "203": "the program of ExecStart= cannot be run (203/EXEC)",
    "217": "the account of User= does not exist (217/USER)",
    "226": "the unit's sandbox cannot be set up (226/NAMESPACE)",
    "243": "a credential of LoadCredential= is missing (243/CREDENTIALS)",
}
_SIGNALS = {"3": " (QUIT)", "6": " (ABRT)", "7": " (BUS)", "9": " (KILL)", "11": " (SEGV)", "15": " (TERM)"}
_RESULTS = {"resources": "a file that the unit needs is missing (EnvironmentFile=?)"}
_QUIET_LEVELS = ("warning", "warn", "error", "critical", "fatal")


def unit(seen: Seen, expected: Expectations, now: float) -> Verdict:
    """Active, with the main process that it began with. ``inactive`` is dead, and a restart ends the wait at once."""
    state = seen.unit
    if state is None:
        return waits("unit", "waits for systemd's answer")
    load, active, sub = state.get("load", ""), state.get("active", ""), state.get("sub", "")
    if load in ("not-found", "bad-setting", "error", "masked"):
        detail = state.get("load_error") or {"not-found": "there is no such unit"}.get(load, "systemd refuses the unit")
        return fails("unit", "the unit cannot be started: {} ({})".format(detail, load), load=load)
    restarts = int(state.get("restarts", 0))
    grown = seen.restarts is not None and restarts > seen.restarts
    if (seen.log or {}).get("restart_scheduled") or grown or sub.startswith("auto-restart"):
        return fails("unit", "the process ended and systemd restarts it: {}".format(ending(state)), restarts=restarts)
    if active in ("failed", "inactive"):
        return _not_running(seen, state, now)
    if active == "deactivating":
        return fails("unit", "the unit is being stopped", result=state.get("result", ""))
    if seen.gone:
        return fails("unit", "another process took the main process's place")
    if active != "active":
        return waits("unit", "waits for the unit to become active (now {}/{})".format(active, sub))
    if not state.get("main_pid"):
        if sub == "exited":
            return fails("unit", "the unit is active, but its process has ended")
        return waits("unit", "waits for the main process")
    return passes("unit", "active, main process {}".format(state["main_pid"]), main_pid=state["main_pid"])


def _not_running(seen: Seen, state: Mapping[str, Any], now: float) -> Verdict:
    log = seen.log or {}
    fresh = not seen.marked or state.get("invocation", "") != seen.old_invocation
    if log.get("start_limit"):
        return fails("unit", "systemd gave up: the unit was started too often in too short a time", start_limit=True)
    if not fresh and now - seen.begun < START_GRACE:
        return waits("unit", "waits for systemd to start the unit")
    if state.get("job"):
        return waits("unit", "waits for systemd to start the unit (queued)")
    if log.get("started") and not fresh:
        return fails("unit", "the process has ended, with success; systemd keeps nothing more of it")
    if log.get("skipped"):
        return fails("unit", "systemd did not start it: {}".format(log["skipped"]))
    if state.get("condition") == "no":
        return fails("unit", "a condition of the unit does not hold, so systemd did not start it")
    if not fresh:
        return fails("unit", "the unit was not started: {}".format(ending(state)))
    return fails("unit", "the process has ended: {}".format(ending(state)), result=state.get("result", ""))


def ending(state: Mapping[str, Any]) -> str:
    """How the main process ended, from systemd's properties."""
    code, status, result = (str(state.get(key, "")) for key in ("exit_code", "exit_status", "result"))
    if code in ("2", "3"):
        text = "killed by signal {}{}".format(status, _SIGNALS.get(status, ""))
    elif code == "1":
        text = _EXITS.get(status, "exit status {}".format(status))
    else:
        text = _RESULTS.get(result, "no process was run")
    return text if result in ("success", "exit-code", "signal", "", "resources") else "{}, {}".format(text, result)


def log(seen: Seen, expected: Expectations, now: float) -> Verdict:
    """The ready line of this very start, and no line that can only end in death."""
    if expected.kind == "minimal":
        return skips("log", "nothing is expected of its log")
    value = seen.log or {}
    if value.get("fatal"):
        cause = value.get("cause") or "a line that can only end in death"
        return fails("log", "{}: {}".format(cause, value.get("evidence", "")), cause=value.get("cause"))
    if value.get("ready"):
        return passes("log", "the ready line of this start is there")
    if not _tells(seen, expected):
        return _without_log(seen, expected)
    healthy = seen.answered_at if expected.health.means_ready else None
    if healthy is not None and value.get("lost"):
        return passes("log", "the journal lost {} messages of this start (rate limit), the ready line perhaps among "
                             "them: the healthy answer stands in for it".format(value["lost"]), lost=value["lost"])
    if not seen.marked and (seen.answered_at is not None or expected.port is None) and not value.get("complete", True):
        return passes("log", "the journal no longer holds the beginning of this start")
    if healthy is not None and not value.get("heard") and now - healthy > SILENT_LIMIT:
        return passes("log", "the journal holds nothing at all of this unit, so health alone is judged")
    if healthy is not None and now - healthy > UNANNOUNCED_LIMIT:
        return fails("log", "{} answers 200, but the log of this start has no ready line".format(expected.health.path))
    return waits("log", _phase(value), phase=value.get("phase"), percent=value.get("percent"))


def _tells(seen: Seen, expected: Expectations) -> bool:
    """Whether a ready line can be expected at all."""
    level = str(expected.args.get("log_level", "info")).lower()
    return (expected.kind == "sglang" and level not in _QUIET_LEVELS and not _rank(expected)
            and not (seen.log or {}).get("elsewhere"))


def _without_log(seen: Seen, expected: Expectations) -> Verdict:
    if expected.kind == "router":
        why = "the router writes no ready line"
    elif _rank(expected):
        why = "node rank {} writes no ready line".format(_rank(expected))
    elif (seen.log or {}).get("elsewhere"):
        why = "the unit does not log to the journal"
    else:
        why = "log-level {} hides the ready line".format(expected.args.get("log_level"))
    if seen.answered_at is not None or expected.port is None:
        return passes("log", why + ", no fatal line")
    return waits("log", why + "; waits for the health answer")


def _rank(expected: Expectations) -> int:
    try:
        return int(expected.args.get("node_rank", 0) or 0)
    except (TypeError, ValueError):
        return 0


def _phase(value: Mapping[str, Any]) -> str:
    phase, percent = value.get("phase"), value.get("percent")
    if not phase:
        return "waits for the ready line"
    text = "{}{}".format(phase, "" if percent is None else " {:.0f} %".format(percent))
    return "{}: {}".format(text, value["slow"]) if value.get("slow") else text


def port(seen: Seen, expected: Expectations, now: float) -> Verdict:
    """The port is bound by a process of this unit, and by nobody else at an address that overlaps."""
    if expected.port is None:
        return skips("port", "no port is known")
    own = [row for row in seen.sockets or () if row.get("own")]
    foreign = [row for row in seen.sockets or () if row.get("foreign")]
    if foreign and not (expected.kind == "minimal" and _container(foreign[0])):
        who = _owner(foreign[0])
        if seen.foreign_since is not None and now - seen.foreign_since >= FOREIGN_GRACE:
            tail = ", which makes two servers on one port" if own else "; this unit's server fails when it binds"
            return fails("port", "port-in-use: port {} is bound by {}{}".format(expected.port, who, tail),
                         owner=foreign[0].get("pid"), cause="port-in-use")
        return waits("port", "port {} is still bound by {}".format(expected.port, who))
    if own:
        return passes("port", "port {} is bound by this unit's process {}".format(expected.port, own[0].get("pid")),
                      pid=own[0].get("pid"), address=own[0].get("address"))
    if foreign:
        return passes("port", "port {} is bound by {}".format(expected.port, _owner(foreign[0])))
    if seen.sockets and all(row.get("pid") is None for row in seen.sockets):
        return waits("port", "port {} is bound, waits to see by whom".format(expected.port))
    return waits("port", "waits for port {} to open".format(expected.port))


def _container(row: Mapping[str, Any]) -> bool:
    words = "{} {}".format(row.get("unit") or "", row.get("command") or "")
    return any(word in words for word in ("docker", "containerd", "podman", "conmon", "libpod"))


def _owner(row: Mapping[str, Any]) -> str:
    command = str(row.get("command") or "").strip()
    text = "process {}".format(row.get("pid")) if row.get("pid") else "a process that cannot be seen"
    if command:
        text += " ({})".format(command[:80])
    return text + (" of {}".format(row["unit"]) if row.get("unit") else "")


def health(seen: Seen, expected: Expectations, now: float) -> Verdict:
    """The release's own sign of health, by status code alone, while this unit's own process holds the port."""
    if expected.kind == "minimal" or expected.port is None:
        return skips("health", "nothing is known of how it answers")
    path = expected.health.path
    answer = seen.health
    if seen.answered_at is not None:
        if seen.misses >= MISSES:
            return fails("health", "{} answered 200 before and now {}".format(path, said(answer)))
        if not expected.health.means_ready and not _ready(seen, expected, now):
            return waits("health", "{} answers 200, which in this release only means that the port is open: waits for "
                                   "the ready line".format(path))
        return passes("health", _healthy_text(seen, expected), seconds=(answer or {}).get("seconds"))
    if answer is not None and answer.get("status") in (401, 403):
        return fails("health", "{} answers {}: a key is asked for where this release asks for none".format(
            path, answer["status"]))
    if answer is not None and answer.get("error") == "tls":
        return fails("health", "{} cannot be asked over TLS as declared: {}".format(path, answer.get("detail", "")))
    if seen.marked:
        limit = max(UNHEALTHY_LIMIT, 2 * expected.health.timeout)
    else:
        limit = SICK_LIMIT + 2 * float((answer or {}).get("seconds") or 0)
    if seen.ready_at is not None and now - seen.ready_at > limit:
        if answer is None:
            return fails("health", "the log says ready, but nothing answers on port {}".format(expected.port))
        since = " {} ago".format(duration(now - seen.ready_at)) if seen.marked else ""
        return fails("health", "the log said ready{}, but {} {}".format(since, path, said(answer)))
    return waits("health", _health_wait(seen, expected))


def _ready(seen: Seen, expected: Expectations, now: float) -> bool:
    verdict = log(seen, expected, now)
    return verdict.state.value in ("passed", "skipped")


def _healthy_text(seen: Seen, expected: Expectations) -> str:
    if _rank(expected):
        return "{} answers 200: the ranks of this node once became ready; live health is rank 0's".format(
            expected.health.path)
    return "{} answers 200".format(expected.health.path)


def _health_wait(seen: Seen, expected: Expectations) -> str:
    if seen.open_at is None:
        return "waits for the port"
    if seen.ready is not None and seen.ready.get("status") != 200:
        return "waits for {}, which {}".format(expected.health.ready_path, said(seen.ready))
    if seen.health is None:
        return "waits for {}".format(expected.health.path)
    return "waits for {}, which {}".format(expected.health.path, said(seen.health))


def said(answer: Optional[Mapping[str, Any]]) -> str:
    """An answer, or what came instead of one, in words."""
    if answer is None:
        return "was not asked yet"
    if answer.get("status") is not None:
        return "answers {}".format(answer["status"])
    error = str(answer.get("error"))
    if error == "timeout":
        return "does not answer in {:.0f} s".format(answer.get("seconds") or 0)
    words = {"refused": "refuses the connection", "reset": "breaks off the connection"}
    return words.get(error, "cannot be asked ({})".format(answer.get("detail") or error))
