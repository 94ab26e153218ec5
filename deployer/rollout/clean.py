"""Cleaning a host: a preview, a yes where one is due, the act, and the hypervisor where memory is held out of sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deployer.errors import DeployerError, OperationError, RefusedError
from deployer.protocol.cleaned import Act, Cleaned, HeldMemory, Treatment
from deployer.protocol.codec import from_plain, to_plain
from deployer.protocol.facts import GpuReading
from deployer.protocol.holder import HolderClass
from deployer.protocol.outcome import Outcome
from deployer.protocol.records import dataclass, field, replace
from deployer.rollout.contact import Contact, locked, operator
from deployer.rollout.view import Report


@dataclass(frozen=True)
class Wish:
    """What is asked for. ``gpus``: indices or UUIDs, none: all. ``unit`` with its suffix. Times in seconds."""

    scope: str = "own"
    unit: str | None = None
    gpus: tuple[str, ...] = ()
    dry_run: bool = False
    deadline: float = 120.0
    stop: bool = False


@dataclass(frozen=True)
class Preview:
    """What would be done on the host, and on its hypervisor (None: nothing to do there, or none declared)."""

    here: Cleaned
    reading: GpuReading | None
    above: Cleaned | None = None
    above_host: str = ""
    note: str = ""

    @property
    def acts(self) -> list[Treatment]:
        planned = [*self.here.planned, *(self.above.planned if self.above else ())]
        return [treatment for treatment in planned if treatment.act is not Act.SPARE]


@dataclass
class _Above:
    """The hypervisor's side: a contact of its own, and what it has to be told of the container."""

    contact: Contact
    request: dict[str, Any] = field(default_factory=dict)


def clean(contact: Contact, wish: Wish, agree: Callable[[Preview], bool]) -> Report:
    """``agree`` is shown the preview; False ends it unchanged.

    Raises HostError, LockedError, RefusedError for a GPU that does not exist.
    """
    host = contact.host
    reply = _call(contact, {**_request(wish), "dry_run": True, "tell_inner": host.hypervisor is not None})
    preview = Preview(from_plain(Cleaned, reply["cleaned"]), _reading(reply))
    above, preview = _look_above(contact, wish, preview, reply.get("inner") or {})
    try:
        contact.view.tell(host.name, "preview", _told(preview))
        if wish.dry_run:
            return _report(host.name, wish, Outcome.NOTHING_TO_DO, preview, _words(preview))
        if not agree(preview):
            nothing = "nothing was changed on the host"
            return _report(host.name, wish, Outcome.REFUSED, preview, "not agreed to", nothing)
        if not preview.acts and not _hidden(preview.here):
            return _report(host.name, wish, Outcome.NOTHING_TO_DO, preview, "no stale holder")
        approved = [[one.holder.pid, one.holder.start] for one in preview.here.planned]
        upstairs = _act_above(above, wish, preview) if above else None
        done = _call(contact, {**_request(wish), **operator(), "approved": approved})
        return _done(host.name, wish, preview, from_plain(Cleaned, done["cleaned"]), upstairs)
    finally:
        if above:
            above.contact.__exit__(None, None, None)


def free_hidden(contact: Contact, unit: str, gpus: tuple[str, ...], scope: str) -> Report | None:
    """For a push: ends on the hypervisor what holds ``gpus`` out of the host's sight, within ``scope``.

    None where that is done or there is nothing to do; else why not, with nothing of the unit changed. Raises HostError.
    """
    if contact.host.hypervisor is None or scope == "none":
        return None
    wish = Wish(scope, unit, gpus)
    reply = _call(contact, {**_request(wish), "dry_run": True, "tell_inner": True})
    preview = Preview(from_plain(Cleaned, reply["cleaned"]), _reading(reply))
    above, preview = _look_above(contact, wish, preview, reply.get("inner") or {})
    try:
        if above and preview.above and any(one.act is not Act.SPARE for one in preview.above.planned):
            contact.view.tell(contact.host.name, "preview", _told(preview))
            cleaned = _act_above(above, wish, preview)
            if cleaned.held:
                words, now = held_words(list(cleaned.held)), _state(Cleaned(), cleaned)
                return _report(contact.host.name, wish, Outcome.REFUSED, preview, words, now, cleaned.held[0].hint)
        elif preview.note:
            return _report(contact.host.name, wish, Outcome.REFUSED, preview, preview.note, "nothing was changed")
        return None
    finally:
        if above:
            above.contact.__exit__(None, None, None)


def _request(wish: Wish) -> dict[str, Any]:
    return {"unit": wish.unit, "scope": wish.scope, "gpus": list(wish.gpus), "narrow": bool(wish.gpus),
            "deadline": wish.deadline, "stop": wish.stop}


