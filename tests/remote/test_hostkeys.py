"""known_hosts: every form of a line, what is said of a key, and the commands to type."""

from __future__ import annotations

import base64
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from deployer.errors import HostKeyError
from deployer.remote import algorithms, hostkeys, wire
from deployer.remote.destination import Destination
from deployer.remote.hostcheck import HostCheck
from deployer.remote.hostkeys import Standing, judge, lookup_names, read

ED, RSA = "ssh-ed25519", "ssh-rsa"


def blob(kind: str, text: str) -> bytes:
    return wire.string(kind) + wire.string(text)


def line(names: str, kind: str, text: str, marker: str = "") -> str:
    return f"{marker + ' ' if marker else ''}{names} {kind} {base64.b64encode(blob(kind, text)).decode()} comment\n"


@pytest.fixture
def known(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


def standing(known: Path, host: str, port: int, kind: str, text: str, alias: str | None = None) -> Standing:
    return judge(read([str(known)]), lookup_names(host, port, alias), kind, blob(kind, text)).standing


@pytest.mark.parametrize(("names", "host", "port", "is_it"), [
    ("gpu1", "gpu1", 22, True),
    ("gpu1", "GPU1", 22, True),
    ("Gpu1", "gpu1", 22, True),
    ("gpu1", "gpu1", 2222, True),
    ("[gpu1]:2222", "gpu1", 2222, True),
    ("[gpu1]:2222", "gpu1", 22, False),
    ("[gpu1]:2222", "gpu1", 2223, False),
    ("gpu1,192.0.2.1", "192.0.2.1", 22, True),
    ("*.example.org,!bad.example.org", "a.example.org", 22, True),
    ("*.example.org,!bad.example.org", "bad.example.org", 22, False),
    ("gpu?", "gpu7", 22, True),
    ("2001:db8::1", "2001:db8::1", 22, True),
    ("[2001:db8::1]:2222", "2001:db8::1", 2222, True),
    ("[2001:db8::1]:2222", "2001:db8::1", 22, False),
])
def test_names(known: Path, names: str, host: str, port: int, is_it: bool) -> None:
    known.write_text(line(names, ED, "right"))
    assert standing(known, host, port, ED, "right") is (Standing.KNOWN if is_it else Standing.UNKNOWN)


def test_a_different_key_of_the_same_kind_has_changed(known: Path) -> None:
    known.write_text(line("gpu1", ED, "old"))
    assert standing(known, "gpu1", 22, ED, "new") is Standing.CHANGED
    assert standing(known, "gpu1", 22, RSA, "new") is Standing.UNKNOWN, "another kind is not a change"


def test_the_bare_name_says_nothing_against_another_port(known: Path) -> None:
    known.write_text(line("gpu1", ED, "that of port 22"))
    assert standing(known, "gpu1", 2222, ED, "new") is Standing.UNKNOWN


def test_one_of_several_lines_is_enough(known: Path) -> None:
    known.write_text(line("gpu1", ED, "old") + line("gpu1", ED, "right"))
    assert standing(known, "gpu1", 22, ED, "right") is Standing.KNOWN


def test_an_alias_is_the_only_name(known: Path) -> None:
    known.write_text(line("gpu1", ED, "right"))
    assert standing(known, "gpu1", 2222, ED, "right", alias="cluster") is Standing.UNKNOWN
    known.write_text(line("cluster", ED, "right"))
    assert standing(known, "gpu1", 2222, ED, "right", alias="Cluster") is Standing.KNOWN


def test_a_revoked_key_outweighs_a_known_one(known: Path) -> None:
    known.write_text(line("gpu1", ED, "right") + line("*", ED, "right", "@revoked"))
    assert standing(known, "gpu1", 22, ED, "right") is Standing.REVOKED


def test_broken_lines_are_passed_over(known: Path) -> None:
    known.write_text(f"# words\n\ngpu1\ngpu1 {ED}\ngpu1 {ED} !!!\n@odd gpu1 {ED} AAAA\n|1|x|y {ED} AAAA\n"
                     + line("gpu1", ED, "right"))
    assert standing(known, "gpu1", 22, ED, "right") is Standing.KNOWN


def test_several_files_and_absent_ones(tmp_path: Path) -> None:
    (tmp_path / "b").write_text(line("gpu1", ED, "right"))
    entries = read([str(tmp_path / "a"), str(tmp_path / "b")])
    assert judge(entries, ["gpu1"], ED, blob(ED, "right")).standing is Standing.KNOWN


@pytest.mark.parametrize("name", ["gpu1", "[gpu1]:2222", "[2001:db8::1]:2222"])
def test_what_is_added_is_found_by_us_and_by_ssh(known: Path, name: str) -> None:
    known.write_text("# no newline at the end")
    hostkeys.add(str(known), name, ED, blob(ED, "plain"), hashed=False)
    hostkeys.add(str(known), name, RSA, blob(RSA, "hashed"), hashed=True)
    entries = read([str(known)])
    assert [entry.names_host(name) for entry in entries] == [True, True]
    assert entries[1].names[0].startswith("|1|")
    if shutil.which("ssh-keygen"):
        ran = subprocess.run(["ssh-keygen", "-F", name, "-f", str(known)], capture_output=True, text=True, check=True)
        assert ran.stdout.count("found: line") == 2


def test_a_new_file_is_the_users_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "known_hosts"
    hostkeys.add(str(file), "a", ED, blob(ED, "x"), hashed=False)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_many_threads_add_whole_lines(known: Path) -> None:
    threads = [threading.Thread(target=hostkeys.add, args=(str(known), f"h{n}", ED, blob(ED, str(n)), False))
               for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entry.names[0] for entry in read([str(known)])) == sorted(f"h{n}" for n in range(20))


# -- the check as a whole


def check(known: Path, key: bytes, direct: bool = True, **settings: object) -> tuple[bool, list[str]]:
    values: dict[str, object] = {"known_hosts": (str(known),), "strict": "ask", **settings}
    target = Destination("gpu1", "gpu1", "192.0.2.1", 2222, "admin", **values)  # type: ignore[arg-type]
    warnings: list[str] = []
    return HostCheck(target, direct).check(key, warnings.append), warnings


@pytest.mark.parametrize("strict", ["ask", "yes"])
def test_an_unknown_key_is_refused_with_the_command(known: Path, strict: str) -> None:
    with pytest.raises(HostKeyError) as raised:
        check(known, blob(ED, "x"), strict=strict)
    assert raised.value.exit_code == 3
    assert "not known" in raised.value.message and hostkeys.fingerprint(blob(ED, "x")) in raised.value.message
    assert raised.value.hint.splitlines()[-1] == f"ssh-keyscan -p 2222 -t ed25519 192.0.2.1 >> {known}"


def test_by_way_of_a_jump_host_the_line_itself_is_given(known: Path) -> None:
    with pytest.raises(HostKeyError) as raised:
        check(known, blob(ED, "x"), direct=False)
    command = raised.value.hint.splitlines()[-1]
    assert subprocess.run(command, shell=True, check=True).returncode == 0
    assert check(known, blob(ED, "x")) == (True, [])


@pytest.mark.parametrize("name", ["known_hosts", "known hosts"])
def test_the_users_own_file_is_written_with_a_tilde_that_the_shell_expands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    file = tmp_path / ".ssh" / name
    with pytest.raises(HostKeyError) as raised:
        check(file, blob(ED, "x"), direct=False)
    command = raised.value.hint.splitlines()[-1]
    assert ">> ~/" in command
    subprocess.run(command, shell=True, check=True, cwd="/")
    assert check(file, blob(ED, "x")) == (True, [])


def test_under_an_alias_the_line_itself_is_given(known: Path) -> None:
    with pytest.raises(HostKeyError) as raised:
        check(known, blob(ED, "x"), key_alias="cluster")
    subprocess.run(raised.value.hint.splitlines()[-1], shell=True, check=True)
    assert check(known, blob(ED, "x"), key_alias="cluster") == (True, [])


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="no ssh-keygen")
def test_a_changed_key_is_refused_and_the_command_removes_it(known: Path) -> None:
    real = "AAAAC3NzaC1lZDI1NTE5AAAAIGbM0ktPqg7R8RoNRkHX7Yk2bmiYxGvX0yGHPGoOJ1Fe"
    known.write_text(f"[192.0.2.1]:2222 {ED} {real}\n")
    with pytest.raises(HostKeyError) as raised:
        check(known, blob(ED, "new"))
    assert "has changed" in raised.value.message and f"{known}:1" in raised.value.message
    command = raised.value.hint.splitlines()[-1]
    assert command == f"ssh-keygen -R '[192.0.2.1]:2222' -f {known}"
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert known.read_text() == ""


