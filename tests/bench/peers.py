"""The same job with pyinfra 3 and ansible-core: a template, a service, an HTTP check. Installed into the cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.hosts.bed import Host, Operator
from tests.hosts.bed.image import cache

PYINFRA = '''
from pyinfra.operations import files, server, systemd
files.template(name="unit", src="unit.j2", dest="/etc/systemd/system/peer.service", mode="644", _sudo=True)
systemd.service(name="service", service="qwen.service", running=True, enabled=True, _sudo=True)
server.shell(name="health", commands=["curl -sf -o /dev/null http://127.0.0.1:30000/ready"])
'''

ANSIBLE = '''
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - ansible.builtin.template: {src: unit.j2, dest: /etc/systemd/system/peer.service, mode: "0644"}
    - ansible.builtin.systemd_service: {name: qwen.service, state: started, enabled: true}
    - ansible.builtin.uri: {url: "http://127.0.0.1:30000/ready"}
'''


def environment() -> Path:
    """The folder of the peers' virtual environment."""
    place = cache() / "bench-venv"
    if not (place / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([place / "bin" / "pip", "install", "-q", "pyinfra>=3,<4", "ansible-core"], check=True)
        (place / "ready").touch()
    return place / "bin"


def prepare(operator: Operator, hosts: list[Host]) -> dict[str, list[str]]:
    """Writes what the peers need; their command lines by name."""
    bin_folder, space = environment(), operator.workspace
    (space / "unit.j2").write_text("[Service]\nExecStart=/bin/true\n")
    (space / "deploy.py").write_text(PYINFRA)
    (space / "play.yml").write_text(ANSIBLE)
    (space / "inventory.ini").write_text("".join(f"{host.name} ansible_user=admin\n" for host in hosts))
    (space / "ansible.cfg").write_text(
        "[defaults]\nhost_key_checking = True\nforks = 32\ninterpreter_python = /usr/bin/python3\n"
        "[ssh_connection]\npipelining = True\n"
        f"ssh_args = -F {operator.config} -o ControlMaster=auto -o ControlPersist=60s\n")
    access = {"ssh_user": "admin", "ssh_config_file": str(operator.config)}
    (space / "inventory.py").write_text(f"hosts = {[(host.name, access) for host in hosts]!r}\n")
    return {
        "pyinfra": [str(bin_folder / "pyinfra"), "-y", "--parallel", "32", "inventory.py", "deploy.py"],
        "ansible-core": [str(bin_folder / "ansible-playbook"), "-i", "inventory.ini", "play.yml"],
    }
