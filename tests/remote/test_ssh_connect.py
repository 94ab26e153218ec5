"""Connections to real SSH servers on loopback: keys, agents, certificates, host keys, jumps; and hosts that hang."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deployer.errors import AgentError, ConnectError, HostError, HostKeyError
from deployer.remote import authenticate, bootstrap, channel, connect, session
from deployer.remote.ask import Ask, Question
from deployer.remote.bundle import bundle
from deployer.remote.destination import resolve
from deployer.remote.session import Session
from deployer.settings.model import Host
from tests.remote.conftest import Sshd, keygen
from tests.remote.test_bootstrap import Answers

Start = Callable[..., Sshd]


class Client:
    """An operator with an ssh_config and a known_hosts of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known = folder / "known_hosts"
        self.config = folder / "ssh_config"
        self.known.touch()
        self.config.touch(mode=0o600)
        self.ask: Ask = Answers()
        self.warnings: list[str] = []

    def host(self, name: str, server: Sshd, *lines: str, known: bool = True) -> None:
        text = [f"Host {name}", f"HostName {server.address}", f"Port {server.port}",
                f"UserKnownHostsFile {self.known}", "GlobalKnownHostsFile none", *lines,
                "IdentityAgent none", "ConnectTimeout 5"]
        with self.config.open("a") as file:
            file.write("\n  ".join(text) + "\n")
        if known:
            with self.known.open("a") as file:
                file.write(server.known_line())

    def run(self, name: str, command: str) -> str:
        """Runs a command over a connection as ``connect`` makes it; its output."""
        self.warnings = []
        with ExitStack() as stack:
            destination = resolve(name, name, files=[self.config])
            transport, _ = connect._way(destination, self.ask, stack, self.warnings.append)
            opened = channel.run(transport, command, False, 10.0)
            stream = channel.ChannelStream(transport, opened, lambda: None, 15.0)
            output = b""
            while (chunk := stream.read(10.0)) and chunk.data:
                output += b"" if chunk.error else chunk.data
            return output.decode()

    def session(self, name: str) -> Session:
        host = Host(name)
        stream, hello, warnings = connect.connect(host, bundle, self.ask, [self.config])
        return Session(host, stream, hello, self.ask, warnings)

    def refused(self, name: str) -> HostError:
        with pytest.raises(HostError) as raised:
            self.run(name, "true")
        assert raised.value.host.startswith(name)
        assert raised.value.exit_code == 3 and raised.value.hint
        assert raised.value.state == "nothing was changed on the host"
        return raised.value


@pytest.fixture
def client(tmp_path: Path) -> Client:
    (tmp_path / "client").mkdir()
    return Client(tmp_path / "client")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """``agent(key, …)`` starts an ssh-agent that holds these keys; the path of its socket."""
    if not shutil.which("ssh-agent"):
        pytest.skip("no ssh-agent")
    started: list[subprocess.Popen[bytes]] = []

    def start(*keys: Path) -> Path:
        path = tmp_path / f"agent{len(started)}"
        started.append(subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL))
        until = time.monotonic() + 10
        with socket.socket(socket.AF_UNIX) as probe:
            while probe.connect_ex(str(path)) and time.monotonic() < until:
                time.sleep(0.01)
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], env={**os.environ, "SSH_AUTH_SOCK": str(path)}, check=True)
        return path

    yield start
    for process in started:
        process.terminate()
        process.wait(5)


# -- keys


@pytest.mark.parametrize(("kind", "words"), [
    ("ed25519", ()), ("ecdsa", ("-b", "256")), ("ecdsa", ("-b", "384")), ("ecdsa", ("-b", "521")),
    ("rsa", ("-b", "2048")), ("rsa", ("-b", "2048", "-m", "PEM")), ("ecdsa", ("-m", "PEM")),
])
def test_kinds_of_user_keys(sshd: Start, client: Client, tmp_path: Path, kind: str, words: tuple[str, ...]) -> None:
    key = keygen(tmp_path / "key", kind, "", *words)
    server = sshd()
    server.accept(key)
    client.host("a", server, f"IdentityFile {key}")
    assert client.run("a", "echo hi") == "hi\n"


