"""Rendered units on a real systemd: it has nothing to say of them, secrets reach the process, the timer watches."""

from __future__ import annotations

from pathlib import Path

from deployer import resources
from deployer.render.credentials import fill
from deployer.render.model import Release, SecretText
from deployer.render.release import render
from deployer.settings.model import GpuSettings, SecretRef, UnitSettings, Venv, VerifySettings, WatchSettings
from deployer.settings.workspace import Workspace
from tests.hosts.bed import Host

PYTHON = "/opt/sglang/.venv/bin/python"
VALUES = {"api-key": "k-\"1\\é", "HF_TOKEN": "t $1 `x`"}


def install(host: Host, release: Release) -> None:
    for file in release.files:
        host.run(["mkdir", "-p", str(Path(file.path).parent)])
        text = fill(file.text, VALUES) if isinstance(file.text, SecretText) else file.text
        host.write(file.path, text, mode=file.mode, owner=file.owner)
    host.run("systemctl daemon-reload")


def test_systemd_has_nothing_to_say_of_the_examples(host: Host) -> None:
    workspace = Workspace(resources.units().parent)
    host.run("mkdir -p /opt/sglang-cpu/bin /opt/router/.venv/bin /run/examples; useradd -r sglang 2>/dev/null || true")
    for python in ("/opt/sglang-cpu/bin/python", "/opt/router/.venv/bin/python", "/usr/local/bin/numactl"):
        host.run(f"test -e {python} || cp /bin/true {python}")
    names = workspace.unit_names()
    for name in names:
        loaded = workspace.load_unit(name)
        assert loaded.settings is not None, loaded.findings
        for file in render(loaded.settings, None).files:
            if file.path.startswith("/etc/systemd/system/") and isinstance(file.text, str):
                host.write(f"/run/examples/{Path(file.path).name}", file.text)
    said = host.run("cd /run/examples && systemd-analyze verify --recursive-errors=no ./*.service 2>&1", check=False)
    about = [line for line in said.out.splitlines() if any(f"{name}.service" in line or f"{name}-watch" in line
                                                           for name in names)]
    assert (said.code, about) == (0, []), said.out


def test_secrets_reach_the_process_and_nobody_else(host: Host) -> None:
    host.run("mkdir -p /opt/echo && cp /bin/dash /opt/echo/python")
    host.write("/opt/echo/sglang.launch_server", (
        "cat \"$CREDENTIALS_DIRECTORY/sglang.yaml\" > /run/echo/config; printf %s \"$HF_TOKEN\" > /run/echo/token\n"
        "echo \"$*\" > /run/echo/argv; id -un > /run/echo/user; exec sleep 1000\n"))
    host.run("mkdir -p -m 777 /run/echo")
    release = render(UnitSettings(
        name="x", runtime=Venv("/opt/echo/python"), sglang="0.5.9", gpu=GpuSettings(devices=None),
        secrets={name: SecretRef(env="E") for name in VALUES},
        directives={"Service": {"User": "sglang", "WorkingDirectory": "/opt/echo", "ExecStartPost":
                                "/bin/sh -c 'until test -e /run/echo/user; do sleep 0.01; done'"}},
    ), None)
    install(host, release)
    host.run("systemctl start x")
    assert host.read("/run/echo/config") == 'api-key: "k-\\"1\\\\\\xe9"\n'
    assert host.read("/run/echo/token") == VALUES["HF_TOKEN"]
    assert host.read("/run/echo/argv").split() == list(release.argv[3:])
    assert host.read("/run/echo/user").strip() == "sglang"
    shown = host.run("systemctl show x; systemctl cat x; cat /proc/$(systemctl show -p MainPID --value x)/cmdline").out
    assert not any(value in shown for value in VALUES.values())
    assert host.ssh("cat /etc/deployer/x/sglang.yaml /etc/deployer/x/secrets.env", user="admin", check=False).code != 0


def test_a_path_with_everything_in_it_is_required_to_be_mounted(host: Host) -> None:
    model = '/models/a "b\\c% d'
    release = render(UnitSettings(name="x", runtime=Venv(PYTHON), sglang="0.5.9", args={"model-path": model}), None)
    install(host, release)
    shown = '"/models/a \\"b\\\\c% d"'              # as systemctl quotes it
    assert shown in host.run("systemctl show -p RequiresMountsFor --value x").out


class Watched:
    """A unit with a watch timer that the test itself triggers: no waiting for time to pass."""

    def __init__(self, host: Host, misses: int = 2) -> None:
        self.host = host
        install(host, render(UnitSettings(
            name="x", runtime=Venv(PYTHON), sglang="0.5.9", args={"model-path": "/models/tiny", "port": 30000},
            gpu=GpuSettings(devices=(0,)), verify=VerifySettings(drain=1.0),
            watch=WatchSettings(interval=3600.0, misses=misses, timeout=2.0),
        ), None))

    def start(self) -> str:
        """Starts the unit and gives the invocation."""
        self.host.run("systemctl start x")
        return self.invocation()

    def invocation(self) -> str:
        return self.host.state("x.service")["InvocationID"]

    def look(self) -> str:
        """One run of the check; gives what it said."""
        self.host.run("systemctl start x-watch.service")
        return self.host.journal("x-watch.service")


def test_watch_restarts_after_misses_and_never_within_a_start(host: Host) -> None:
    watched = Watched(host)
    host.sglang.behave(hold=["weights"])
    first = watched.start()
    assert host.run("systemctl is-active x-watch.timer").out.strip() == "active"
    server = host.sglang.at(30000)
    server.wait("weights")
    for _ in range(4):
        watched.look()
    assert watched.invocation() == first, "restarted within its start"
    server.advance()
    server.wait("ready")
    assert "miss" not in watched.look()
    server.set(health=503)
    assert "miss 1 of 2" in watched.look()
    server.set(health=200)
    watched.look()
    server.set(health=503)
    watched.look()
    assert watched.invocation() == first, "a healthy answer in between did not count"
    assert "restarted after 2 misses" in watched.look()
    host.run("systemctl start x", timeout=30)      # waits for the restart that was asked for
    assert watched.invocation() != first


def test_watch_spares_a_busy_server_and_stops_with_its_unit(host: Host) -> None:
    watched = Watched(host, misses=1)
    first = watched.start()
    server = host.sglang.at(30000)
    server.wait("ready")
    watched.look()
    server.set(health=503, health_seconds=1.0)
    asked = host.popen("systemctl start x-watch.service")
    while asked.poll() is None:                    # while it is asked it goes on running batches
        server.log("Decode batch. #running-req: 40, #token: 159000, token usage: 0.99, gen throughput (token/s): 812.2")
    assert "busy" in host.journal("x-watch.service")
    assert watched.invocation() == first
    host.run("systemctl stop x")
    assert host.run("systemctl is-active x-watch.timer", check=False).out.strip() == "inactive"
    watched.look()
    assert host.state("x.service")["ActiveState"] == "inactive"
