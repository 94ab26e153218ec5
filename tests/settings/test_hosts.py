"""hosts.toml, overrides, and the destinations of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.errors import SettingsError, UsageError
from deployer.settings.model import Host, Hypervisor
from deployer.settings.workspace import Workspace

UNIT = """\
description = "x"

[sglang]
version = "0.5.9"
python = "/opt/sglang/bin/python"

[args]
port = 30000
tp_size = 8
json-model-override-args = { rope_scaling = { factor = 4.0, rope_type = "yarn" } }

[env]
A = "1"
B = "2"

[secrets]
api-key = { file = "secrets/key" }

[verify]
deadline = "20min"
prompt = { text = "x", expect = "y" }

[watch]
"""

HOSTS = """\
[defaults]
user = "admin"
become = "none"
identity-file = "keys/id"

[hosts.gpu1]
address = "192.0.2.11"
units = ["qwen"]
hypervisor = { host = "pve1", container = 129 }

[hosts.gpu1.overrides.qwen]
description = false
watch = false
env = { B = false, C = "3" }
secrets = { api_key = { env = "KEY" } }

[hosts.gpu1.overrides.qwen.args]
port = 30001
tp-size = 4
trust_remote_code = true
json-model-override-args = { rope_scaling = { factor = 2.0 } }

[hosts.gpu1.overrides.qwen.verify]
deadline = "10min"
prompt = { expect = "z" }

[hosts."gpu2.example.org"]
user = "root"
become = "sudo"
port = 2222
identity-file = "~/.ssh/other"

[groups]
coding = ["gpu1", "elsewhere"]
all = ["@coding", "gpu2.example.org", "gpu1"]
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "qwen.toml").write_text(UNIT)
    (tmp_path / "hosts.toml").write_text(HOSTS)
    return Workspace.find(tmp_path)


def test_defaults_hold_for_hosts_of_the_file(workspace: Workspace) -> None:
    loaded = workspace.hosts()
    assert loaded.findings == ()
    gpu1, gpu2 = loaded.hosts.values()
    assert (gpu1.address, gpu1.user, gpu1.become, gpu1.port) == ("192.0.2.11", "admin", "none", None)
    assert gpu1.identity_file == workspace.root / "keys" / "id"
    assert gpu1.hypervisor == Hypervisor("pve1", "129")
    assert (gpu2.address, gpu2.user, gpu2.become, gpu2.port) == (None, "root", "sudo", 2222)
    assert gpu2.identity_file == Path("~/.ssh/other").expanduser()


def test_overrides_are_merged_key_by_key(workspace: Workspace) -> None:
    gpu1 = workspace.hosts().hosts["gpu1"]
    plain, loaded = workspace.load_unit("qwen").settings, workspace.load_unit("qwen", gpu1)
    assert loaded.findings == ()
    settings = loaded.settings
    assert settings and plain
    assert settings.args == {
        "port": 30001,
        "tp_size": 4,
        "json-model-override-args": {"rope_scaling": {"factor": 2.0, "rope_type": "yarn"}},
        "trust_remote_code": True,
    }
    assert plain.args["port"] == 30000
    assert settings.env == {"A": "1", "C": "3"}
    assert settings.secrets["api-key"].env == "KEY"
    assert settings.secrets["api-key"].file is None
    assert plain.secrets["api-key"].file == workspace.root / "secrets" / "key"
    assert settings.verify.deadline == 600
    assert settings.verify.prompt and (settings.verify.prompt.text, settings.verify.prompt.expect) == ("x", "z")
    assert plain.watch is not None
    assert settings.watch is None
    assert (plain.description, settings.description) == ("x", "")


def test_places_of_overridden_keys_are_in_hosts_toml(workspace: Workspace) -> None:
    settings = workspace.load_unit("qwen", workspace.hosts().hosts["gpu1"]).settings
    assert settings and settings.spans
    places = {
        ("args", "port"): "hosts.toml:18:1",
        ("args", "tp_size"): "hosts.toml:19:1",
        ("args", "trust-remote-code"): "hosts.toml:20:1",
        ("args",): "units/qwen.toml:7:2",
        ("args", "missing"): "units/qwen.toml:7:2",
        ("env", "A"): "units/qwen.toml:13:1",
        ("env", "C"): "hosts.toml:14:20",
        ("verify", "prompt", "expect"): "hosts.toml:25:12",
        ("verify", "prompt", "text"): "units/qwen.toml:21:12",
        ("verify", "stall"): "units/qwen.toml:19:2",
        ("gpu", "devices"): "units/qwen.toml:1:1",
    }
    for key, place in places.items():
        assert str(settings.spans.where(key)) == f"{workspace.root}/{place}", key