def _look_above(contact: Contact, wish: Wish, preview: Preview, inner: dict[str, Any]) -> tuple[_Above | None, Preview]:
    """Where memory is held out of sight, asks the hypervisor; one that cannot be asked becomes a note."""
    hidden, host = _hidden(preview.here), contact.host
    if not hidden or host.hypervisor is None or contact.reach is None:
        return None, preview
    if not inner.get("known", True):
        return None, replace(preview, note="the host's units cannot be asked: nothing is ended from its hypervisor")
    other = contact.reach(host.hypervisor.host)
    try:
        other.__enter__()
        above = _Above(other, {"container": host.hypervisor.container, "inner": inner, "gpus": sorted(hidden)})
        reply = _call(other, {**_request(wish), **above.request, "dry_run": True})
    except DeployerError as error:
        other.__exit__(None, None, None)
        return None, replace(preview, note=f"hypervisor {host.hypervisor.host}: {error.message}")
    return above, replace(preview, above=from_plain(Cleaned, reply["cleaned"]), above_host=host.hypervisor.host)


def _act_above(above: _Above, wish: Wish, preview: Preview) -> Cleaned:
    planned = preview.above.planned if preview.above else ()
    approved = [[one.holder.pid, one.holder.start] for one in planned]
    reply = _call(above.contact, {**_request(wish), **above.request, **operator(), "approved": approved})
    return from_plain(Cleaned, reply["cleaned"])


def _call(contact: Contact, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return contact.call("clean", request)
    except OperationError as error:
        if error.code == "locked":
            raise locked(contact.host.name, error.data.get("holder") or {}) from None
        if error.code in ("unknown-gpu", "unknown-scope", "not-root", "no-such-container"):
            hint = f"deployer gpus {contact.host.name}" if error.code == "unknown-gpu" else ""
            raise RefusedError(f"{contact.host.name}: {error.message}", hint=hint) from None
        raise


def _reading(reply: dict[str, Any]) -> GpuReading | None:
    return from_plain(GpuReading, reply["reading"]) if reply.get("reading") else None


def _hidden(cleaned: Cleaned) -> set[str]:
    """UUIDs of GPUs with memory held by nobody to be seen."""
    return {uuid for one in cleaned.planned if one.holder.holder_class is HolderClass.HIDDEN and one.blocks
            for uuid in one.holder.memory if uuid}


def _told(preview: Preview) -> dict[str, Any]:
    return {"here": to_plain(preview.here.planned), "above": to_plain(preview.above.planned) if preview.above else [],
            "above_host": preview.above_host, "reading": to_plain(preview.reading), "note": preview.note,
            "errors": list(preview.here.errors)}


def _words(preview: Preview) -> str:
    count = len(preview.acts)
    what = f"would end {count} process{'' if count == 1 else 'es'}" if count else "nothing to end"
    return f"{what}; nothing was changed"


def _done(host: str, wish: Wish, preview: Preview, here: Cleaned, above: Cleaned | None) -> Report:
    ended = len(here.ended) + (len(above.ended) if above else 0)
    held = [*(above.held if above else ()), *here.held]
    if held:
        words, now = held_words(held), _state(here, above)
        return _report(host, wish, Outcome.FAILED, preview, words, now, held[0].hint, here, above)
    if not ended:
        return _report(host, wish, Outcome.NOTHING_TO_DO, preview, "no stale holder", "", "", here, above)
    freed = here.freed_mib + (above.freed_mib if above else 0)
    seconds = here.seconds + (above.seconds if above else 0)
    text = f"ended {ended} process{'' if ended == 1 else 'es'}, {freed:,} MiB freed in {seconds:.1f} s"
    return _report(host, wish, Outcome.DONE, preview, text, _state(here, above), "", here, above)


def held_words(held: list[HeldMemory]) -> str:
    """What is still in use, and why that may be."""
    first = held[0]
    place = f"GPU {first.index}" if first.index is not None else "a GPU"
    amount = f"{first.used_mib:,} MiB of {place} " if first.used_mib is not None else f"memory of {place} "
    more = f" (and {len(held) - 1} more)" if len(held) > 1 else ""
    return f"{amount}is still held: {first.why}{more}"


def _state(here: Cleaned, above: Cleaned | None) -> str:
    ended = [*(above.ended if above else ()), *here.ended]
    if not ended:
        return "nothing was ended"
    who = [f"pid {one.holder.pid}" if one.holder.pid else f"all in the group of {one.holder.unit}" for one in ended]
    return "ended: " + ", ".join(f"{name} ({one.how})" for name, one in zip(who, ended, strict=True))


def _report(host: str, wish: Wish, outcome: Outcome, preview: Preview, text: str, state: str = "", next: str = "",
            here: Cleaned | None = None, above: Cleaned | None = None) -> Report:
    data = {"scope": wish.scope, "dry_run": wish.dry_run, "cleaned": to_plain(here or preview.here),
            "hypervisor": to_plain(above or preview.above), "note": preview.note}
    return Report(host, wish.unit or "", outcome, text, state, next, data=data)
