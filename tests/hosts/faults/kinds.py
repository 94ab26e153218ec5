"""What can break, done from outside at a chosen point, and healed again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.hosts.bed import Host
from tests.hosts.pushing import SERVICE, Client


@dataclass
class Scene:
    """One push that is held at its point. ``heal`` collects what undoes the fault."""

    host: Host
    client: Client
    heal: list[Callable[[], object]] = field(default_factory=list)

    def go(self) -> None:
        """Lets the transaction go on, where there still is one."""
        self.host.run("mkdir -p /run/fault && touch /run/fault/go")

    def transaction(self) -> str:
        return self.host.run("cat /run/fault/reached").out.strip()


def kill_client(scene: Scene) -> None:
    scene.client.process.kill()
    scene.go()


def kill_ssh(scene: Scene) -> None:
    scene.host.run("for p in $(pgrep -f '^sshd: .*@notty'); do kill -9 $p; done")
    scene.go()


def kill_transaction(scene: Scene) -> None:
    scene.host.run(f"kill -9 {scene.transaction()}")
    scene.go()


def power_cut(scene: Scene) -> None:
    scene.host.power_cut()
    scene.host.boot()


def cut_for_good(scene: Scene) -> None:
    scene.host.network.cut()
    scene.heal.append(scene.host.network.restore)
    scene.client.process.kill()
    scene.go()


def cut_for_a_while(scene: Scene) -> None:
    scene.host.network.unplug()
    scene.go()
    scene.host.network.restore()


def fill(place: str) -> Callable[[Scene], None]:
    """The disk, a small one of its own since before the push, has not a byte left."""
    def act(scene: Scene) -> None:
        scene.host.run(f"dd if=/dev/zero of={place}/.full bs=1k status=none", check=False)
        scene.go()
    return act


def read_only(place: str) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        closed = scene.host.read_only(place)
        closed.__enter__()
        scene.heal.append(lambda: closed.__exit__(None, None, None))
        scene.go()
    return act


def hang_nvidia_smi(scene: Scene) -> None:
    scene.host.gpu.switch(hang=True)
    scene.heal.append(scene.host.gpu.switch)
    scene.go()


def systemctl_fails(scene: Scene) -> None:
    """Whoever asks systemctl for a change is refused; looking still works."""
    scene.host.write("/run/fault/systemctl", "#!/bin/sh\ncase \"$1\" in show|is-enabled|list-units|--version) "
                     "exec /run/fault/real \"$@\";; esac\necho 'Failed to connect to bus' >&2\nexit 1\n", mode=0o755)
    scene.host.run("cp /usr/bin/systemctl /run/fault/real && mount --bind /run/fault/systemctl /usr/bin/systemctl")
    scene.heal.append(lambda: scene.host.run("umount -l /usr/bin/systemctl"))
    scene.go()


def kill_service(scene: Scene) -> None:
    pid = scene.host.state(SERVICE).get("MainPID", "0")
    if pid != "0":
        scene.host.run(f"kill -9 {pid}", check=False)
    scene.go()


def ask_to_roll_back(scene: Scene) -> None:
    scene.host.run("for r in /var/lib/deployer/qwen.service/releases/*/; do last=$r; done; touch $last/abort")
    scene.go()


def withdraw_sudo(scene: Scene) -> None:
    """The account may not use sudo any more, and its session ends: it cannot come back to look."""
    scene.host.run("mv /etc/sudoers.d/bed /run/fault/sudoers")
    scene.heal.append(lambda: scene.host.run("mv /run/fault/sudoers /etc/sudoers.d/bed"))
    kill_ssh(scene)


def jump(seconds: float) -> Callable[[Scene], None]:
    """The wall clock of the transaction jumps."""
    def act(scene: Scene) -> None:
        scene.host.write("/run/fault/clock", str(seconds))
        scene.go()
    return act


FAULTS: dict[str, Callable[[Scene], None]] = {
    "client": kill_client, "ssh": kill_ssh, "transaction": kill_transaction, "power": power_cut,
    "cut": cut_for_good, "blip": cut_for_a_while, "etc-full": fill("/etc"), "var-full": fill("/var/lib/deployer"),
    "etc-ro": read_only("/etc"), "var-ro": read_only("/var/lib/deployer"), "smi-hangs": hang_nvidia_smi,
    "systemctl": systemctl_fails, "service": kill_service, "abort": ask_to_roll_back,
    "sudo": withdraw_sudo, "clock-ahead": jump(3 * 86400.0), "clock-back": jump(-3 * 86400.0),
}

SMALL_DISKS = {"etc-full": "/etc", "var-full": "/var/lib/deployer"}
"""What has to be a disk of its own before the push begins: one that is mounted later would hide what is open."""

ROOM_KIB = 80_000
"""More than a push asks for before it begins."""