def test_findings_in_overrides_point_at_hosts_toml(workspace: Workspace) -> None:
    gpu1 = Host("gpu1", overrides={"qwen": {"args": {"port": [[1]]}}})
    (workspace.root / "hosts.toml").write_text("[hosts.gpu1.overrides.qwen]\nargs.port = [[1]]\n")
    (finding,) = workspace.load_unit("qwen", gpu1).findings
    assert str(finding.where) == f"{workspace.root}/hosts.toml:2:14"
    with pytest.raises(SettingsError) as caught:
        workspace.resolve(["gpu1"])
    assert [(found.message, found.where) for found in caught.value.findings] == [(finding.message, finding.where)]


def test_groups_are_filled_in_and_each_host_comes_once(workspace: Workspace) -> None:
    names = [host.name for host in workspace.resolve(["gpu2.example.org", "@all", "local", "gpu1"])]
    assert names == ["gpu2.example.org", "gpu1", "elsewhere", "local"]


def test_a_group_that_is_none_is_refused_with_the_nearest(workspace: Workspace) -> None:
    with pytest.raises(UsageError) as caught:
        workspace.resolve(["@codin"])
    assert caught.value.hint == "did you mean @coding?"


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("other", Host("other", become="none")),
        ("local", Host("local", become="none")),
        ("root@other", Host("root@other", "other", "root", become="none")),
        ("CORP@ad@other", Host("CORP@ad@other", "other", "CORP@ad", become="none")),
        ("other:2222", Host("other:2222", "other", port=2222, become="none")),
        ("root@other:2222", Host("root@other:2222", "other", "root", 2222, become="none")),
        ("2001:db8::1", Host("2001:db8::1", become="none")),
        ("root@2001:db8::1", Host("root@2001:db8::1", "2001:db8::1", "root", become="none")),
        ("[2001:db8::1]:2222", Host("[2001:db8::1]:2222", "2001:db8::1", port=2222, become="none")),
        ("fe80::1%eth0", Host("fe80::1%eth0", become="none")),
        ("ssh://root@other:22/", Host("ssh://root@other:22/", "other", "root", 22, become="none")),
    ],
)
def test_hosts_that_ssh_alone_knows(workspace: Workspace, written: str, host: Host) -> None:
    assert workspace.resolve([written]) == [host]


def test_user_and_port_on_the_command_line_come_before_the_file(workspace: Workspace) -> None:
    (host,) = workspace.resolve(["root@gpu1:2200"])
    assert (host.name, host.address, host.user, host.port) == ("gpu1", "192.0.2.11", "root", 2200)
    assert host.units == ("qwen",)


@pytest.mark.parametrize("written", ["", "-oProxyCommand=x", "a b", "h:0", "h:99999", "h:x", "[2001:db8::1", "a/b"])
def test_what_is_no_host_is_refused(workspace: Workspace, written: str) -> None:
    with pytest.raises(UsageError):
        workspace.resolve([written])


def test_local_may_have_units_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "qwen.toml").write_text(UNIT)
    (tmp_path / "hosts.toml").write_text('[hosts.local]\nunits = ["qwen"]\naddress = "127.0.0.1"\n')
    workspace = Workspace.find(tmp_path)
    (host,) = workspace.resolve(["local"])
    assert host.local
    assert host.units == ("qwen",)
    assert [finding.code for finding in workspace.hosts().findings] == ["no-effect"]


def test_one_bad_host_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text("[hosts.a]\nport = 0\n[hosts.b]\nport = 22\n[groups]\nx = 1\ny = ['b']\n")
    loaded = Workspace.find(tmp_path).hosts()
    assert list(loaded.hosts) == ["b"]
    assert dict(loaded.groups) == {"y": ("b",)}
    assert [finding.code for finding in loaded.findings] == ["out-of-range", "wrong-type"]


def test_a_unit_that_is_not_there_keeps_nobody_from_other_hosts(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "hosts.toml").write_text('[hosts.gpu1]\nunits = ["gone"]\n[hosts.gpu2.overrides.gone.args]\nport = 1\n')
    space = Workspace.find(tmp_path)
    assert [finding.code for finding in space.hosts().findings] == ["unknown-unit", "unknown-unit"]
    assert [found.name for found in space.resolve(["gpu1", "gpu3"])] == ["gpu1", "gpu3"]
    with pytest.raises(SettingsError):
        space.resolve(["gpu2"])
