"""Whether a host is the one that the admin knows: refuses with the exact command to type."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deployer.errors import HostKeyError
from deployer.remote import algorithms, hostkeys, wire
from deployer.remote.destination import Destination
from deployer.remote.hostkeys import CERTIFICATE, Entry, Standing
from deployer.remote.sshconfig import matches_list


class HostCheck:
    """What is known of one destination's key, before and after it was shown. ``direct``: nothing stands in between."""

    def __init__(self, destination: Destination, direct: bool) -> None:
        self._destination = destination
        self._direct = direct
        self._names = hostkeys.lookup_names(destination.host, destination.port, destination.key_alias)
        self._entries = hostkeys.read((*destination.known_hosts, *destination.global_known_hosts))

    def order(self, available: list[str]) -> list[str]:
        """The host key algorithms to ask for, best known first."""
        if self._destination.host_key_algorithms:
            available = algorithms.choose(self._destination.host_key_algorithms, available)
        return algorithms.host_key_order(
            available, hostkeys.known_kinds(self._entries, self._names),
            bool(hostkeys.authorities(self._entries, self._names)))

    def check(self, blob: bytes, warn: Callable[[str], None]) -> bool:
        """Raises HostKeyError, unless the key is known or the admin's settings take it. Whether it can be trusted
        with a password: not so a changed key under StrictHostKeyChecking=no."""
        self._revoked(blob)
        kind = wire.kind_of(blob)
        why = ""
        if kind.endswith(CERTIFICATE):
            why = self._certificate(blob)
            if not why:
                return True
            blob = wire.plain_of(blob)
            kind = wire.kind_of(blob)
        judged = hostkeys.judge(self._entries, self._names, kind, blob)
        if judged.standing is Standing.REVOKED:
            raise self._refuse_revoked(f"{judged.entries[0].file}:{judged.entries[0].line}")
        if judged.standing is Standing.KNOWN:
            return True
        strict = self._destination.strict
        if judged.standing is Standing.CHANGED:
            if strict != "no":
                raise self._changed(judged.entries, kind, blob)
            warn(f"the host key of {self._destination.where} is not the known one "
                 f"({judged.entries[0].file}:{judged.entries[0].line}); StrictHostKeyChecking no lets it pass, and no "
                 "password is sent there")
            return False
        if strict in ("no", "accept-new"):
            self._accept(kind, blob, warn)
            return True
        raise self._unknown(kind, blob, why)

    def _revoked(self, blob: bytes) -> None:
        file = self._destination.revoked_keys
        if not file:
            return
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            raise HostKeyError(self._destination.name, f"RevokedHostKeys {file} cannot be read: {error.strerror}",
                               hint="ssh would refuse too: correct RevokedHostKeys in ~/.ssh/config") from None
        if data.startswith(b"SSHKRL\n\0"):
            raise HostKeyError(self._destination.name, f"RevokedHostKeys {file} is a key revocation list (KRL), "
                               "which is not understood here", hint="give the revoked keys as a text file, one a line")
        plain = wire.plain_of(blob)
        for line in data.decode("utf-8", "replace").splitlines():
            words = line.split()
            if len(words) > 1 and words[1] in (base64.b64encode(key).decode() for key in (blob, plain)):
                raise self._refuse_revoked(file)

    def _certificate(self, blob: bytes) -> str:
        """Why the certificate does not prove the host; empty when it does."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import SSHCertificateType

        kind = wire.kind_of(blob)
        try:
            certificate: Any = serialization.load_ssh_public_identity(
                kind.encode() + b" " + base64.b64encode(blob))
            line = certificate.signature_key().public_bytes(
                serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
            signer = base64.b64decode(line.split()[1])
            certificate.verify_cert_signature()
        except (ValueError, InvalidSignature) as error:
            return f"its certificate is not valid ({type(error).__name__})"
        authorities = hostkeys.authorities(self._entries, self._names)
        if signer not in [entry.blob for entry in authorities]:
            return f"its certificate is by an authority that is not known for it ({hostkeys.fingerprint(signer)})"
        for entry in self._entries:
            if entry.marker == "@revoked" and entry.blob == signer and any(map(entry.names_host, self._names)):
                raise self._refuse_revoked(f"{entry.file}:{entry.line}")
        if certificate.type is not SSHCertificateType.HOST:
            return "its certificate is one for users"
        now = time.time()
        if not certificate.valid_after <= now < certificate.valid_before:
            return "its certificate is not valid at this time"
        names = [name.decode("utf-8", "replace").lower() for name in certificate.valid_principals]
        own = (self._destination.key_alias or self._destination.host).lower()
        if names and not matches_list(names, own):
            return f"its certificate is for {', '.join(names)}, not for {own}"
        if certificate.critical_options:
            return "its certificate has critical options"
        return ""

    def _accept(self, kind: str, blob: bytes, warn: Callable[[str], None]) -> None:
        name = self._names[0]
        if not self._destination.known_hosts:
            return
        try:
            hostkeys.add(self._destination.known_hosts[0], name, kind, blob, self._destination.hash_names)
        except OSError as error:
            warn(f"the key of {name} could not be added to {self._destination.known_hosts[0]}: {error.strerror}")
            return
        warn(f"{name} is new: its key ({kind}, {hostkeys.fingerprint(blob)}) was added to "
             f"{self._destination.known_hosts[0]}")

    # -- refusals

    def _unknown(self, kind: str, blob: bytes, why: str) -> HostKeyError:
        target = self._destination
        file = target.known_hosts[0] if target.known_hosts else "~/.ssh/known_hosts"
        others = [k for k in hostkeys.known_kinds(self._entries, self._names) if k != kind]
        also = f"; it is known by {', '.join(others)} only, which it did not offer" if others else ""
        return HostKeyError(
            target.name,
            f"the host key of {target.where} is not known{': ' + why if why else ''}{also} "
            f"({kind}, {hostkeys.fingerprint(blob)})",
            hint="compare the fingerprint with the host's own (`ssh-keygen -lf /etc/ssh/ssh_host_"
                 f"{_file_kind(kind)}_key.pub` there), then:\n"
                 + hostkeys.scan_command(target.host, target.port, target.key_alias, kind, blob, file, self._direct))

    def _changed(self, entries: tuple[Entry, ...], kind: str, blob: bytes) -> HostKeyError:
        target = self._destination
        places = ", ".join(f"{entry.file}:{entry.line}" for entry in entries)
        commands = dict.fromkeys(hostkeys.remove_command(entry, self._names[0]) for entry in entries)
        known = hostkeys.fingerprint(entries[0].blob)
        return HostKeyError(
            target.name,
            f"the host key of {target.where} has changed: {kind} {hostkeys.fingerprint(blob)}, known was {known} "
            f"({places}). The host was set up anew, or someone stands in between",
            hint="only if you know why it changed:\n" + "\n".join(commands))

    def _refuse_revoked(self, place: str) -> HostKeyError:
        return HostKeyError(self._destination.name,
                            f"the host key of {self._destination.where} is revoked ({place})",
                            hint="do not connect; have the host's keys made anew")


def _file_kind(kind: str) -> str:
    return {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(kind, "ecdsa")


