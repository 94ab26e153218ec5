"""The steps of a transaction, each of which may be repeated."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Optional, Tuple

from deployer.agent.clean.story import clean as clean_gpus
from deployer.agent.clean.story import foreign_on
from deployer.agent.facts.sockets import listening
from deployer.agent.facts.unit import drift, installed, paths_of, show
from deployer.agent.store.releases import GOOD, Manifest
from deployer.agent.transact import install, manager
from deployer.agent.transact.audit import audit
from deployer.agent.transact.context import Context, Refused, StepFailed
from deployer.agent.verify.mark import StartMark, take
from deployer.agent.verify.watch import Verification, watch
from deployer.protocol.codec import to_plain
from deployer.protocol.expectations import Expectations
from deployer.protocol.facts import Socket
from deployer.protocol.outcome import START_REFUSED
from deployer.protocol.redact import Redactor


def preflight(context: Context) -> None:
    """Rechecks only what races between the client's plan and now, and writes all files beside their places.

    Raises Refused: nothing was changed.
    """
    with context.step("preflight", "rechecks what may have changed since the plan"):
        if context.aborted():
            raise Refused("the operator asked to stop before anything was changed", code="aborted")
        _same_base(context)
        _no_drift(context)
        expectations = context.expectations
        _port_free(context, expectations)
        if context.release.scope != "all" and (expectations.gpus or expectations.all_gpus):
            foreign = foreign_on(tuple(expectations.gpus), context.unit, context.release.scope)
            if foreign:
                names = ", ".join("pid {} ({})".format(holder.pid, holder.user) for holder in foreign)
                raise Refused("other processes hold the unit's GPUs: {}".format(names), code="foreign-holder",
                              holders=[to_plain(holder) for holder in foreign])
        try:
            install.prepare(context.store, context.release, context.previous)
        except (OSError, LookupError, ValueError) as error:
            raise Refused("the files cannot be written: {}".format(error), code="cannot-write") from error


def leave(context: Context) -> None:
    """After a refusal: what was prepared is taken away."""
    install.clear(context.release, context.previous)


def stop(context: Context) -> None:
    with context.step("stop", "waits for requests in flight, then for the processes to end") as told:
        context.stopped_at = time.monotonic()
        told["seconds_to_stop"] = round(stop_units(context, context.previous), 3)
    context.stop_if_asked()


def clean(context: Context) -> None:
    with context.step("clean", "ends what the old server left on the GPUs, waits until the memory is free") as told:
        told.update(clean_holders(context, context.expectations, context.release.scope))
    context.stop_if_asked()


def install_files(context: Context) -> None:
    with context.step("install", "puts the files in place"):
        put_in_place(context, context.release, (context.previous, context.release), install.NEW)
    context.stop_if_asked()


def start(context: Context) -> None:
    with context.step("start", "starts {}".format(context.unit)):
        context.started_at = time.monotonic()
        context.mark = start_unit(context.unit)


def verify(context: Context) -> None:
    with context.step("verify", "waits until every gate has passed") as told:
        result = run_gates(context, context.release, context.mark)
        told["figures"] = result.figures
        context.figures = result.figures
        if result.aborted:
            context.stop_if_asked()
        if not result.passed:
            raise StepFailed(words(result), code="verify-failed", **evidence(result))
    context.stop_if_asked()


def keep(context: Context) -> None:
    """The new release is the one that serves: from here nothing leads back by itself."""
    with context.step("keep", "keeps the new release"):
        store, release = context.store, context.release
        timers = manager.timers(install.units_of(release))
        for timer in timers:
            try:
                manager.start(timer)
            except manager.ManagerError as error:
                context.emit("finding", {"code": "watch-not-started", "level": "warning", "message": str(error)})
        context.figures["down_s"] = round(context.started_at - context.stopped_at, 3) \
            if context.started_at and context.stopped_at and context.was_active else 0.0
        store.update(release, outcome="done", ended=time.time(), figures=context.figures)
        store.set_current(context.unit, release.number)
        if context.previous and context.previous.outcome == "done":
            store.update(context.previous, outcome="replaced")
        install.clear(release, context.previous)
        store.prune(context.unit)
    audit(context.unit, "release {} serves (pushed by {})".format(release.number, release.who or "unknown"))


# What both ways, forth and back, are made of.

def stop_units(context: Context, manifest: Optional[Manifest], limit: Optional[float] = None) -> float:
    """Stops the timers of ``manifest`` and the unit; the seconds it took. Raises StepFailed.

    ``limit``: seconds after which its processes are killed; None: what the unit's own drain may take.
    """
    def waiting(passed: float) -> None:
        text = "waits for {} to stop, {:.0f} s".format(context.unit, passed)
        context.emit("progress", {"step": context.step_now, "text": text})

    try:
        for timer in manager.timers(install.units_of(manifest)):
            manager.stop(timer, 30.0, waiting)
        if show(context.unit, ("LoadState",)).get("LoadState") in ("not-found", None):
            return 0.0
        drain = context.expectations.drain
        return manager.stop(context.unit, limit or manager.stop_limit(context.unit, drain), waiting)
    except manager.ManagerError as error:
        raise StepFailed(str(error), code="stop-failed") from error


def clean_holders(context: Context, expectations: Expectations, scope: str) -> Dict[str, Any]:
    """Ends holders of the scope and waits for the memory. Raises StepFailed when what must go is still there."""
    if scope == "none" or not (expectations.gpus or expectations.all_gpus):
        return {"text": "nothing to clean" if scope != "none" else "cleaning is switched off"}
    cleaned = clean_gpus(context.unit, scope, tuple(expectations.gpus), context.emit)
    if cleaned.held:
        raise StepFailed("GPU memory is still held: {}".format("; ".join(one.why for one in cleaned.held)),
                         code="still-held", cleaned=to_plain(cleaned))
    count = len(cleaned.ended)
    return {"text": "ended {} process{}".format(count, "" if count == 1 else "es") if count else "nothing to end",
            "cleaned": to_plain(cleaned)}


def put_in_place(context: Context, to: Optional[Manifest], others: Tuple[Optional[Manifest], ...], tag: str) -> None:
    """Installs exactly the files of ``to``, tells systemd, sets what starts at boot. Raises StepFailed."""
    try:
        gone = [unit for manifest in others for unit in install.units_of(manifest)
                if unit not in install.units_of(to) and unit != context.unit]
        manager.disable(sorted(set(gone)))
        if to is None:
            manager.disable([context.unit])
        install.switch(context.store, to, others, context.unit, tag)
        if to is not None and to.enabled:
            manager.enable([context.unit, *manager.timers(install.units_of(to))])
        elif to is not None:
            manager.disable([context.unit])
        manager.daemon_reload()
    except (OSError, LookupError, ValueError, manager.ManagerError) as error:
        raise StepFailed("{}".format(error), code="install-failed") from error


def start_unit(unit: str) -> StartMark:
    """Raises StepFailed."""
    manager.reset_failed(unit)
    mark = take(unit)
    try:
        manager.start(unit)
    except manager.ManagerError as error:
        raise StepFailed(str(error), code=START_REFUSED) from error
    return mark


def run_gates(context: Context, manifest: Manifest, mark: Optional[StartMark], abortable: bool = True) -> Verification:
    store = context.store
    secrets: Mapping[str, str] = store.secrets(context.unit, manifest.number)
    history: List[Dict[str, Any]] = [m.figures for m in store.manifests(context.unit)
                                     if m.outcome in GOOD and m.figures and m.number != manifest.number]
    return watch(
        context.unit, store.expectations(context.unit, manifest.number), mark, context.emit, secrets=secrets,
        redactor=Redactor(secrets.values()), aborted=context.aborted if abortable else _never, history=history,
    )


def words(result: Verification) -> str:
    """Why the gates did not pass, in one line."""
    failed = [verdict for verdict in result.verdicts if verdict.state.value == "failed"]
    return "; ".join("{}: {}".format(verdict.gate, verdict.text) for verdict in failed) or "the wait was ended"


def evidence(result: Verification) -> Dict[str, Any]:
    explanation = result.explanation
    return {"verdicts": [to_plain(verdict) for verdict in result.verdicts],
            "explanation": to_plain(explanation) if explanation is not None else None, "figures": result.figures}


def _same_base(context: Context) -> None:
    base = context.previous.digest if context.previous else ""
    if base != context.release.base:
        raise Refused("another push changed the unit since this one was planned", code="base-changed")


def _no_drift(context: Context) -> None:
    current = context.previous
    if current is None or current.kind == "found" or context.release.overwrite_drift:
        return
    present = [installed(path, secret) for path, secret in paths_of(context.unit, current)]
    found = drift(current, present, show(context.unit))
    if found:
        edits = "; ".join(finding.message for finding in found)
        raise Refused("edited by hand since the last push: {}".format(edits), code="drift")


def _port_free(context: Context, expectations: Expectations) -> None:
    if expectations.port is None:
        return
    for socket in listening():
        if socket.port == expectations.port and socket.unit != context.unit and _same_address(socket, expectations):
            raise Refused("port {} is held by {}".format(expectations.port, _owner(socket)), code="port-held",
                          socket=to_plain(socket))


def _same_address(socket: Socket, expectations: Expectations) -> bool:
    everywhere = ("0.0.0.0", "::", "*", "")
    return socket.address in everywhere or expectations.host in everywhere or socket.address == expectations.host


def _owner(socket: Socket) -> str:
    if socket.unit:
        return "{} (pid {})".format(socket.unit, socket.pid)
    return "pid {} ({})".format(socket.pid, socket.command) if socket.pid else "a process that cannot be seen"


def _never() -> bool:
    return False
