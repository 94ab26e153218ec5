"""sudo as it is met on real hosts: with and without a password, with a lecture, on a terminal only, broken, absent."""

from __future__ import annotations

import pytest

from deployer.errors import SudoError
from deployer.remote import bootstrap
from deployer.remote.bundle import bundle
from deployer.remote.stream import PipeStream
from tests.hosts.bed import Host, Operator
from tests.hosts.bed.host import ENVIRONMENT
from tests.hosts.sshing import PASSWORD, Answers, Line


@pytest.fixture
def line(host: Host, operator: Operator) -> Line:
    return Line(host, operator)


def sudoers(host: Host, text: str, name: str = "test") -> None:
    host.write(f"/etc/sudoers.d/{name}", text + "\n", mode=0o440)


def test_root_sudo_without_and_with_a_password_and_none(line: Line) -> None:
    assert line.uid("root") == 0
    assert line.uid("admin") == 0
    ask = Answers(PASSWORD)
    assert line.uid("ops", ask) == 0
    assert line.uid("ops", ask) == 0, "asked once: the answer is kept"
    assert len(ask.asked) == 1
    assert line.uid("admin", become="none") == int(line.host.run("id -u admin").out)


def test_the_agents_folder_is_roots_alone(line: Line) -> None:
    line.host.unvisited()
    line.uid("admin")
    line.uid("ops", Answers(PASSWORD))
    found = line.host.run(
        f"stat -c '%U %a' /var/lib/deployer /var/lib/deployer/agent /var/lib/deployer/agent/{bundle().hash}; "
        "find /var/lib/deployer/agent -perm /077 | head -3; ls -A /var/lib/deployer/agent").out.split("\n")
    assert found[:3] == ["root 700"] * 3
    assert found[3:] == [bundle().hash, ""]


def test_a_wrong_password_then_the_right_one(line: Line) -> None:
    ask = Answers("wrong-password", PASSWORD)
    assert line.uid("ops", ask) == 0
    assert [question.kind for question in ask.asked] == ["sudo", "sudo"]


def test_wrong_passwords_only(line: Line) -> None:
    error = line.refused("ops", Answers("wrong-one", "wrong-two", "wrong-three", "wrong-four"))
    assert isinstance(error, SudoError) and "did not accept" in error.message
    assert error.exit_code == 3


def test_one_try_is_all_that_sudo_gives(line: Line) -> None:
    sudoers(line.host, "Defaults passwd_tries=1")
    error = line.refused("ops", Answers("wrong-one", "wrong-two"))
    assert isinstance(error, SudoError) and "did not accept" in error.message


def test_nobody_to_ask(line: Line) -> None:
    error = line.refused("ops")
    assert isinstance(error, SudoError) and "nobody to ask" in error.message


def test_a_lecture_each_time(line: Line) -> None:
    sudoers(line.host, "Defaults lecture=always")
    assert line.uid("ops", Answers(PASSWORD)) == 0
    line.host.write("/etc/lecture", "Password: this is no prompt\n[sudo] password for ops:\n")
    sudoers(line.host, "Defaults lecture=always, lecture_file=/etc/lecture")
    ask = Answers(PASSWORD)
    assert line.uid("ops", ask) == 0
    assert len(ask.asked) == 1


@pytest.mark.parametrize(("user", "answers"), [("admin", ()), ("ops", (PASSWORD,)), ("ops", ("wrong-one", PASSWORD))])
def test_on_a_terminal_only(line: Line, user: str, answers: tuple[str, ...]) -> None:
    sudoers(line.host, "Defaults requiretty")
    with line.open(user, Answers(*answers)) as session:
        assert session.hello.uid == 0
        text = {"text": "ü \x7f \x03 \x04 \n \r\n" + "x" * 10_000}
        assert session.call("ping", text)["echo"] == text, "the terminal changes no byte"


def test_with_a_terminal_of_its_own(line: Line) -> None:
    sudoers(line.host, "Defaults use_pty, log_output\nDefaults!/usr/bin/true !log_output")
    assert line.uid("admin") == 0
    sudoers(line.host, "Defaults use_pty, requiretty")
    assert line.uid("ops", Answers(PASSWORD)) == 0


def test_withdrawn(line: Line) -> None:
    assert line.uid("admin") == 0
    line.host.run("sed -i /^admin/d /etc/sudoers.d/bed")
    error = line.refused("admin", Answers(PASSWORD))
    assert isinstance(error, SudoError)
    assert "may not use sudo" in error.message or "did not accept" in error.message


def test_ops_is_not_in_sudoers(line: Line) -> None:
    line.host.run("sed -i /^ops/d /etc/sudoers.d/bed")
    error = line.refused("ops", Answers(PASSWORD))
    assert isinstance(error, SudoError) and ("may not" in error.message or "only some" in error.message)


def test_some_commands_only(line: Line) -> None:
    line.host.run("sed -i /^admin/d /etc/sudoers.d/bed")
    sudoers(line.host, "admin ALL=(root) NOPASSWD: /usr/bin/systemctl, /usr/bin/journalctl")
    error = line.refused("admin")
    assert isinstance(error, SudoError)


def test_a_password_for_some_commands_only(line: Line) -> None:
    line.host.run("sed -i /^ops/d /etc/sudoers.d/bed")
    sudoers(line.host, "ops ALL=(root) ALL\nops ALL=(root) NOPASSWD: /usr/bin/systemctl")
    assert line.uid("ops", Answers(PASSWORD)) == 0


def test_not_installed(line: Line) -> None:
    line.host.run("mv /usr/bin/sudo /usr/bin/sudo.off")
    error = line.refused("admin")
    assert isinstance(error, SudoError) and "not installed" in error.message


def test_broken(line: Line) -> None:
    line.host.run("chmod u-s /usr/bin/sudo")
    error = line.refused("admin")
    assert isinstance(error, SudoError) and "cannot become root" in error.message


def test_an_expired_account(line: Line) -> None:
    line.host.run("passwd --lock ops >/dev/null")
    error = line.refused("ops", Answers(PASSWORD, PASSWORD, PASSWORD, PASSWORD))
    assert isinstance(error, SudoError)


@pytest.mark.parametrize(("user", "answers"), [("admin", ()), ("ops", ("wrong-one", PASSWORD))])
def test_the_hosts_own_machine_without_ssh(host: Host, user: str, answers: tuple[str, ...]) -> None:
    """What ``local`` does, started on the host by one of its users."""
    mark = bootstrap.new_mark()
    words = ["runuser", "-u", user, "--", *bootstrap.argv(mark, bundle().hash, "sudo")]
    stream = PipeStream(host._enter(words, "env", "-i", *(f"{name}={value}" for name, value in ENVIRONMENT.items())))
    try:
        login = bootstrap.Login("local", user, "localhost")
        assert bootstrap.greet(stream, mark, bundle(), login, Answers(*answers)).uid == 0
    finally:
        stream.close()


def test_no_password_reaches_logs_of_the_host(line: Line) -> None:
    """What was typed went to sudo, and to nothing that writes it down."""
    canary = "canary-" + "9f3"
    line.host.run(f"echo 'ops:{canary}' | chpasswd")
    assert line.uid("ops", Answers("wrong-" + canary, canary)) == 0
    assert canary not in line.host.journal()
    assert line.host.run(f"grep -rl {canary} /var/log /var/lib/deployer /tmp /home", check=False).out == ""
