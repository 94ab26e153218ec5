"""One host, one session: asking for facts, following transactions, undoing what was interrupted."""

from __future__ import annotations

import getpass
import hashlib
import socket
import time
from collections.abc import Callable
from typing import Any

from deployer.errors import AgentError, ConnectError, HostError, LockedError, OperationError, RefusedError
from deployer.protocol.codec import from_plain
from deployer.protocol.facts import Facts, TransactionFacts
from deployer.protocol.message import RESULT, Event
from deployer.protocol.outcome import blocks
from deployer.protocol.records import dataclass, field
from deployer.render.model import Release
from deployer.rollout import secrets as secret_room
from deployer.rollout.secrets import Secrets
from deployer.rollout.view import View
from deployer.settings.model import Host, UnitSettings, Venv

RECONNECT_FOR = 600.0
"""Seconds for which a lost host is tried again while a transaction goes on there."""


@dataclass(frozen=True)
class Survey:
    """What a host said of itself and of one unit."""

    facts: Facts
    secrets_differ: bool
    last_result: dict[str, Any] | None = None


@dataclass
class Contact:
    """A host that can be asked. ``open`` makes a new session; the present one is used until it breaks.

    ``reach`` makes a contact with another host by its name: the hypervisor of this one. ``turn`` waits until this host
    may be changed, where there are several, and gives the seconds that it waited.
    """

    host: Host
    open: Callable[[], Any]
    view: View
    session: Any = field(default=None)
    reach: Callable[[str], Contact] | None = None
    turn: Callable[[], float] = lambda: 0.0

    def __enter__(self) -> Contact:
        self.view.tell(self.host.name, "connect", {"state": "begin"})
        self.session = self.open()
        hello = self.session.hello
        for warning in self.session.warnings:
            self.view.tell(self.host.name, "finding", {"level": "warning", "code": "ssh-config", "message": warning})
        self.view.tell(self.host.name, "connect", {"state": "done", "python": hello.python, "uid": hello.uid})
        return self

    def __exit__(self, *_: object) -> None:
        if self.session is not None:
            self.session.close()

    def call(self, op: str, data: dict[str, Any]) -> dict[str, Any]:
        """One request; events in between go to the view."""
        reply: dict[str, Any] = self.session.call(op, data, lambda event: self.view.tell(
            self.host.name, event.event, event.data))
        return reply

    def survey(self, settings: UnitSettings, release: Release, secrets: Secrets) -> Survey:
        """The facts that a push judges."""
        return self.ask_facts(settings.unit, settings, {
            file.path: hashlib.sha256(secret_room.contents(file, secrets)).hexdigest()
            for file in secret_room.secret_files(release)
        })

    def ask_facts(self, unit: str, settings: UnitSettings | None = None,
                  secret_digests: dict[str, str] | None = None) -> Survey:
        request: dict[str, Any] = {"unit": unit, "secret_digests": secret_digests or {}}
        if settings is not None and isinstance(settings.runtime, Venv):
            request["python"] = settings.runtime.python
            request["distribution"] = "sglang-router" if settings.program == "router" else "sglang"
            request["model_path"] = model_path(settings)
            request["gpus"] = settings.gpu.devices is not None
        reply = self.call("facts", request)
        return Survey(from_plain(Facts, reply["facts"]), bool(reply.get("secrets_differ")), reply.get("last_result"))

    def settle_interrupted(self, transaction: TransactionFacts | None) -> dict[str, Any] | None:
        """Undoes first what an interrupted transaction left. Raises LockedError while one runs."""
        if transaction is None:
            return None
        if transaction.running:
            raise locked(self.host.name, vars(transaction))
        self.turn()
        self.view.tell(self.host.name, "recovery", {"unit": transaction.unit, "release": transaction.number,
                                                    "step": transaction.step, "who": transaction.who})
        return self.transact(transaction.unit, transaction.number)

    def put_right_first(self, transaction: TransactionFacts) -> None:
        """``settle_interrupted`` before something new. Raises RefusedError while the way back is still blocked."""
        said = self.settle_interrupted(transaction) or {}
        if blocks(said):
            unit = transaction.unit.removesuffix(".service")
            why = dict(said.get("rollback_problem") or {}).get("text") or "it cannot be written down"
            raise RefusedError(
                f"an interrupted push of {unit} cannot be put right: {why}",
                state=str(said.get("state_now", "")),
                hint=f"put that right, then: deployer attach {self.host.name} -u {unit}")

    def transact(self, unit: str, number: int) -> dict[str, Any]:
        """Starts a staged transaction and follows it to its result. Raises LockedError."""
        try:
            reply = self.call("transact", {"unit": unit, "number": number})
        except OperationError as error:
            if error.code == "locked":
                raise locked(self.host.name, error.data.get("holder") or {}) from None
            raise
        return self.follow(unit, number, int(reply.get("after", 0)))

    def follow(self, unit: str, number: int, after: int = 0) -> dict[str, Any]:
        """The result's data of a transaction. A lost connection is made anew, from the event that was read last."""
        state = _Followed(after)
        lost_since: float | None = None
        while True:
            try:
                if self.session is None:
                    self.session = self.open()
                    self.view.tell(self.host.name, "reconnect", {"state": "done"})
                lost_since = None
                reply = self.session.call("follow", {"unit": unit, "number": number, "after": state.seq},
                                          lambda event: self._relay(event, state))
                if state.result is not None:
                    return state.result
                if not reply.get("ended"):
                    return {"outcome": "interrupted", "unit": unit, "release": number,
                            "reason": "the transaction on the host ended without a result", "state_now": "unknown",
                            "code": "cut-off"}
            except OperationError:
                raise
            except (AgentError, ConnectError) as error:
                lost_since = lost_since or time.monotonic()
                self._lost(error, time.monotonic() - lost_since)

    def _relay(self, event: Event, state: _Followed) -> None:
        if event.event != "relay":
            return
        inner = event.data["event"]
        state.seq = max(state.seq, int(inner["seq"]))
        if inner["event"] == RESULT:
            state.result = dict(inner["data"])
        else:
            self.view.tell(self.host.name, str(inner["event"]), dict(inner["data"], at=inner.get("at")))

    def _lost(self, error: HostError, since: float) -> None:
        """The connection broke while the host goes on by itself. Raises when it stays away."""
        session, self.session = self.session, None
        if session is not None:
            session.close()
        if since > RECONNECT_FOR:
            raise error
        self.view.tell(self.host.name, "reconnect", {"state": "begin", "text": error.message})
        time.sleep(min(5.0, 0.5 + since / 4))


@dataclass
class _Followed:
    seq: int
    result: dict[str, Any] | None = None


def model_path(settings: UnitSettings) -> str:
    """The declared model path, by any of its spellings; "" where none is declared."""
    for name, value in settings.args.items():
        if name.replace("_", "-") in ("model-path", "model"):
            return str(value)
    return ""


def operator() -> dict[str, str]:
    """Who pushes, and from where, for the record on the host."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "unknown"
    return {"who": name, "source": socket.gethostname()}


def locked(host: str, note: dict[str, Any]) -> LockedError:
    """Another push holds the host: who, from where, since when, which step."""
    since = note.get("since")
    when = time.strftime("%H:%M:%S", time.localtime(float(since))) if since else "an unknown time"
    who = f"{note.get('who') or 'somebody'} from {note.get('source') or 'an unknown machine'}"
    unit = str(note.get("unit", "")).removesuffix(".service")
    return LockedError(
        f"another push is under way: {unit or 'a unit'} by {who} since {when}, step {note.get('step') or '?'}",
        state="nothing was changed by this command",
        hint=f"deployer attach {host} -u {unit}" if unit else f"deployer status {host}",
    )
