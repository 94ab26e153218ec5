"""ssh_config as OpenSSH reads it: compared with ``ssh -G`` where ssh is installed, and what is said of the rest."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from deployer.errors import ConnectError
from deployer.remote.destination import Destination, parse, resolve
from deployer.remote.sshconfig import ConfigError, matches_list, split, words

CASES = {
    "first value wins": ("a", "Host a\n  Port 1\nHost *\n  Port 2\n  User u\n"),
    "patterns and negation": ("db1", "Host db* !db1\n Port 1\nHost db?\n Port 2\nHost !x *\n User y\n"),
    "equals and quotes": ("a", "Host=a\n Port = 77\n User=\"the user\"\n IdentityFile \"~/a key\"\n"),
    "comments": ("a", "# one\nHost a # two\n  Port 5 # three\n"),
    "hostname tokens": ("web", "Host web\n HostName %h.example.org\n"),
    "identity tokens": ("web", "Host web\n User u\n Port 9\n HostName h\n IdentityFile /k/%n-%h-%r-%p-%%\n"),
    "several identities": ("a", "IdentityFile /one\nHost a\n IdentityFile /two\n IdentityFile /one\n"),
    "match host after hostname": ("a", "Host a\n HostName b.example.org\nMatch host *.example.org\n Port 3\n"),
    "match originalhost": ("a", "Host a\n HostName b\nMatch originalhost a\n Port 3\nMatch originalhost b\n User u\n"),
    "match user": ("u@a", "Match user u\n Port 3\nMatch user root,admin\n Port 4\n"),
    "match negated": ("a", "Match !host b\n Port 3\n"),
    "match exec true": ("a", "Match exec \"test %h = a\"\n Port 3\n"),
    "match exec false": ("a", "Match exec false\n Port 3\nMatch !exec false\n User u\n"),
    "match several": ("u@a", "Match user u host a exec true\n Port 3\nMatch user u host b\n Port 4\n"),
    "match all": ("a", "Match all\n Port 3\n"),
    "match final": ("a", "Match final host b\n Port 3\nHost a\n HostName b\n"),
    "match localuser": ("a", "Match localuser nobody-here\n Port 3\nMatch !localuser nobody-here\n User u\n"),
    "include": ("a", "Include {folder}/inc*.conf\nHost a\n Port 9\n"),
    "include in a block": ("b", "Host a\n Include {folder}/inc1.conf\nHost b\n Port 9\n"),
    "include in a block that applies": ("a", "Host a\n Include {folder}/inc1.conf\n Port 9\nHost b\n Port 8\n"),
    "proxyjump": ("a", "Host a\n ProxyJump j1,u@j2:99\n"),
    "proxyjump none first": ("a", "Host a\n ProxyJump none\nHost *\n ProxyJump bastion\n"),
    "proxycommand before jump": ("a", "Host a\n ProxyCommand nc %h %p # all\nHost *\n ProxyJump bastion\n"),
    "jump before proxycommand": ("a", "Host a\n ProxyJump bastion\nHost *\n ProxyCommand nc %h %p\n"),
    "known hosts files": ("a", "UserKnownHostsFile /a \"/b c\" /d\nGlobalKnownHostsFile /e\n"),
    "known hosts tokens": ("a", "UserKnownHostsFile /k/%k\nHostKeyAlias x\n"),
    "strict values": ("a", "StrictHostKeyChecking accept-new\nHashKnownHosts yes\nHostKeyAlias x\n"),
    "times": ("a", "ConnectTimeout 1m30\nServerAliveInterval 20\nServerAliveCountMax 5\nConnectionAttempts 4\n"),
    "methods": ("a", "PreferredAuthentications publickey,password\nPasswordAuthentication no\nIdentitiesOnly yes\n"),
    "certificates": ("a", "CertificateFile /c1\nCertificateFile /c2\n"),
    "family": ("a", "AddressFamily inet6\nBindAddress ::1\n"),
    "old spellings": ("a", "ChallengeResponseAuthentication no\nPubkeyAcceptedKeyTypes ssh-ed25519\n"),
    "a keyword in any case": ("a", "HOST a\n  pOrT 4\n"),
    "tabs": ("a", "Host\ta\n\tPort\t4\n"),
    "crlf is a line": ("a", "Host a\n  User u\n\n\n  Port 4\n"),
    "agent": ("a", "IdentityAgent /run/agent-%u.sock\n"),
    "agent none": ("a", "IdentityAgent none\n"),
    "canonical in the second pass": ("a", "Match final\n User u\nMatch canonical\n Port 3\n"),
    "the name stays in the second pass": ("a", "HostName %h.example.org\nMatch final\n HostName other\n Port 3\n"),
    "host is the real name in the second pass": ("a", "Match final\n User u\nHost b\n Port 3\nHost a\n HostName b\n"),
    "originalhost stays in the second pass": (
        "a", "Match final originalhost a\n User u\nMatch originalhost b\n Port 3\nHost a\n HostName b\n"),
    "not final": ("a", "Match !final\n Port 3\nMatch final\n User u\n"),
    "no time is no value": ("a", "ConnectTimeout none\nHost *\n ConnectTimeout 7\n"),
    "a percent in the name": ("a", "HostName a%%b\nMatch final\n Port 3\n"),
    "canonical": ("a", "CanonicalizeHostname no\nMatch canonical\n Port 3\n"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inc1.conf").write_text("User inc\nHost a\n Port 11\nHost z\n Port 12\n")
    (tmp_path / "inc2.conf").write_text("Host *\n Port 13\n")
    return tmp_path


def destination(folder: Path, target: str, text: str) -> Destination:
    file = folder / "config"
    file.write_text(text.replace("{folder}", str(folder)))
    file.chmod(0o600)
    return resolve("x", target, files=[file])


def oracle(file: Path, target: str) -> dict[str, list[str]]:
    ran = subprocess.run(["ssh", "-G", "-F", str(file), target], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = {}
    for line in ran.stdout.splitlines():
        keyword, _, value = line.partition(" ")
        found.setdefault(keyword, []).append(value)
    return found


@pytest.mark.skipif(not shutil.which("ssh"), reason="no ssh to compare with")
@pytest.mark.parametrize("name", CASES)
def test_the_same_as_ssh(folder: Path, name: str) -> None:
    target, text = CASES[name]
    ours = destination(folder, target, text)
    theirs = oracle(folder / "config", target)
    assert ours.host == theirs["hostname"][0]
    assert str(ours.port) == theirs["port"][0]
    assert ours.user == theirs["user"][0]
    assert ours.key_alias == theirs.get("hostkeyalias", [None])[0]
    assert ours.family == theirs["addressfamily"][0]
    assert ours.strict == {"true": "yes", "false": "no"}.get(
        theirs["stricthostkeychecking"][0], theirs["stricthostkeychecking"][0])
    assert ours.identities_only is (theirs["identitiesonly"] == ["yes"])
    assert ours.hash_names is (theirs["hashknownhosts"] == ["yes"])
    assert ours.attempts == int(theirs["connectionattempts"][0])
    assert ours.alive_count == int(theirs["serveralivecountmax"][0])
    assert ours.bind_address == theirs.get("bindaddress", [None])[0]
    assert ("password" in ours.methods) is (theirs["passwordauthentication"] == ["yes"])
    if "UserKnownHostsFile" in text and "%" not in text:
        assert " ".join(ours.known_hosts) == theirs["userknownhostsfile"][0]
    if "CertificateFile" in text:
        assert list(ours.certificate_files) == theirs["certificatefile"]
    if "IdentityFile" in text and "%" not in text:
        assert [file.replace(str(Path.home()), "~") for file in ours.identity_files] == theirs["identityfile"]
    if "ConnectTimeout" in text:
        assert ours.connect_timeout == float(theirs["connecttimeout"][0])
    jump = theirs.get("proxyjump", ["none"])[0]
    names = [parse(part)[1] for part in jump.split(",")] if jump != "none" else []
    assert [hop.original for hop in ours.jumps] == names
    command = theirs.get("proxycommand", [None])[0]
    assert (ours.proxy_command is None) is (command is None)


def test_identity_tokens_are_expanded(folder: Path) -> None:
    target, text = CASES["identity tokens"]
    assert destination(folder, target, text).identity_files == ("/k/web-h-u-9-%",)
    assert destination(folder, *CASES["known hosts tokens"]).known_hosts == ("/k/x",)


def test_a_proxycommand_takes_the_rest_of_the_line(folder: Path) -> None:
    made = destination(folder, "u@a", "Host a\n HostName h\n ProxyCommand ssh -W '[%h]:%p' -l %r  'b c' %%\n")
    assert made.proxy_command == "ssh -W '[h]:22' -l u  'b c' %"


@pytest.mark.parametrize(("line", "words_of_it"), [
    ("Host a b  c", ["a", "b", "c"]),
    ('Host "a b" c', ["a b", "c"]),
    ("Host 'a \"b' c", ['a "b', "c"]),
    (r'Host a\ b \"c\"', ["a b", '"c"']),
    (r'Host "a\\b\"c"', ['a\\b"c']),
    ("Host a #b", ["a"]),
    ("Host a#b", ["a#b"]),
    ('Host ""', [""]),
])
def test_words(line: str, words_of_it: list[str]) -> None:
    assert split(line)[:2] == ("host", words_of_it)


def test_an_open_quote_is_an_error() -> None:
    with pytest.raises(ConfigError, match="quote"):
        words('"a', "f:1")


@pytest.mark.parametrize(("text", "words_in_it"), [
    ("Match localnetwork 192.0.2.0/24\n Port 3\n", ["Match localnetwork", ":1"]),
    ("Match !localnetwork 192.0.2.0/24\n Port 3\n", ["Match localnetwork"]),
    ("KnownHostsCommand /bin/x\n", ["knownhostscommand", "files only"]),
    ("PKCS11Provider /usr/lib/x.so\n", ["pkcs11provider", "ssh-agent"]),
    ("ProxyUseFdpass yes\n", ["proxyusefdpass"]),
    ("Frobnicate yes\n", ["frobnicate", "not understood"]),
])
def test_what_is_not_understood_is_said(folder: Path, text: str, words_in_it: list[str]) -> None:
    made = destination(folder, "a", text)
    assert made.port == 22, "what stands under a Match that is not understood does not apply"
    [warning] = made.warnings
    assert all(word in warning for word in words_in_it), warning


@pytest.mark.parametrize("text", [
    "ForwardAgent yes\nControlMaster auto\nControlPath ~/.ssh/%C\nGSSAPIAuthentication yes\nSendEnv LANG LC_*\n",
    "IgnoreUnknown frob*\nFrobnicate yes\n",
    "PKCS11Provider none\nProxyUseFdpass no\n",
    "Host b\n KnownHostsCommand /bin/x\n",
])
def test_what_does_no_harm_is_silent(folder: Path, text: str) -> None:
    assert destination(folder, "a", text).warnings == ()


@pytest.mark.parametrize(("text", "words_in_it"), [
    ("Port abc\n", "config:1"),
    ("Port\n", "config:1"),
    ("Host a\n User \"x\n", "config:2"),
    ("Match user\n", "config:1"),
    ("ConnectTimeout soon\n", "config:1"),
    ("Include {folder}/config\n", "too deeply"),
    ("HostName %z\n", "%z"),
    ("IdentityFile ${NOT_SET_ANYWHERE}/k\n", "NOT_SET_ANYWHERE"),
])
def test_what_ssh_would_refuse_is_refused(folder: Path, text: str, words_in_it: str) -> None:
    with pytest.raises(ConnectError) as raised:
        destination(folder, "a", text)
    assert words_in_it in raised.value.message
    assert raised.value.exit_code == 3


def test_a_file_that_others_can_write_is_refused(folder: Path) -> None:
    file = folder / "config"
    file.write_text("Port 3\n")
    file.chmod(0o666)
    with pytest.raises(ConnectError, match="written by others"):
        resolve("x", "a", files=[file])


@pytest.mark.parametrize(("text", "parts"), [
    ("gpu1", (None, "gpu1", None)),
    ("root@gpu1:2222", ("root", "gpu1", 2222)),
    ("gpu1:22", (None, "gpu1", 22)),
    ("ssh://u@h:9/", ("u", "h", 9)),
    ("::1", (None, "::1", None)),
    ("[2001:db8::1]:2222", (None, "2001:db8::1", 2222)),
    ("u@[fe80::1%eth0]", ("u", "fe80::1%eth0", None)),
    ("a@b@c", ("a@b", "c", None)),
])
def test_destinations(text: str, parts: tuple[str | None, str, int | None]) -> None:
    assert parse(text) == parts


@pytest.mark.parametrize("text", ["", "u@", "h:0", "h:99999", "h:x", "-oProxyCommand=x", "u@-x"])
def test_no_destinations(text: str) -> None:
    with pytest.raises(ValueError, match="no host"):
        parse(text)


def test_what_is_written_with_the_host_comes_before_hosts_toml(folder: Path) -> None:
    (folder / "config").write_text("Host a\n User c\n Port 3\n")
    files = [folder / "config"]
    assert (resolve("x", "a", files=files).user, resolve("x", "a", files=files).port) == ("c", 3)
    given = resolve("x", "a", user="t", port=4, files=files)
    assert (given.user, given.port) == ("t", 4)
    own = resolve("x", "w@a:5", user="t", port=4, files=files)
    assert (own.user, own.port) == ("w", 5)


def test_jumps_in_their_order(folder: Path) -> None:
    made = destination(folder, "a", (
        "Host a\n ProxyJump j1,u@[2001:db8::2]:99\nHost j1\n ProxyJump j0\n User one\nHost j0\n HostName zero\n"
        "Host 2001*\n ProxyJump never\n IdentityFile /k\n"))
    assert [(hop.user, hop.host, hop.port) for hop in made.jumps][1:] == [("one", "j1", 22), ("u", "2001:db8::2", 99)]
    assert made.jumps[0].host == "zero", "only the first jump host has jump hosts of its own"
    assert made.jumps[2].identity_files == ("/k",)
    assert all("jump host" in hop.name for hop in made.jumps)


def test_a_jump_host_does_not_jump_by_way_of_itself(folder: Path) -> None:
    made = destination(folder, "a", "Host *\n ProxyJump bastion\n")
    assert [hop.host for hop in made.jumps] == ["bastion"]


def test_jumps_in_a_circle_are_refused(folder: Path) -> None:
    with pytest.raises(ConnectError, match="circle"):
        destination(folder, "a", "Host a\n ProxyJump b\nHost b\n ProxyJump a\n")


def test_system_file_comes_after_the_users(folder: Path) -> None:
    user, system = folder / "user", folder / "system"
    user.write_text("User mine\n")
    system.write_text("User theirs\nPort 7\n")
    made = resolve("x", "a", files=[user, system])
    assert (made.user, made.port) == ("mine", 7)


def test_pattern_lists() -> None:
    assert matches_list(["a*", "!ab"], "ac")
    assert not matches_list(["a*", "!ab"], "ab")
    assert not matches_list(["!ab"], "ac"), "a negated pattern alone matches nothing"
    assert matches_list(["[a]"], "[a]"), "brackets are no wildcard in ssh"