def test_accept_new_adds_and_says_so(known: Path) -> None:
    passwords, [warning] = check(known, blob(ED, "x"), strict="accept-new")
    assert passwords and "added" in warning
    assert check(known, blob(ED, "x")) == (True, [])
    with pytest.raises(HostKeyError, match="changed"):
        check(known, blob(ED, "other"), strict="accept-new")


def test_a_changed_key_that_is_let_through_gets_no_password(known: Path) -> None:
    known.write_text(line("[192.0.2.1]:2222", ED, "old"))
    passwords, [warning] = check(known, blob(ED, "new"), strict="no")
    assert not passwords and "no password" in warning


def test_known_by_another_kind_only(known: Path) -> None:
    known.write_text(line("[192.0.2.1]:2222", RSA, "old"))
    with pytest.raises(HostKeyError, match="known by ssh-rsa only"):
        check(known, blob(ED, "x"))


def test_revoked_keys(known: Path, tmp_path: Path) -> None:
    known.write_text(line("[192.0.2.1]:2222", ED, "x") + line("*", ED, "x", "@revoked"))
    with pytest.raises(HostKeyError, match=f"revoked.*{known}:2"):
        check(known, blob(ED, "x"), strict="no")
    known.write_text(line("[192.0.2.1]:2222", ED, "x"))
    listed = tmp_path / "revoked"
    listed.write_text(line("", ED, "x").strip() + "\n")
    with pytest.raises(HostKeyError, match="revoked"):
        check(known, blob(ED, "x"), revoked_keys=str(listed))
    listed.write_bytes(b"SSHKRL\n\0rest")
    with pytest.raises(HostKeyError, match="KRL"):
        check(known, blob(ED, "x"), revoked_keys=str(listed))
    with pytest.raises(HostKeyError, match="cannot be read"):
        check(known, blob(ED, "x"), revoked_keys=str(tmp_path / "absent"))


# -- algorithms


def test_lists_of_algorithms() -> None:
    available = ["a1", "a2", "b1"]
    assert algorithms.choose(None, available) == available
    assert algorithms.choose("b1,a1", available) == ["b1", "a1"]
    assert algorithms.choose("+x", available) == available
    assert algorithms.choose("-a*", available) == ["b1"]
    assert algorithms.choose("^b1", available) == ["b1", "a1", "a2"]
    assert algorithms.choose("a*", available) == ["a1", "a2"]
    assert algorithms.choose("none-of-them", available) == []


def test_the_host_is_asked_for_the_key_that_is_known() -> None:
    available = [
        "ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"]
    assert algorithms.host_key_order(available, ["ssh-rsa"], False) == [
        "rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519", "ecdsa-sha2-nistp256"]
    assert algorithms.host_key_order(available, [], True)[0] == "ssh-ed25519-cert-v01@openssh.com"
