"""Where a host is and how to get there: what the admin wrote, in the light of ssh_config."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Sequence
from pathlib import Path

from deployer.errors import ConnectError
from deployer.protocol.records import dataclass, replace
from deployer.remote import sshconfig
from deployer.remote.sshconfig import Found
from deployer.remote.tokens import expand

CONNECT_SECONDS = 15.0
"""For each of TCP, banner and key exchange, where ConnectTimeout does not say otherwise."""

DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
DEFAULT_METHODS = ("publickey", "keyboard-interactive", "password")
MAX_JUMPS = 8


@dataclass(frozen=True)
class Destination:
    """Everything that a connection needs to know. Times in seconds; paths are expanded."""

    name: str
    original: str
    host: str
    port: int
    user: str
    key_alias: str | None = None
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent: str | None = None
    known_hosts: tuple[str, ...] = ()
    global_known_hosts: tuple[str, ...] = ()
    revoked_keys: str | None = None
    strict: str = "ask"
    hash_names: bool = False
    connect_timeout: float = CONNECT_SECONDS
    attempts: int = 1
    alive_interval: float | None = None
    alive_count: int = 3
    family: str = "any"
    bind_address: str | None = None
    bind_interface: str | None = None
    proxy_command: str | None = None
    jumps: tuple[Destination, ...] = ()
    methods: tuple[str, ...] = DEFAULT_METHODS
    prompts: int = 3
    batch: bool = False
    host_key_algorithms: str | None = None
    pubkey_algorithms: str | None = None
    kex: str | None = None
    ciphers: str | None = None
    macs: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """What to type after ``ssh`` to get there."""
        port = f"-p {self.port} " if self.port != 22 else ""
        return f"{port}{self.user}@{self.original}"

    @property
    def silence(self) -> float | None:
        """Seconds without a sign of life after which the admin gives the host up; never under two of the agent's
        own signs, which come every five seconds. None: not said."""
        return max(11.0, self.alive_interval * self.alive_count) if self.alive_interval else None

    @property
    def where(self) -> str:
        """Host and port, for a message."""
        return f"{self.host} port {self.port}"


def parse(text: str) -> tuple[str | None, str, int | None]:
    """User, host and port of ``[ssh://][user@]host[:port]``; IPv6 in brackets, or bare without a port."""
    text = text.removeprefix("ssh://").rstrip("/") if text.startswith("ssh://") else text
    user, at, rest = text.rpartition("@")
    bracket = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", rest)
    if bracket:
        host, port = bracket[1], bracket[2]
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    else:
        host, port = rest, ""
    if not host or (port and not (port.isdigit() and 0 < int(port) < 65536)) or host.startswith("-"):
        raise ValueError(f"{text!r} is no host: write [user@]host[:port]")
    return (user or None) if at else None, host, int(port) if port else None


def resolve(
    name: str, text: str, *, user: str | None = None, port: int | None = None, identity_file: str | None = None,
    files: Sequence[Path] | None = None, home: Path | None = None,
) -> Destination:
    """The destination of ``text``; ``user`` and ``port`` are what hosts.toml says, unless ``text`` says it itself.

    Raises ConnectError for a text that is no host and a configuration that ssh would refuse.
    """
    try:
        return _resolve(name, text, user, port, identity_file, files, home or Path.home(), ())
    except (ValueError, sshconfig.ConfigError) as error:
        raise ConnectError(name, str(error), hint="compare with `ssh -G " + text + "`") from None


@dataclass(frozen=True)
class _Lookup:
    """One name being looked up: what the tokens of its values stand for."""

    original: str
    user: str | None
    port: int | None
    local_user: str
    home: Path

    def host(self, found: Found) -> str:
        return self.expand(found, "hostname", found.get("hostname")) if found.get("hostname") else self.original

    def login(self, found: Found) -> str:
        return self.user or found.get("user") or self.local_user

    def expand(self, found: Found, keyword: str, text: str) -> str:
        return expand(
            keyword, text, original=self.original,
            host=self.original if keyword == "hostname" else self.host(found),
            port=self.port or _number(found, "port", 22), user=self.login(found), local_user=self.local_user,
            home=self.home, key_alias=found.get("hostkeyalias"), jump=found.get("proxyjump"))

    def all(self, found: Found, keyword: str) -> tuple[str, ...]:
        """The expanded values; ``none`` among them stands for no file."""
        return tuple(
            self.expand(found, keyword, value) for value in found.words(keyword) if value.lower() != "none")


def _resolve(
    name: str, text: str, user: str | None, port: int | None, identity_file: str | None,
    files: Sequence[Path] | None, home: Path, chain: tuple[str, ...], direct: bool = False,
) -> Destination:
    own_user, original, own_port = parse(text)
    names = _Lookup(original, own_user or user, own_port or port, getpass.getuser(), home)
    found = sshconfig.lookup(
        sshconfig.Query(original, names.user, names.port, names.local_user, home, expand=names.expand), files)
    jumps: tuple[Destination, ...] = ()
    if not direct:
        jumps = _jumps(found.get("proxyjump", "none"), name, files, home, (*chain, original))
    command = found.get("proxycommand", "none")
    return Destination(
        name=name, original=original, host=names.host(found), port=names.port or _number(found, "port", 22),
        user=names.login(found), key_alias=found.get("hostkeyalias") or None,
        identity_files=_identities(names, found, identity_file),
        certificate_files=names.all(found, "certificatefile"),
        identities_only=_yes(found, "identitiesonly"),
        agent=_agent(names, found),
        known_hosts=names.all(found, "userknownhostsfile") if found.words("userknownhostsfile") else (
            str(home / ".ssh/known_hosts"), str(home / ".ssh/known_hosts2")),
        global_known_hosts=found.words("globalknownhostsfile") or (
            "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"),
        revoked_keys=_none(found.get("revokedhostkeys")),
        strict=_strict(found), hash_names=_yes(found, "hashknownhosts"),
        connect_timeout=_seconds(found, "connecttimeout") or CONNECT_SECONDS,
        attempts=max(1, min(_number(found, "connectionattempts", 1), 20)),
        alive_interval=_seconds(found, "serveraliveinterval") or None,
        alive_count=max(1, _number(found, "serveralivecountmax", 3)),
        family=found.get("addressfamily", "any").lower(),
        bind_address=_none(found.get("bindaddress")), bind_interface=_none(found.get("bindinterface")),
        proxy_command=None if direct or command.lower() == "none" else names.expand(found, "proxycommand", command),
        jumps=jumps, methods=_methods(found), prompts=_number(found, "numberofpasswordprompts", 3),
        batch=_yes(found, "batchmode"),
        host_key_algorithms=found.get("hostkeyalgorithms") or None,
        pubkey_algorithms=found.get("pubkeyacceptedalgorithms") or None,
        kex=found.get("kexalgorithms") or None, ciphers=found.get("ciphers") or None, macs=found.get("macs") or None,
        warnings=tuple(found.warnings),
    )


def _jumps(
    spec: str, name: str, files: Sequence[Path] | None, home: Path, chain: tuple[str, ...],
) -> tuple[Destination, ...]:
    """The hosts on the way, nearest first. As with ssh, only the first one may itself have hosts before it."""
    if spec.lower() == "none":
        return ()
    if len(chain) > MAX_JUMPS or chain[-1] in chain[:-1]:
        raise sshconfig.ConfigError(f"ProxyJump goes round in circles: {' -> '.join(chain[-4:])}")
    hops: list[Destination] = []
    for position, text in enumerate(part.strip() for part in spec.split(",")):
        if parse(text)[1] == chain[-1]:
            continue                                 # `Host *` with a ProxyJump: not for the jump host itself
        label = f"{name.partition(':')[0]}: jump host {text}"
        hop = _resolve(label, text, None, None, None, files, home, chain, direct=position > 0)
        hops.extend((*hop.jumps, replace(hop, jumps=())))
    return tuple(hops)


def _identities(names: _Lookup, found: Found, own: str | None) -> tuple[str, ...]:
    first = (own,) if own else ()
    if found.words("identityfile"):
        return (*first, *names.all(found, "identityfile"))
    return first or tuple(str(names.home / ".ssh" / key) for key in DEFAULT_KEYS)


def _agent(names: _Lookup, found: Found) -> str | None:
    value = found.get("identityagent", "SSH_AUTH_SOCK")
    if value.lower() == "none":
        return None
    if value == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if value.startswith("$") and not value.startswith("${"):
        return os.environ.get(value[1:]) or None
    return names.expand(found, "identityagent", value)


def _methods(found: Found) -> tuple[str, ...]:
    wanted = tuple(part.strip() for part in found.get("preferredauthentications", ",".join(DEFAULT_METHODS)).split(","))
    switches = {
        "publickey": "pubkeyauthentication", "password": "passwordauthentication",
        "keyboard-interactive": "kbdinteractiveauthentication",
    }
    return tuple(
        method for method in wanted if method in switches and found.get(switches[method], "yes").lower() != "no")


def _strict(found: Found) -> str:
    value = found.get("stricthostkeychecking", "ask").lower()
    return {"true": "yes", "false": "no", "off": "no"}.get(value, value)


def _yes(found: Found, keyword: str) -> bool:
    return found.get(keyword, "no").lower() in ("yes", "true")


def _none(value: str) -> str | None:
    return None if value.lower() in ("", "none") else value


def _number(found: Found, keyword: str, default: int) -> int:
    value = found.get(keyword)
    if not value:
        return default
    if not value.isdigit():
        raise sshconfig.ConfigError(f"{found.places.get(keyword, 'ssh_config')}: {keyword} {value} is no number")
    return int(value)


def _seconds(found: Found, keyword: str) -> float | None:
    """A time in ssh's format: seconds, or numbers with s, m, h, d, w."""
    value = found.get(keyword, "none").lower()
    if value == "none":
        return None
    if not re.fullmatch(r"(?:\d+[smhdw]?)+", value):
        raise sshconfig.ConfigError(f"{found.places.get(keyword, 'ssh_config')}: {keyword} {value} is no time")
    units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    return float(sum(int(n) * units[unit] for n, unit in re.findall(r"(\d+)([smhdw]?)", value)))
