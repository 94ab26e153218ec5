"""The bed itself: hosts are real, come back pristine, and outlive a power cut with their disk."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from tests.hosts.bed import Host, Operator, Pool

SLEEPER = """\
[Service]
ExecStart=/bin/sleep 1000
Restart=always
RestartSec=0

[Install]
WantedBy=multi-user.target
"""


def test_host_is_a_real_systemd_reached_by_ssh(host: Host) -> None:
    assert host.run("systemctl is-system-running").out.strip() == "running"
    assert host.ssh("id -un; hostname").out.split() == ["root", host.name]
    assert host.ssh("sudo -n id -u", user="admin").out.strip() == "0"
    assert host.ssh("sudo -n id -u", user="ops", check=False).code == 1
    assert host.ssh("sudo -S -p '' id -u", user="ops", input="bed-password\n").out.strip() == "0"


def test_reset_undoes_everything(host: Host, pool: Pool) -> None:
    before = snapshot(host)
    host.write("/etc/systemd/system/x.service", SLEEPER)
    host.run("systemctl enable --now x; systemd-run --unit=transient sleep 1000; echo marker | systemd-cat -t bed")
    host.run("rm /etc/motd; rm -r /etc/skel; mkdir /etc/skel; touch /etc/skel/new /tmp/a /run/b /dev/shm/c")
    host.run("chmod 711 /srv")
    host.run("echo '# more' >> /etc/passwd; chown admin /usr/bin/id; mkdir -p /var/lib/deployer/x.service/releases/1")
    host.run("mount -t tmpfs none /mnt; mv /usr/bin/tmux /usr/bin/tmux.off")
    host.ssh("nohup sleep 1000 > /dev/null 2>&1 &", user="admin")
    host.gpu.configure(8)
    host.network.cut()
    leader = host.machine.leader
    pool.give_back(host)
    assert pool.take() == [host]
    assert host.machine.leader == leader, "it was booted anew instead of reset"
    assert snapshot(host) == before
    assert "marker" not in host.journal()


def snapshot(host: Host) -> str:
    return host.run("; ".join((
        "systemctl is-system-running",
        "systemctl list-units --all --plain --no-legend | grep -vE '^(user|session|run-user)|[.](slice|device) '"
        " | sort",
        "find /etc /opt /srv /home /root /usr/bin /var/lib -type d -printf '%p %M %u %g\\n'"
        " -o -printf '%p %M %u %g %s\\n'"
        " | grep -vE '/(random-seed|lastlog|linger)' | sort",
        "ls /tmp /run /dev /dev/shm /mnt",
        "ps -eo comm,user | grep -vE '^(ps|grep|sort|bash) ' | sort",
    ))).out


def test_disk_outlives_power_cut_and_reboot(host: Host) -> None:
    host.write("/etc/systemd/system/kept.service", SLEEPER)
    host.run("systemctl enable kept")
    boots = [host.run("systemctl show -P UserspaceTimestampMonotonic").out]
    host.power_cut()
    assert not host.machine.running
    host.boot()
    assert host.run("systemctl is-active kept").out.strip() == "active"
    boots.append(host.run("systemctl show -P UserspaceTimestampMonotonic").out)
    host.reboot()
    assert host.run("systemctl is-active kept").out.strip() == "active"
    boots.append(host.run("systemctl show -P UserspaceTimestampMonotonic").out)
    assert len(set(boots)) == 3


def test_hosts_are_apart(hosts: Callable[[int], list[Host]]) -> None:
    one, two = hosts(2)
    for host in (one, two):
        host.run("systemd-run --unit=same sleep 1000")
    one.run("systemctl stop same")
    assert two.run("systemctl is-active same").out.strip() == "active"
    assert one.address != two.address


def test_network_cut_is_silent(host: Host) -> None:
    host.network.cut()
    answer = host.ssh("true", check=False, options=("-o", "ConnectTimeout=1"))
    assert answer.code == 255 and "timed out" in answer.err.lower()
    host.network.restore()
    assert host.ssh("echo back").out == "back\n"


def test_full_and_read_only_places(host: Host) -> None:
    host.write("/etc/systemd/system/kept.conf", "kept")
    with host.small_disk("/etc/systemd/system"):
        assert "No space left" in host.run("echo new > /etc/systemd/system/new.conf", check=False).err
        assert host.read("/etc/systemd/system/kept.conf") == "kept"
    host.run("echo new > /etc/systemd/system/new.conf")
    with host.read_only("/etc"):
        assert "Read-only" in host.run("echo new > /etc/new.conf", check=False).err


def test_operator_reaches_the_host_as_an_admin_would(host: Host, operator: Operator) -> None:
    done = subprocess.run(["ssh", "-F", str(operator.config), host.name, "hostname"], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == (host.name, 0)
    assert operator.deployer("--version").out.startswith("deployer ")
