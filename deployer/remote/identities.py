"""Which keys are offered to a host, and in which order: as ssh does it, the agent's before those of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deployer.protocol.records import dataclass
from deployer.remote import keyfiles, wire
from deployer.remote.ask import Ask, Question
from deployer.remote.destination import Destination
from deployer.remote.sshagent import AgentFailed, SshAgent


@dataclass(frozen=True)
class Identity:
    """A key to offer. ``blob`` is None where the public half shows only after unlocking.

    ``probe``: the host is asked whether it would take the key before anything is signed or a passphrase is wanted.
    ``unlock`` gives the public half and the function that signs (data, algorithm); None: nobody unlocked it.
    """

    label: str
    blob: bytes | None
    probe: bool
    unlock: Callable[[], tuple[bytes, Callable[[bytes, str], bytes]] | None]


def candidates(destination: Destination, ask: Ask, notes: list[str]) -> list[Identity]:
    """The identities for a host, without duplicates. What could not be used is told in ``notes``."""
    agent, held = _agent(destination, notes)
    files = [path for path in destination.identity_files if Path(path).is_file()]
    public = {path: keyfiles.public_half(path) for path in destination.identity_files}
    # A public key file alone names a key of the agent's.
    public.update({path: keyfiles.public_file(path) or keyfiles.public_file(path + ".pub")
                   for path in destination.identity_files if public[path] is None})
    named = [blob for blob in public.values() if blob]
    found: list[Identity] = []
    for certificate in _certificates(destination, notes):
        found.extend(_certified(certificate, agent, held, files, public, ask, destination))
    if agent:
        wanted = sorted(held, key=lambda key: named.index(key[0]) if key[0] in named else len(named))
        for blob, comment in wanted:
            if destination.identities_only and _plain(blob) not in named and blob not in named:
                continue
            found.append(_of_agent(agent, blob, comment))
    in_agent = {blob for blob, _ in held}
    for path in files:
        if public[path] is None or public[path] not in in_agent:
            found.append(_of_file(path, public[path], None, ask, destination))
    return _unique(found)


def _agent(destination: Destination, notes: list[str]) -> tuple[SshAgent | None, list[tuple[bytes, str]]]:
    if not destination.agent:
        return None, []
    try:
        agent = SshAgent(destination.agent)
        return agent, [(key.blob, key.comment) for key in agent.list()]
    except AgentFailed as error:
        notes.append(str(error))
        return None, []


def _certificates(destination: Destination, notes: list[str]) -> list[bytes]:
    found = []
    for path in destination.certificate_files:
        blob = keyfiles.public_file(path)
        if blob is None:
            notes.append(f"the certificate {path} cannot be read")
        else:
            found.append(blob)
    for path in destination.identity_files:
        blob = keyfiles.public_file(path + "-cert.pub")
        if blob:
            found.append(blob)
    return list(dict.fromkeys(found))


def _certified(
    certificate: bytes, agent: SshAgent | None, held: Sequence[tuple[bytes, str]], files: Sequence[str],
    public: dict[str, bytes | None], ask: Ask, destination: Destination,
) -> list[Identity]:
    plain = _plain(certificate)
    for blob, comment in held:
        if blob == plain and agent:
            return [Identity(f"certificate for {comment}", certificate, True, _agent_signs(agent, blob, certificate))]
    return [_of_file(path, public[path], certificate, ask, destination) for path in files if public[path] == plain]


def _of_agent(agent: SshAgent, blob: bytes, comment: str) -> Identity:
    return Identity(f"{comment or 'key'} (ssh-agent)", blob, True, _agent_signs(agent, blob, blob))


def _agent_signs(
    agent: SshAgent, key: bytes, shown: bytes
) -> Callable[[], tuple[bytes, Callable[[bytes, str], bytes]]]:
    return lambda: (shown, lambda data, algorithm: agent.sign(key, data, algorithm))


def _of_file(path: str, blob: bytes | None, certificate: bytes | None, ask: Ask, destination: Destination) -> Identity:
    try:
        locked = keyfiles.encrypted(path)
    except keyfiles.KeyFailed:
        locked = False

    def unlock() -> tuple[bytes, Callable[[bytes, str], bytes]] | None:
        key = unlocked(path, locked, None if destination.batch else ask, ask)
        if key is None:
            return None
        return certificate or keyfiles.public_blob(key), lambda data, algorithm: keyfiles.sign(key, data, algorithm)

    return Identity(path, certificate or blob, locked, unlock)


def unlocked(path: str, locked: bool, asked: Ask | None, store: Ask) -> Any:
    """The private key in ``path``, unlocked once for all hosts; None where nobody gives the passphrase."""
    name = f"{path}@{Path(path).stat().st_mtime_ns}"
    with store.unlocking:
        if name in store.keys:
            return store.keys[name]
        key = _unlock(path, locked, asked)
        if key is not None:
            store.keys[name] = key
        return key


def _unlock(path: str, locked: bool, ask: Ask | None) -> Any:
    if not locked:
        return keyfiles.unlock(path, None)
    for attempt in range(3):
        again = "That was not it. " if attempt else ""
        question = Question("key", path, f"{again}Passphrase for the key {path}: ")
        answer = ask.secret(question) if ask else None
        if not answer:
            return None
        try:
            return keyfiles.unlock(path, answer)
        except keyfiles.WrongPassphrase:
            if ask:
                ask.wrong(question, answer)
    return None


def _plain(blob: bytes) -> bytes:
    try:
        return wire.plain_of(blob)
    except ValueError:
        return blob


def _unique(found: Sequence[Identity]) -> list[Identity]:
    kept: dict[object, Identity] = {}
    for identity in found:
        kept.setdefault(identity.blob or identity.label, identity)
    return list(kept.values())
