"""The connection to a host, from the admin's name for it to the agent's hello."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deployer.errors import ConnectError, HostError, SudoError
from deployer.protocol.message import Hello
from deployer.protocol.records import replace
from deployer.remote import algorithms, bootstrap, channel
from deployer.remote import transport as ssh
from deployer.remote.ask import Ask
from deployer.remote.authenticate import authenticate
from deployer.remote.bundle import Bundle, ahead
from deployer.remote.destination import Destination, resolve
from deployer.remote.hostcheck import HostCheck
from deployer.remote.reach import Way, reach
from deployer.remote.stream import Stream
from deployer.settings.model import Host

BUSY_TRIES = 5
BUSY_SECONDS = 0.3
"""A server that turns connections away (MaxStartups) is tried again after this, doubled each time, and a little more
or less, so that several hosts' connections through it do not come back together."""

CHANNEL_SECONDS = 30.0
KEEPALIVE_SECONDS = 15.0
"""Between keepalives where ServerAliveInterval does not say: firewalls forget idle connections."""


class _Busy(Exception):
    """The connection was closed before the server had said who it is."""


def connect(
    host: Host, bundle: Callable[[], Bundle], ask: Ask, config: Sequence[Path] | None = None
) -> tuple[Stream, Hello, tuple[str, ...]]:
    """Logs in to ``host`` and starts the agent; the bytes between, its hello, and warnings for the operator.

    ``config``: the ssh_config files instead of the usual ones. Raises HostError, always within bounded time.
    """
    destination = resolve(
        host.name, host.address or host.name, user=host.user, port=host.port,
        identity_file=str(host.identity_file.expanduser()) if host.identity_file else None, files=config)
    warnings = list(destination.warnings)
    try:
        with ExitStack() as stack:
            transport, passwords = _way(destination, ask, stack, warnings.append)
            login = bootstrap.Login(host.name, destination.user, destination.target, host.become, passwords)
            stream, hello = _start(transport, destination, login, bundle, ask, stack)
            return stream, hello, tuple(warnings)
    except HostError as error:
        # What was not understood of the configuration may be the very reason.
        error.hint = "\n".join([error.hint, *(f"note: {warning}" for warning in warnings)])
        raise
    except (OSError, EOFError, ssh.load().SSHException) as error:
        # What no stage has words for: a connection that breaks between two of them, for instance.
        raise ConnectError(
            host.name, f"the SSH connection failed: {str(error) or type(error).__name__}",
            hint=f"try `ssh -v {destination.target} true`") from None


def _start(
    transport: Any, destination: Destination, login: bootstrap.Login, bundle: Callable[[], Bundle], ask: Ask,
    stack: ExitStack,
) -> tuple[Stream, Hello]:
    """The agent, on a terminal where sudo works on nothing else. The connection then belongs to the stream."""
    for terminal in (False, True):
        mark = bootstrap.new_mark()
        command = bootstrap.command(mark, bundle().hash, login.become, terminal)
        try:
            opened = channel.run(transport, command, terminal, CHANNEL_SECONDS)
        except ssh.load().SSHException as error:
            raise ConnectError(
                login.host, f"{destination.where} opens no channel for a command (stage: opening a channel): {error}",
                hint=f"try `ssh {login.target} true`") from None
        finish = _Finish(stack)
        stream = channel.ChannelStream(
            transport, opened, finish, destination.alive_interval or KEEPALIVE_SECONDS, destination.silence)
        try:
            hello = bootstrap.greet(stream, mark, bundle(), login, ask)
        except bootstrap.NeedsTerminal:
            opened.close()
            continue
        finish.stack = stack.pop_all()
        return stream, hello
    raise SudoError(
        login.host, "sudo wants a terminal, and does not take the one it was given",
        hint=f"take `Defaults requiretty` out of the sudoers there, or try `ssh -t {login.target} sudo true`")


