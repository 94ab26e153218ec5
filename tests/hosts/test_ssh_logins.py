"""Logins as they are met on real hosts: noise, odd shells and locales, no Python, no home, no room; and cut lines."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator

import pytest

from deployer.errors import AgentError, ConnectError
from deployer.remote import session as sessions
from deployer.remote.bundle import bundle
from tests.hosts.bed import Host, Operator
from tests.hosts.sshing import PASSWORD, Answers, Line

AGENT = "/var/lib/deployer/agent"


CONFIGURED = "/etc/ssh/sshd_config.d/00-test.conf"


@pytest.fixture
def line(host: Host, operator: Operator) -> Iterator[Line]:
    yield Line(host, operator)
    if host.machine.running and host.exists(CONFIGURED):
        host.run(f"rm {CONFIGURED}; systemctl restart ssh")


def sshd(host: Host, text: str) -> None:
    """Gives sshd further settings until the end of the test; it is up again when this returns."""
    host.write(CONFIGURED, text + "\n")
    host.run("systemctl restart ssh")


def test_noise_at_login(line: Line) -> None:
    noise = "echo Welcome; printf 'no newline'; echo '{\"v\":1}'; echo trouble >&2; cat /etc/motd; fortune\n"
    line.host.write("/etc/motd", "a motd\n" * 100)
    line.host.write("/home/admin/.bashrc", noise, owner="admin:admin")
    line.host.write("/home/ops/.bashrc", noise, owner="ops:ops")
    line.host.write("/etc/banner", "Authorized use only.\n")
    sshd(line.host, "Banner /etc/banner\nPrintMotd yes")
    assert line.uid("admin") == 0
    assert line.uid("ops", Answers(PASSWORD)) == 0


@pytest.mark.parametrize("shell", ["dash", "rbash"])
def test_other_login_shells(line: Line, shell: str) -> None:
    line.host.run(f"ln -sf bash /usr/bin/rbash; usermod --shell /usr/bin/{shell} admin")
    assert line.uid("admin") == 0


def test_a_login_that_is_none(line: Line) -> None:
    line.host.run("usermod --shell /usr/sbin/nologin admin")
    error = line.refused("admin")
    assert isinstance(error, ConnectError) and "not available" in error.message


def test_another_locale(line: Line) -> None:
    line.host.write("/home/admin/.bashrc", "export LANG=tr_TR.ISO-8859-9 LC_ALL=tr_TR.ISO-8859-9 LANGUAGE=tr\n")
    line.host.write("/home/ops/.bashrc", "export LC_ALL=de_DE.ISO-8859-1\n")
    with line.open("admin") as session:
        assert session.call("ping", {"path": "/srv/Modelle-ü-模型"})["echo"] == {"path": "/srv/Modelle-ü-模型"}
    assert line.uid("ops", Answers(PASSWORD)) == 0


def test_no_python(line: Line) -> None:
    line.host.run("for f in /usr/bin/python3* /usr/local/bin/python3*; do [ -e $f ] && mv $f $f.off; done; true")
    error = line.refused("admin")
    assert isinstance(error, AgentError) and "no Python 3.9" in error.message
    assert "apt-get install python3" in error.hint


def test_python_too_old_and_a_newer_one_beside_it(line: Line) -> None:
    line.host.unvisited()
    real = line.host.run("readlink -f /usr/bin/python3").out.strip()
    old = "#!/bin/sh\ncase \"$*\" in *version.split*) echo 3.6.8;; *) exit 1;; esac\n"
    line.host.run("rm /usr/bin/python3")
    line.host.write("/usr/bin/python3", old, mode=0o755)
    assert line.uid("admin") == 0, "python3.11 beside it is taken"
    line.host.run(f"rm -r {AGENT}; mv {real} {real}.off")
    error = line.refused("admin")
    assert isinstance(error, AgentError) and "3.6.8" in error.message


def test_the_hosts_python_moves(line: Line) -> None:
    """After an upgrade of the host its agent is started by the new one."""
    assert line.uid("admin") == 0
    line.host.write(f"{AGENT}/{bundle().hash}/python", "/usr/bin/python3.8-gone\n", mode=0o600)
    assert line.uid("admin") == 0
    assert "gone" not in line.host.read(f"{AGENT}/{bundle().hash}/python")


def test_no_home_directory(line: Line) -> None:
    sshd(line.host, "AuthorizedKeysFile /etc/ssh/bed_authorized_keys")
    line.host.run("mv /home/admin /home/admin.off")
    assert line.uid("admin") == 0
    error = line.refused("admin", become="none")
    assert isinstance(error, AgentError) and "home directory" in error.hint


def test_as_the_user_alone(line: Line) -> None:
    with line.open("admin", become="none") as session:
        assert session.hello.uid != 0
    found = line.host.run("stat -c '%U %a' /home/admin/.cache/deployer/agent /home/admin/.cache/deployer").out
    assert found.split("\n")[:2] == ["admin 700", "admin 700"]
    line.host.run("chmod 777 /home/admin/.cache/deployer; rm -r /home/admin/.cache/deployer/agent")
    error = line.refused("admin", become="none")
    assert isinstance(error, AgentError) and "written by others" in error.message


def test_a_folder_of_another_users_is_not_run(line: Line) -> None:
    line.uid("admin", become="none")
    line.host.run("chown -R ops /home/admin/.cache/deployer/agent")
    error = line.refused("admin", become="none")
    assert isinstance(error, AgentError)


def test_tmp_without_exec(line: Line) -> None:
    line.host.run("mount -t tmpfs -o noexec,nosuid none /tmp; mount -t tmpfs -o noexec none /var/tmp")
    assert line.uid("admin") == 0
    assert line.uid("admin", become="none") != 0


@pytest.mark.parametrize("kib", [0, 200])
def test_a_full_disk(line: Line, kib: int) -> None:
    line.host.unvisited()
    with line.host.small_disk("/var/lib", kib=kib):
        error = line.refused("admin")
        assert isinstance(error, AgentError) and "No space left" in error.message and "df" in error.hint
        left = line.host.run(f"ls -A {AGENT} 2>/dev/null", check=False).out.split()
        assert left == []
    assert line.uid("admin") == 0


def test_a_disk_that_cannot_be_written(line: Line) -> None:
    line.host.unvisited()
    with line.host.read_only("/var/lib"):
        error = line.refused("admin")
        assert isinstance(error, AgentError) and "Read-only" in error.message


def test_an_unfinished_folder_never_runs(line: Line) -> None:
    line.host.unvisited()
    folder = f"{AGENT}/{bundle().hash}"
    line.host.run(f"mkdir -p -m 700 {folder}/deployer/agent; chmod 700 /var/lib/deployer {AGENT}")
    line.host.write(f"{folder}/__main__.py", "print('half written')\n", mode=0o600)
    assert line.uid("admin") == 0


def test_the_connection_is_cut_and_comes_back(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SILENCE", 1.5)
    session = line.open("admin")
    session.call("ping")
    line.host.network.cut()
    begun = time.monotonic()
    with pytest.raises(AgentError) as raised:
        session.call("transact", {})
    assert time.monotonic() - begun < 4
    assert "no sign of life" in raised.value.message and "by itself" in raised.value.state
    begun = time.monotonic()
    session.close()
    assert time.monotonic() - begun < 1
    line.host.network.restore()
    assert line.uid("admin") == 0


def test_a_host_without_power(line: Line) -> None:
    line.host.power_cut()
    begun = time.monotonic()
    error = line.refused("root")
    assert isinstance(error, ConnectError) and "stage: TCP" in error.message
    assert time.monotonic() - begun < 20


def test_an_idle_host_keeps_nothing_running(line: Line) -> None:
    session = line.open("admin")
    assert line.host.pids("deployer/agent")
    session.close()
    until = time.monotonic() + 5
    while line.host.pids("deployer/agent") and time.monotonic() < until:
        time.sleep(0.02)
    assert line.host.pids("deployer/agent") == []


@pytest.mark.parametrize("method", ["PasswordAuthentication", "KbdInteractiveAuthentication"])
def test_a_password_instead_of_a_key(line: Line, method: str) -> None:
    other = "KbdInteractiveAuthentication" if method == "PasswordAuthentication" else "PasswordAuthentication"
    sshd(line.host, f"PubkeyAuthentication no\nUsePAM yes\n{method} yes\n{other} no")
    ask = Answers("wrong-one", PASSWORD, PASSWORD)
    assert line.uid("ops", ask) == 0
    assert [question.kind for question in ask.asked] == ["ssh-password", "ssh-password", "sudo"]
    error = line.refused("ops", Answers("wrong-a", "wrong-b", "wrong-c", "wrong-d"))
    assert isinstance(error, ConnectError) and "did not let" in error.message


def test_what_a_session_costs(line: Line) -> None:
    """Connect, sudo, hello and one answer, against ``ssh HOST true``: medians of several, taken in turn."""
    line.uid("admin")
    ours, theirs = [], []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run(["ssh", "-F", str(line.operator.config), "-l", "admin", line.host.name, "true"], check=True,
                       env={**os.environ, "SSH_AUTH_SOCK": ""})
        theirs.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        line.uid("admin")
        ours.append(time.perf_counter() - begun)
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"session {statistics.median(ours):.3f} s, ssh true {statistics.median(theirs):.3f} s, ratio {ratio:.2f}")
    assert ratio < 3


def test_another_agent_beside_it_is_kept(line: Line) -> None:
    line.uid("root")
    for number in range(1, 5):
        line.host.run(f"cp -a {AGENT}/{bundle().hash} {AGENT}/{str(number) * 32}; "
                      f"touch -d '2020-01-0{number}' {AGENT}/{str(number) * 32}")
    line.host.run(f"rm -r {AGENT}/{bundle().hash}")
    line.uid("root")
    assert sorted(line.host.run(f"ls {AGENT}").out.split()) == sorted(["3" * 32, "4" * 32, bundle().hash])
