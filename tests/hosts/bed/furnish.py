"""What is a host's own, laid on its disk before it boots: names, keys, GPUs, a pretended SGLang and its model."""

from __future__ import annotations

import compileall
import functools
import json
import os
import re
import shutil
import subprocess
import uuid
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import TYPE_CHECKING

from deployer.remote.bundle import bundle
from tests.hosts.bed.gpu import inventory
from tests.hosts.bed.sglang import CONFIG, MODEL, RELEASE, VENV, flag_table
from tests.standin.install import install

if TYPE_CHECKING:
    from tests.hosts.bed.host import Host

PROGRAMS = {"bed": Path(__file__).with_name("files"), "standin": Path(__file__).resolve().parents[2] / "standin"}
"""What every host has in /usr/local/lib, by the name it has there."""

IDLE = (
    "dev-hugepages.mount", "dev-mqueue.mount", "kmod-static-nodes.service", "modprobe@.service",
    "proc-sys-fs-binfmt_misc.automount", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
    "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "rc-local.service", "getty-static.service",
    "systemd-ask-password-console.path", "systemd-ask-password-console.service", "systemd-ask-password-wall.path",
    "systemd-ask-password-wall.service", "systemd-binfmt.service", "systemd-firstboot.service",
    "systemd-fsck-root.service", "systemd-fsckd.service", "systemd-fsckd.socket", "systemd-initctl.service",
    "systemd-initctl.socket", "systemd-machine-id-commit.service", "systemd-modules-load.service",
    "systemd-pcrphase-initrd.service", "systemd-pcrphase-sysinit.service", "systemd-pcrphase.service",
    "systemd-pstore.service", "systemd-random-seed.service", "systemd-remount-fs.service", "systemd-repart.service",
    "systemd-sysctl.service", "systemd-sysext.service", "systemd-sysusers.service", "initrd-cleanup.service",
    "initrd-parse-etc.service", "initrd-switch-root.service", "initrd-udevadm-cleanup-db.service",
)
"""Units that have nothing to do on a test host."""

LINKS = {"usr/bin/nvidia-smi": "driver", "usr/local/bin/gpu-hold": "gpu-hold"}


RECEIVE = "import sys;i=sys.stdin.buffer;exec(i.read(int(i.readline())))"


def lend(folder: Path, image: Path) -> None:
    """Lays the programs into ``folder``, compiled: they start hundreds of times in a run, from a read-only place."""
    for name, source in PROGRAMS.items():
        target = folder / name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(target, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    _lend_agent(folder / "visited", image)


def _lend_agent(folder: Path, image: Path) -> None:
    """Every host has been visited before, its agent is there; a test of the first visit removes /var/lib/deployer.

    The host's own Python lays it into ``folder``, which is its /mnt in a mount namespace of its own, and then becomes
    the agent, which ends as there is nobody.
    """
    agent = bundle()
    folder.mkdir()
    script = 'mount --bind "$1" "$2/mnt"; shift 2; exec chroot "$@"'
    python = [str(image), "/usr/bin/python3", "-IS", "-c", RECEIVE, "bed", agent.hash, "/mnt/deployer/agent"]
    done = subprocess.run(["unshare", "--mount", "sh", "-euc", script, "lend", str(folder), str(image), *python],
                          input=agent.unpacker + agent.payload, capture_output=True)
    assert (folder / "deployer/agent" / agent.hash / "__main__.py").exists(), done.stderr.decode()


def furnish(host: Host) -> None:
    """Lays everything into the upper folder of a host that is off."""
    upper = host.folder / "upper"
    upper.chmod(0o755)
    key = host.keys.host_key(host.number)
    for path, text, mode in (
        ("etc/machine-id", uuid.uuid4().hex + "\n", 0o444),
        ("etc/hostname", host.name + "\n", 0o644),
        ("etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n", 0o644),
        # Root's manager starts with the machine, not with the first login of each test.
        ("var/lib/systemd/linger/root", "", 0o644),
        ("etc/gpu.json", json.dumps(inventory(2, seed=host.gpu.seed)), 0o644),
        ("etc/ssh/bed_authorized_keys", host.keys.public, 0o644),
        ("etc/ssh/ssh_host_ed25519_key", key.private, 0o600),
        ("etc/ssh/ssh_host_ed25519_key.pub", key.public, 0o644),
        (f"{MODEL.lstrip('/')}/config.json", json.dumps(CONFIG), 0o644),
    ):
        file = upper / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
    with (upper / MODEL.lstrip("/") / "model.safetensors").open("wb") as weights:
        weights.truncate(8 << 30)
    python = next(host.image.glob("usr/lib/python3.[0-9]*")).name.removeprefix("python")
    install(VENV, RELEASE, python, upper, flag_table(RELEASE))
    links = {link: f"/usr/local/lib/bed/{target}" for link, target in LINKS.items()}
    # Generators find nothing to generate here, and take most of the time of each daemon-reload.
    for generator in host.image.glob("usr/lib/systemd/system-generators/*"):
        links[f"etc/systemd/system-generators/{generator.name}"] = "/dev/null"
    shutil.copytree(host.folder.parent / "visited" / "deployer", upper / "var/lib/deployer", dirs_exist_ok=True)
    # What a machine of metal needs, or an initrd: here it only makes each boot and each daemon-reload slower.
    links |= {f"etc/systemd/system/{unit}": "/dev/null" for unit in IDLE}
    for link, target in links.items():
        (upper / link).parent.mkdir(parents=True, exist_ok=True)
        (upper / link).symlink_to(target)


@functools.cache
def interpreters() -> dict[Path, str]:
    """Other Pythons of this machine's pyenv, prefix -> version: the oldest that the agent runs on, and the newest."""
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = {}
    for folder in versions.glob("3.*"):
        if re.fullmatch(r"3\.\d+\.\d+", folder.name) and (folder / "bin" / "python3").exists():
            found[tuple(int(part) for part in folder.name.split("."))] = folder
    wanted = [version for version in sorted(found) if version[:2] == (3, 9)][-1:] + sorted(found)[-1:]
    return {found[version]: f"{version[0]}.{version[1]}" for version in dict.fromkeys(wanted)}