class _Finish:
    """Ends the connection once, from any thread."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.stack.close()


def _way(
    destination: Destination, ask: Ask, stack: ExitStack, warn: Callable[[str], None]
) -> tuple[Any, bool]:
    """The transport to ``destination``, by way of its jump hosts, logged in; whether it may be sent a password."""
    transport: Any = None
    passwords = True
    hops = (*destination.jumps, replace(destination, jumps=()))
    for hop in hops:
        shown = replace(hop, jumps=destination.jumps) if hop is hops[-1] else hop
        transport, passwords = _hop(shown, transport, ask, stack, warn)
    return transport, passwords


def _hop(
    hop: Destination, before: Any, ask: Ask, stack: ExitStack, warn: Callable[[str], None]
) -> tuple[Any, bool]:
    for attempt in range(BUSY_TRIES):
        if attempt:
            time.sleep(BUSY_SECONDS * 2 ** (attempt - 1) * random.uniform(0.8, 1.2))
        with ExitStack() as inner:
            try:
                return _established(hop, before, ask, inner, stack, warn)
            except _Busy as busy:
                words = str(busy)
    raise ConnectError(
        hop.name,
        f"{hop.where} closed the connection {BUSY_TRIES} times before it said anything (stage: SSH banner){words}",
        hint="the server is overloaded or turns this machine away (MaxStartups, PerSourcePenalties, tcp wrappers, "
             f"a firewall): try `ssh -v {hop.target} true` later")


def _established(
    hop: Destination, before: Any, ask: Ask, inner: ExitStack, outer: ExitStack, warn: Callable[[str], None]
) -> tuple[Any, bool]:
    way = None
    if before is None:
        way = reach(hop)
        inner.callback(way.close)
        sock: Any = way.sock
    else:
        sock = _through(hop, before)
        inner.callback(sock.close)
    check = HostCheck(hop, direct=before is None and not hop.proxy_command)
    transport = ssh.new(sock)
    inner.callback(ssh.end, transport)
    _handshake(transport, hop, check, way)
    passwords = check.check(transport.host_blob, warn)
    ahead()
    authenticate(transport, hop, ask, passwords=passwords)
    outer.push(inner.pop_all())
    return transport, passwords


def _through(hop: Destination, before: Any) -> Any:
    """A socket-like channel from the host before to this one."""
    try:
        return before.open_channel(
            "direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=hop.connect_timeout)
    except (ssh.load().SSHException, EOFError, OSError) as error:
        words = getattr(error, "text", "") or str(error) or type(error).__name__
        raise ConnectError(
            hop.name, f"the jump host does not connect to {hop.where} (stage: TCP, by way of the jump host): {words}",
            hint=f"try `ssh {hop.target} true`; a jump host needs AllowTcpForwarding") from None


def _handshake(transport: Any, hop: Destination, check: HostCheck, way: Way | None) -> None:
    """Banner and key exchange; raises ConnectError, and _Busy when the server hangs up before its banner."""
    _choose_algorithms(transport, hop, check)
    transport.banner_timeout = transport.handshake_timeout = hop.connect_timeout
    done = threading.Event()
    begun = time.monotonic()
    transport.start_client(event=done)
    limit = 2 * hop.connect_timeout + 2
    while not done.wait(0.1) and transport.is_active() and time.monotonic() - begun < limit:
        pass
    if transport.is_active() and transport.initial_kex_done:
        return
    error = transport.get_exception()
    said = f": {way.words()}" if way and way.words() else ""
    elapsed = time.monotonic() - begun
    if not transport.remote_version:
        if elapsed < hop.connect_timeout - 0.5 and _hung_up(error):
            if way and said:
                raise ConnectError(hop.name, f"the ProxyCommand ended (stage: SSH banner){said}",
                                   hint=f"try it by hand: {hop.proxy_command}")
            raise _Busy(said)
        words = f"sent no SSH banner within {hop.connect_timeout:.0f} s"
        if error is not None and elapsed < hop.connect_timeout - 0.5:
            words = f"is no SSH server ({str(error)[:200]})"
        raise ConnectError(hop.name, f"{hop.where} {words} (stage: SSH banner){said}",
                           hint=f"see what listens there: `nc {hop.host} {hop.port}`")
    raise ConnectError(
        hop.name, f"{hop.where} {_kex_words(transport, error, elapsed, hop)} (stage: key exchange){said}",
        hint=f"try `ssh -v {hop.target} true`")


def _hung_up(error: BaseException | None) -> bool:
    return error is None or isinstance(error, (EOFError, ConnectionError)) or "banner" in str(error).lower()


def _kex_words(transport: Any, error: BaseException | None, elapsed: float, hop: Destination) -> str:
    if isinstance(error, ssh.load().IncompatiblePeer):
        return f"and this client have no algorithm in common: {error}"
    if elapsed >= hop.connect_timeout - 0.5:
        return f"did not finish the key exchange within {hop.connect_timeout:.0f} s"
    words = str(error) if error is not None and str(error) else "the connection ended"
    return f"broke off: {words[:200]}"


def _choose_algorithms(transport: Any, hop: Destination, check: HostCheck) -> None:
    options = transport.get_security_options()
    lists = {
        "kex": algorithms.choose(hop.kex, options.kex),
        "ciphers": algorithms.choose(hop.ciphers, options.ciphers),
        "digests": algorithms.choose(hop.macs, options.digests),
        "key_types": check.order([*[name for name in transport._key_info if name.endswith("@openssh.com")],
                                  *options.key_types]),
    }
    for name, chosen in lists.items():
        if not chosen:
            raise ConnectError(hop.name, f"none of the {name} that ssh_config asks for {hop.original} is supported",
                               hint="widen KexAlgorithms, Ciphers, MACs or HostKeyAlgorithms for this host")
        setattr(options, name, tuple(chosen))