@pytest.mark.parametrize("algorithm", ["rsa-sha2-256", "rsa-sha2-512"])
def test_rsa_with_either_sha2(sshd: Start, client: Client, tmp_path: Path, algorithm: str) -> None:
    key = keygen(tmp_path / "key", "rsa")
    server = sshd(f"PubkeyAcceptedAlgorithms {algorithm}\nHostKeyAlgorithms {algorithm}", host_kinds=("rsa",))
    server.accept(key)
    client.host("a", server, f"IdentityFile {key}")
    assert client.run("a", "echo hi") == "hi\n"


def test_an_algorithm_that_our_side_does_not_take_is_said(sshd: Start, client: Client, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key", "rsa")
    server = sshd()
    server.accept(key)
    client.host("a", server, f"IdentityFile {key}", "PubkeyAcceptedAlgorithms ssh-ed25519")
    assert "no algorithm that both sides take" in client.refused("a").message


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.parametrize("form", [(), ("-m", "PEM")])
def test_an_encrypted_key_is_asked_for_once_for_all_hosts(
    sshd: Start, client: Client, tmp_path: Path, kind: str, form: tuple[str, ...]
) -> None:
    if kind == "ed25519" and form:
        return                                       # OpenSSH has no PEM form for these
    key = keygen(tmp_path / "key", kind, "a passphrase", *form)
    ask = Answers("no", "a passphrase")
    client.ask = ask
    servers = [sshd(), sshd()]
    threads = []
    for number, server in enumerate(servers):
        server.accept(key)
        client.host(f"h{number}", server, f"IdentityFile {key}")
    said: list[str] = []
    for number in range(len(servers)):
        thread = threading.Thread(target=lambda n=number: said.append(client.run(f"h{n}", "echo hi")))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    assert said == ["hi\n", "hi\n"]
    assert [question.kind for question in ask.asked] == ["key", "key"], "once wrong, once right, for both hosts"
    assert str(key) in ask.asked[0].text


def test_no_passphrase_is_wanted_for_a_key_that_the_host_does_not_take(
    sshd: Start, client: Client, tmp_path: Path, user_key: Path
) -> None:
    locked = keygen(tmp_path / "locked", "ed25519", "secret")
    server = sshd()
    server.accept(user_key)
    client.host("a", server, f"IdentityFile {locked}", f"IdentityFile {user_key}")
    assert client.run("a", "echo hi") == "hi\n"
    assert isinstance(client.ask, Answers) and client.ask.asked == []


def test_nobody_gives_the_passphrase(sshd: Start, client: Client, tmp_path: Path) -> None:
    locked = keygen(tmp_path / "locked", "ed25519", "secret")
    server = sshd()
    server.accept(locked)
    client.host("a", server, f"IdentityFile {locked}")
    error = client.refused("a")
    assert f"nobody gave the passphrase of {locked}" in error.message
    client.ask = Answers("wrong-one", "wrong-two", "wrong-three")
    error = client.refused("a")
    assert "wrong-" not in f"{error.message}{error.hint}{error!r}"


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_the_agents_keys(sshd: Start, client: Client, agent: Callable[..., Path], tmp_path: Path, kind: str) -> None:
    other, key = keygen(tmp_path / "other"), keygen(tmp_path / "key", kind)
    server = sshd()
    server.accept(key)
    client.host("a", server, f"IdentityAgent {agent(other, key)}", "IdentityFile none")
    assert client.run("a", "echo hi") == "hi\n"


def test_identities_only_keeps_the_agents_other_keys_back(
    sshd: Start, client: Client, agent: Callable[..., Path], tmp_path: Path
) -> None:
    keys = [keygen(tmp_path / f"key{number}") for number in range(8)]
    server = sshd("MaxAuthTries 3")
    server.accept(keys[7])
    path = agent(*keys)
    client.host("many", server, f"IdentityAgent {path}", "IdentityFile none")
    error = client.refused("many")
    assert "too many" in error.message and "IdentitiesOnly" in error.hint
    keys[7].unlink()                                 # only the agent has it; the .pub file names it
    client.host("one", server, f"IdentityAgent {path}", f"IdentityFile {keys[7]}", "IdentitiesOnly yes", known=False)
    assert client.run("one", "echo hi") == "hi\n"


def test_an_agent_that_hangs_or_is_gone_does_not_hold_the_connection(
    sshd: Start, client: Client, tmp_path: Path, user_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployer.remote.sshagent.LIST_SECONDS", 0.3)
    server = sshd()
    server.accept(user_key)
    path = tmp_path / "silent"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        client.host("a", server, f"IdentityAgent {path}", f"IdentityFile {user_key}")
        assert client.run("a", "echo hi") == "hi\n"
    client.host("b", server, f"IdentityAgent {tmp_path / 'absent'}", f"IdentityFile {user_key}", known=False)
    assert client.run("b", "echo hi") == "hi\n"


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
@pytest.mark.parametrize("held_by", ["file", "agent", "named"])
def test_user_certificates(
    sshd: Start, client: Client, agent: Callable[..., Path], tmp_path: Path, me: str, kind: str, held_by: str
) -> None:
    authority, key = keygen(tmp_path / "ca"), keygen(tmp_path / "key", kind)
    subprocess.run(["ssh-keygen", "-q", "-s", str(authority), "-I", "id", "-n", me, f"{key}.pub"], check=True)
    server = sshd(f"TrustedUserCAKeys {authority}.pub")
    lines = [f"IdentityFile {key}"]
    if held_by == "agent":
        lines = [f"IdentityAgent {agent(key)}", "IdentityFile none"]
    if held_by == "named":
        Path(f"{key}-cert.pub").rename(tmp_path / "elsewhere.pub")
        lines.append(f"CertificateFile {tmp_path / 'elsewhere.pub'}")
    client.host("a", server, *lines)
    assert client.run("a", "echo hi") == "hi\n"


def test_a_refused_key_is_told_with_what_was_tried(sshd: Start, client: Client, user_key: Path) -> None:
    server = sshd()
    client.host("a", server, f"IdentityFile {user_key}")
    error = client.refused("a")
    assert isinstance(error, ConnectError)
    assert str(user_key) in error.message and "the server takes publickey" in error.message
    assert f"-p {server.port}" in error.hint


def test_a_damaged_key_file_is_told(sshd: Start, client: Client, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
    client.host("a", sshd(), f"IdentityFile {broken}")
    assert str(broken) in client.refused("a").message


def test_two_keys_are_wanted(sshd: Start, client: Client, tmp_path: Path) -> None:
    one, two = keygen(tmp_path / "one"), keygen(tmp_path / "two")
    server = sshd("AuthenticationMethods publickey,publickey")
    server.accept(one, two)
    client.host("a", server, f"IdentityFile {one}", f"IdentityFile {two}")
    assert client.run("a", "echo hi") == "hi\n"


# -- host keys


@pytest.fixture
def server(sshd: Start, user_key: Path) -> Sshd:
    made = sshd(host_kinds=("ed25519", "rsa", "ecdsa"))
    made.accept(user_key)
    return made


def test_unknown_then_the_command_then_known(server: Sshd, client: Client, user_key: Path) -> None:
    client.host("a", server, f"IdentityFile {user_key}", known=False)
    error = client.refused("a")
    assert isinstance(error, HostKeyError)
    subprocess.run(error.hint.splitlines()[-1], shell=True, check=True, stderr=subprocess.DEVNULL)
    assert client.run("a", "echo hi") == "hi\n"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_kind_that_is_known_is_asked_for(server: Sshd, client: Client, user_key: Path, number: int) -> None:
    client.host("a", server, f"IdentityFile {user_key}", known=False)
    client.known.write_text(server.known_line(number=number))
    assert client.run("a", "echo hi") == "hi\n"


def test_a_hashed_line(server: Sshd, client: Client, user_key: Path) -> None:
    client.host("a", server, f"IdentityFile {user_key}")
    subprocess.run(["ssh-keygen", "-H", "-f", str(client.known)], check=True, capture_output=True)
    assert "|1|" in client.known.read_text()
    assert client.run("a", "echo hi") == "hi\n"


def test_the_second_of_several_files(server: Sshd, client: Client, user_key: Path) -> None:
    client.host("a", server, f"IdentityFile {user_key}")
    first, second = client.folder / "first", client.folder / "with blank"
    client.known.rename(second)
    text = client.config.read_text().replace(str(client.known), f'{first} "{second}"')
    client.config.write_text(text)
    assert client.run("a", "echo hi") == "hi\n"


def test_an_alias(server: Sshd, client: Client, user_key: Path) -> None:
    client.host("a", server, f"IdentityFile {user_key}", "HostKeyAlias the-cluster", known=False)
    client.known.write_text(server.known_line(name="the-cluster"))
    assert client.run("a", "echo hi") == "hi\n"


def test_a_changed_key_then_the_commands_then_known(
    server: Sshd, client: Client, user_key: Path, tmp_path: Path
) -> None:
    client.host("a", server, f"IdentityFile {user_key}", known=False)
    kind, blob = Path(f"{keygen(tmp_path / 'other')}.pub").read_text().split()[:2]
    client.known.write_text(f"[{server.address}]:{server.port} {kind} {blob}\n")
    error = client.refused("a")
    assert isinstance(error, HostKeyError) and "has changed" in error.message
    subprocess.run(error.hint.splitlines()[-1], shell=True, check=True, capture_output=True)
    error = client.refused("a")
    assert "not known" in error.message
    subprocess.run(error.hint.splitlines()[-1], shell=True, check=True, stderr=subprocess.DEVNULL)
    assert client.run("a", "echo hi") == "hi\n"


def test_accept_new(server: Sshd, client: Client, user_key: Path) -> None:
    client.host("a", server, f"IdentityFile {user_key}", "StrictHostKeyChecking accept-new", "HashKnownHosts yes",
                known=False)
    assert client.run("a", "echo hi") == "hi\n"
    assert "is new" in client.warnings[0]
    assert client.known.read_text().startswith("|1|")
    assert client.run("a", "echo hi") == "hi\n"
    assert client.warnings == []


def test_a_revoked_key(server: Sshd, client: Client, user_key: Path) -> None:
    client.host("a", server, f"IdentityFile {user_key}", "StrictHostKeyChecking no")
    client.known.write_text(server.known_line() + server.known_line(name="*", marker="@revoked"))
    assert "revoked" in client.refused("a").message


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_a_host_certificate(sshd: Start, client: Client, user_key: Path, tmp_path: Path, kind: str) -> None:
    authority, key = keygen(tmp_path / "ca"), keygen(tmp_path / "hostkey", kind)
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-h", "-I", "id", "-n", "127.0.0.1,*.example.org"]
    subprocess.run([*sign, f"{key}.pub"], check=True)
    server = sshd(f"HostKey {key}", certificate=f"{key}-cert.pub")
    server.accept(user_key)
    client.host("a", server, f"IdentityFile {user_key}", known=False)
    authority_line = Path(f"{authority}.pub").read_text()
    client.known.write_text(f"@cert-authority [127.0.0.*]:{server.port} {authority_line}")
    assert client.run("a", "echo hi") == "hi\n"
    client.known.write_text(f"@cert-authority *.example.org {authority_line}")
    assert "not known" in client.refused("a").message, "an authority for others"
    client.known.write_text(f"@cert-authority * {authority_line}@revoked * {authority_line}")
    assert "revoked" in client.refused("a").message


@pytest.mark.parametrize(("words", "reason"), [
    (("-h", "-n", "other.example.org"), "is for other.example.org"),
    (("-h", "-n", "127.0.0.1", "-V", "20200101:20200102"), "not valid at this time"),
    (("-n", "127.0.0.1"), None),
])
def test_a_host_certificate_that_proves_nothing(
    sshd: Start, client: Client, user_key: Path, tmp_path: Path, words: tuple[str, ...], reason: str | None
) -> None:
    authority, key = keygen(tmp_path / "ca"), keygen(tmp_path / "hostkey")
    subprocess.run(["ssh-keygen", "-q", "-s", str(authority), "-I", "id", *words, f"{key}.pub"], check=True)
    server = sshd(f"HostKey {key}", certificate=f"{key}-cert.pub")
    server.accept(user_key)
    client.host("a", server, f"IdentityFile {user_key}", known=False)
    client.known.write_text(f"@cert-authority * {Path(f'{authority}.pub').read_text()}")
    message = client.refused("a").message
    assert "not known" in message
    if reason:                                       # sshd itself does not present one made for users
        assert reason in message


def test_ipv6(sshd: Start, client: Client, user_key: Path) -> None:
    try:
        server = sshd(address="::1")
    except OSError:
        pytest.skip("no IPv6 here")
    server.accept(user_key)
    client.host("a", server, f"IdentityFile {user_key}")
    client.host("[::1]", server, f"IdentityFile {user_key}", known=False)
    assert client.run("a", "echo hi") == "hi\n"
    with client.config.open("a") as file:
        file.write(f"Host ::1\n UserKnownHostsFile {client.known}\n IdentityFile {user_key}\n IdentityAgent none\n")
    assert client.run(f"[::1]:{server.port}", "echo hi") == "hi\n"


# -- the way there


def test_a_chain_of_jump_hosts(sshd: Start, client: Client, user_key: Path) -> None:
    servers = [sshd(), sshd(), sshd()]
    for number, made in enumerate(servers):
        made.accept(user_key)
        client.host(f"h{number}", made, f"IdentityFile {user_key}", *(["ProxyJump h0,h1"] if number == 2 else []))
    assert client.run("h2", "echo $SSH_CONNECTION").split()[3] == str(servers[2].port)
    assert all("Accepted publickey" in made.log.read_text() for made in servers)


def test_a_jump_hosts_own_troubles_are_told_as_its(sshd: Start, client: Client, user_key: Path) -> None:
    jump, inner = sshd(), sshd()
    inner.accept(user_key)
    client.host("jump", jump, f"IdentityFile {user_key}")
    client.host("a", inner, f"IdentityFile {user_key}", "ProxyJump jump")
    error = client.refused("a")
    assert error.host == "a: jump host jump" and "did not let" in error.message
    jump.accept(user_key)
    inner.stop()
    assert "jump host does not connect" in client.refused("a").message


def test_a_jump_host_without_forwarding(sshd: Start, client: Client, user_key: Path) -> None:
    jump, inner = sshd("AllowTcpForwarding no"), sshd()
    for made in (jump, inner):
        made.accept(user_key)
    client.host("jump", jump, f"IdentityFile {user_key}")
    client.host("a", inner, f"IdentityFile {user_key}", "ProxyJump jump")
    error = client.refused("a")
    assert "prohibited" in error.message.lower() and "AllowTcpForwarding" in error.hint


@pytest.mark.skipif(not shutil.which("nc"), reason="no nc")
def test_a_proxycommand(server: Sshd, client: Client, user_key: Path) -> None:
    client.host("a", server, f"IdentityFile {user_key}", "ProxyCommand nc %h %p")
    assert client.run("a", "echo hi") == "hi\n"
    client.host("b", server, f"IdentityFile {user_key}", "ProxyCommand none", "ProxyJump bastion", known=False)
    assert client.run("b", "echo hi") == "hi\n"


@pytest.mark.parametrize(("command", "words"), [
    ("echo no route to the bastion >&2; exit 5", "no route to the bastion"),
    ("/nowhere/at/all", "/nowhere/at/all"),
])
def test_a_proxycommand_that_fails(server: Sshd, client: Client, command: str, words: str) -> None:
    client.host("a", server, f"ProxyCommand {command}")
    error = client.refused("a")
    assert "ProxyCommand" in error.message and words in error.message


def test_a_proxycommand_is_ended_with_the_connection(
    server: Sshd, client: Client, tmp_path: Path, user_key: Path
) -> None:
    pid = tmp_path / "pid"
    client.host("a", server, f"IdentityFile {user_key}", f"ProxyCommand sh -c 'echo $$ > {pid}; exec sleep 600'",
                "ConnectTimeout 1")
    assert "stage: SSH banner" in client.refused("a").message
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_the_address_that_it_comes_from(server: Sshd, client: Client, user_key: Path) -> None:
    client.host("a", server, f"IdentityFile {user_key}", "BindAddress 127.0.0.2", "AddressFamily inet")
    assert client.run("a", "echo $SSH_CONNECTION").split()[0] == "127.0.0.2"


@pytest.mark.parametrize("line", [
    "KexAlgorithms diffie-hellman-group14-sha256", "KexAlgorithms -curve*,mlkem*", "Ciphers aes256-gcm@openssh.com",
    "MACs hmac-sha2-512-etm@openssh.com", "Ciphers ^aes256-ctr", "HostKeyAlgorithms rsa-sha2-512",
])
def test_algorithms_of_the_configuration(server: Sshd, client: Client, user_key: Path, line: str) -> None:
    client.host("a", server, f"IdentityFile {user_key}", line, known=False)
    client.known.write_text("".join(server.known_line(number=number) for number in range(3)))
    assert client.run("a", "echo hi") == "hi\n"


def test_no_algorithm_in_common(sshd: Start, client: Client, user_key: Path) -> None:
    server = sshd("Ciphers chacha20-poly1305@openssh.com")
    client.host("a", server, f"IdentityFile {user_key}")
    assert "no algorithm in common" in client.refused("a").message
    client.host("b", server, "Ciphers chacha20-poly1305@openssh.com", known=False)
    assert "none of the ciphers" in client.refused("b").message


# -- hosts that are not there, or hang


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen(50)
        yield made


def plain(client: Client, port: int, *lines: str) -> None:
    client.config.write_text("\n ".join([
        "Host a", "HostName 127.0.0.1", f"Port {port}", "ConnectTimeout 1", "IdentityAgent none",
        f"UserKnownHostsFile {client.known}", *lines]) + "\n")


def test_nobody_listens(client: Client, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    plain(client, port)
    error = client.refused("a")
    assert "stage: TCP" in error.message and "refused" in error.message


def test_a_name_that_is_none(client: Client) -> None:
    error = client.refused("no-such-host.invalid")
    assert "could not be resolved" in error.message


def test_several_attempts_are_made(client: Client, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    port = listener.getsockname()[1]
    listener.close()
    waits: list[float] = []
    monkeypatch.setattr("deployer.remote.reach.time.sleep", waits.append)
    plain(client, port, "ConnectionAttempts 4")
    client.refused("a")
    assert waits == [1.0, 1.0, 1.0]


def test_a_host_that_does_not_answer_tcp(client: Client) -> None:
    """A full queue of unaccepted connections looks like a host that drops packets."""
    with socket.socket() as full, ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        plain(client, full.getsockname()[1])
        begun = time.monotonic()
        error = client.refused("a")
        assert time.monotonic() - begun < 4
    assert "no answer within 1 s" in error.message and "stage: TCP" in error.message


def serve_once(listener: socket.socket, greeting: bytes, hold: bool) -> threading.Thread:
    def run() -> None:
        held = []
        while True:
            try:
                connection, _ = listener.accept()
                connection.sendall(greeting)
            except OSError:
                return
            if hold:
                held.append(connection)
            else:
                connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(("greeting", "stage"), [
    (b"", "SSH banner"),
    (b"SSH-2.0-Hangs\r\n", "key exchange"),
    (b"220 mail.example.org ESMTP\r\n" * 100, "SSH banner"),
    (b"SSH-1.5-Old\r\n", "key exchange"),
])
def test_a_server_that_hangs_or_is_none(client: Client, listener: socket.socket, greeting: bytes, stage: str) -> None:
    serve_once(listener, greeting, hold=True)
    plain(client, listener.getsockname()[1])
    begun = time.monotonic()
    error = client.refused("a")
    assert time.monotonic() - begun < 6
    assert f"stage: {stage}" in error.message


def test_after_a_failure_nothing_keeps_the_process_alive(client: Client, listener: socket.socket) -> None:
    serve_once(listener, b"SSH-2.0-Hangs\r\n", hold=True)
    plain(client, listener.getsockname()[1])
    client.refused("a")
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)


def test_a_server_that_turns_away_is_tried_again_a_few_times(
    client: Client, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("deployer.remote.connect.time.sleep", waits.append)
    serve_once(listener, b"", hold=False)
    plain(client, listener.getsockname()[1])
    error = client.refused("a")
    assert "5 times" in error.message and "MaxStartups" in error.hint
    assert len(waits) == 4 and sum(waits) < 8
    assert waits == sorted(waits)


def test_max_startups_is_waited_out(sshd: Start, client: Client, user_key: Path) -> None:
    server = sshd("MaxStartups 1\nLoginGraceTime 1")
    server.accept(user_key)
    client.host("a", server, f"IdentityFile {user_key}")
    with socket.create_connection((server.address, server.port)):
        assert client.run("a", "echo hi") == "hi\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="AuthorizedKeysCommand must be root's")
def test_a_server_that_hangs_at_authentication(
    sshd: Start, client: Client, user_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticate, "SECONDS", 1.0)
    server = sshd("AuthorizedKeysCommand /bin/sleep 30\nAuthorizedKeysCommandUser root")
    client.host("a", server, f"IdentityFile {user_key}")
    begun = time.monotonic()
    error = client.refused("a")
    assert "stage: authentication" in error.message
    assert time.monotonic() - begun < 5


def test_a_login_that_hangs_is_given_up(
    sshd: Start, client: Client, user_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "SILENCE", 1.0)
    server = sshd("ForceCommand sleep 30")
    server.accept(user_key)
    client.host("a", server, f"IdentityFile {user_key}")
    with pytest.raises(ConnectError, match="stage: login shell"):
        client.session("a")


def test_noise_without_end_does_not_keep_a_host_alive(
    sshd: Start, client: Client, user_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "SILENCE", 3.0)
    server = sshd("ForceCommand while :; do echo noise; sleep 0.1; done")
    server.accept(user_key)
    client.host("a", server, f"IdentityFile {user_key}")
    with pytest.raises(ConnectError, match=r"stage: login shell.*noise"):
        client.session("a")


# -- sessions


@pytest.fixture
def ready(server: Sshd, client: Client, user_key: Path) -> Client:
    client.host("a", server, f"IdentityFile {user_key}")
    return client


def test_a_session_and_its_agent(ready: Client, agent_folder: Path) -> None:
    with ready.session("a") as made:
        assert made.hello.hash == bundle().hash
        assert made.call("ping", {"n": 1})["echo"] == {"n": 1}
        pid = made.hello.pid
    assert (agent_folder / bundle().hash).is_dir()
    until = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists(), "nothing is left running"


def test_the_agent_travels_once(ready: Client, fresh_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    write = channel.ChannelStream.write
    monkeypatch.setattr(channel.ChannelStream, "write",
                        lambda self, data, timeout: (sent.append(len(data)), write(self, data, timeout))[1])
    for _ in range(2):
        with ready.session("a") as made:
            made.call("ping")
    assert (fresh_folder / bundle().hash).is_dir()
    assert len(sent) == 3 and sent[0] > 10_000 > max(sent[1:])


def test_many_sessions_in_threads(ready: Client, fresh_folder: Path) -> None:
    said: list[int] = []

    def work(number: int) -> None:
        with ready.session("a") as made:
            said.extend(made.call("ping", {"n": number * 10 + turn})["echo"]["n"] for turn in range(5))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [number * 10 + turn for number in range(6) for turn in range(5)]


def test_a_connection_that_is_cut_is_told_with_the_state(ready: Client, server: Sshd) -> None:
    made = ready.session("a")
    made.call("ping")
    [child] = re.findall(r"\d+", Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text())[:1]
    grandchildren = re.findall(r"\d+", Path(f"/proc/{child}/task/{child}/children").read_text())
    for pid in (child, *grandchildren):
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    with pytest.raises(AgentError) as raised:
        made.call("transact", {})
    assert "connection broke during transact" in raised.value.message
    assert "rolls back by itself" in raised.value.state
    assert raised.value.hint == "deployer status a"
    begun = time.monotonic()
    made.close()
    assert time.monotonic() - begun < 1


def test_an_agent_that_stands_still_is_given_up(ready: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SILENCE", 0.5)
    made = ready.session("a")
    os.kill(made.hello.pid, signal.SIGSTOP)
    try:
        with pytest.raises(AgentError, match="no sign of life"):
            made.call("ping")
    finally:
        os.kill(made.hello.pid, signal.SIGKILL)


def test_close_from_another_thread_wakes_the_reader(ready: Client) -> None:
    made = ready.session("a")
    os.kill(made.hello.pid, signal.SIGSTOP)
    try:
        timer = threading.Timer(0.3, made.close)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(AgentError, match="session was closed"):
            made.call("ping")
        assert time.monotonic() - begun < 3
    finally:
        os.kill(made.hello.pid, signal.SIGKILL)


def test_warnings_of_the_configuration_reach_the_session(ready: Client) -> None:
    with ready.config.open("a") as file:
        file.write("Host *\n KnownHostsCommand /bin/echo\n")
    with ready.session("a") as made:
        assert "knownhostscommand" in made.warnings[0]


def test_they_reach_the_error_too_where_they_may_be_the_reason(ready: Client) -> None:
    with ready.config.open("a") as file:
        file.write("Host *\n KnownHostsCommand /bin/echo\n")
    ready.known.write_text("")
    with pytest.raises(HostKeyError, match="not known") as raised:
        ready.session("a")
    assert "knownhostscommand" in raised.value.hint.splitlines()[-1]


def test_nothing_is_logged_and_no_secret_is_shown(
    sshd: Start, client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key = keygen(tmp_path / "key", "ed25519", "the-passphrase")
    server = sshd()
    server.accept(key)
    client.host("a", server, f"IdentityFile {key}")
    client.ask = Answers("the-passphrase")
    assert client.run("a", "echo hi") == "hi\n"
    server.accept()
    error = client.refused("a")
    captured = capfd.readouterr()
    assert captured.err == "" and captured.out == ""
    assert "the-passphrase" not in f"{error.message}{error.hint}{error!r}{client.ask!r}"
    assert "the-passphrase" not in repr(Question("key", str(key), "Passphrase: "))
