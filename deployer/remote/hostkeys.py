"""Who a host is: known_hosts as OpenSSH reads it (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT), and the command to type when
a key is unknown or has changed. Pure but for reading files and adding a line.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import hmac
import os
import secrets
import shlex
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from deployer.protocol.records import dataclass
from deployer.remote.sshconfig import matches_list

CERTIFICATE = "-cert-v01@openssh.com"
_ADDING = threading.Lock()


@dataclass(frozen=True)
class Entry:
    """One line. ``names`` are patterns, or one hashed name; ``blob`` the public key as on the wire."""

    file: str
    line: int
    marker: str
    names: tuple[str, ...]
    kind: str
    blob: bytes

    def names_host(self, name: str) -> bool:
        """Whether the line is about ``name``: "gpu1", "192.0.2.1", "[gpu1]:2222"."""
        if self.names[0].startswith("|1|"):
            return _hashed_is(self.names[0], name)
        return matches_list([pattern.lower() for pattern in self.names], name)


class Standing(enum.Enum):
    """What known_hosts says of a key."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Judgement:
    """``entries`` are the lines it rests on: the matching one, the differing ones, the revoking one."""

    standing: Standing
    entries: tuple[Entry, ...] = ()


def read(files: Iterable[str]) -> list[Entry]:
    """The entries of all files; files that are absent or unreadable have none, broken lines are skipped as in ssh."""
    found: list[Entry] = []
    for file in files:
        try:
            lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            entry = _entry(file, number, line)
            if entry:
                found.append(entry)
    return found


def _entry(file: str, number: int, line: str) -> Entry | None:
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if len(words) < 3 or marker not in ("", "@cert-authority", "@revoked"):
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    names = (words[0],) if words[0].startswith("|") else tuple(words[0].split(","))
    return Entry(file, number, marker, names, words[1], blob)


def lookup_names(host: str, port: int, alias: str | None) -> tuple[str, ...]:
    """The names that a key may stand under: the alias alone; else "[host]:port" and then the bare host."""
    if alias:
        return (alias.lower(),)
    host = host.lower()
    return (host,) if port == 22 else (f"[{host}]:{port}", host)


def judge(entries: Sequence[Entry], names: Sequence[str], kind: str, blob: bytes) -> Judgement:
    """What ``entries`` say of the key ``blob`` of a host with ``names`` (the first is its own, as ``lookup_names``)."""
    about = [[entry for entry in entries if entry.names_host(name)] for name in names]
    for entry in (entry for group in about for entry in group):
        if entry.marker == "@revoked" and entry.blob == blob:
            return Judgement(Standing.REVOKED, (entry,))
    for group in about:
        for entry in group:
            if not entry.marker and entry.blob == blob:
                return Judgement(Standing.KNOWN, (entry,))
    # A line for the bare name says nothing against another port's server, so only the first name can contradict.
    differing = tuple(entry for entry in about[0] if not entry.marker and entry.kind == kind) if about else ()
    return Judgement(Standing.CHANGED, differing) if differing else Judgement(Standing.UNKNOWN)


def authorities(entries: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    """The certificate authorities that may vouch for a host with these names."""
    return [entry for entry in entries
            if entry.marker == "@cert-authority" and any(entry.names_host(name) for name in names)]


def known_kinds(entries: Sequence[Entry], names: Sequence[str]) -> list[str]:
    """The kinds of key that the host is known by, so that it is asked for one of those."""
    return list(dict.fromkeys(
        entry.kind for name in names for entry in entries if not entry.marker and entry.names_host(name)))


def fingerprint(blob: bytes) -> str:
    """As ``ssh-keygen -l`` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def add(file: str, name: str, kind: str, blob: bytes, hashed: bool) -> None:
    """Appends a line for ``name``; the file and its folder are made for the user alone. Raises OSError."""
    path = Path(file)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shown = _hash(name) if hashed else name
    line = f"{shown} {kind} {base64.b64encode(blob).decode()}\n".encode()
    with _ADDING:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def scan_command(host: str, port: int, alias: str | None, kind: str, blob: bytes, file: str, direct: bool) -> str:
    """The command that makes an unknown host known. Where it is reached directly ``ssh-keyscan`` asks the host again;
    by way of others, or under an alias, the key that was shown is written."""
    into = _word(file)
    if direct and not alias:
        port_word = f"-p {port} " if port != 22 else ""
        return f"ssh-keyscan {port_word}-t {_scan_type(kind)} {host} >> {into}"
    name = lookup_names(host, port, alias)[0]
    line = f"{name} {kind} {base64.b64encode(blob).decode()}"
    return f"echo {shlex.quote(line)} >> {into}"


def remove_command(entry: Entry, name: str) -> str:
    """The command that takes an outdated line away."""
    own = "" if os.access(entry.file, os.W_OK) or not Path(entry.file).exists() else "sudo "
    return f"{own}ssh-keygen -R {shlex.quote(name)} -f {_word(entry.file)}"


def _word(file: str) -> str:
    """A path as a word for the shell, which expands ``~`` only outside quotes."""
    home = str(Path.home())
    return "~/" + shlex.quote(file[len(home) + 1:]) if file.startswith(home + "/") else shlex.quote(file)


def _scan_type(kind: str) -> str:
    return {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(kind, "ecdsa" if kind.startswith("ecdsa-") else kind)


def _hashed_is(pattern: str, name: str) -> bool:
    try:
        _, _, salt, digest = pattern.split("|")
        expected = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(expected, base64.b64decode(digest))
    except (ValueError, binascii.Error):
        return False


def _hash(name: str) -> str:
    salt = secrets.token_bytes(20)
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
