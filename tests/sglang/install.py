"""The real SGLang without a GPU, sglang-router and a tiny model: made once, kept in the checkout's ignored cache.

``python -m tests.sglang.install`` makes them now. About 84 s and 2.8 GB, 11 s and 146 MB, 10 s and 2.8 MB.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.bed.image import cache, locked

HERE = Path(__file__).parent
SERVER = HERE / "requirements.txt"
WITHOUT_DEPENDENCIES = HERE / "requirements-without-dependencies.txt"
ROUTER = HERE / "requirements-router.txt"
MAKE_MODEL = HERE / "make_model.py"

TORCHVISION_REGISTRATIONS = ("_meta_registrations.py", "_autograd_registrations.py")
"""They declare operators of torchvision's C extension, which is linked to CUDA and cannot be loaded beside a torch for
the CPU: importing them fails, and SGLang imports torchvision. Empty, they do nothing, and no operator is used."""


class CannotInstall(Exception):
    """A step failed; the text ends with what it said last."""


@dataclass(frozen=True)
class Installed:
    """Folders of this machine: two virtual environments, a model, and the prefix of the Python they were made from."""

    server: Path
    router: Path
    model: Path
    python: Path


def install() -> Installed:
    """What is not there yet is made now; another run that makes it is waited for. Raises ``CannotInstall``."""
    python = base_python()
    server = _environment("sglang", (SERVER, WITHOUT_DEPENDENCIES), python, _make_server)
    router = _environment("sglang-router", (ROUTER,), python, _make_router)
    model = cache() / f"tiny-gpt2-{_key((MAKE_MODEL,), server.name)}"
    _make(model, lambda folder: _run([server / "bin" / "python", MAKE_MODEL, folder]))
    return Installed(server, router, model, _prefix(python))


def base_python() -> Path:
    """The Python that the environments are made from: 3.11, which the pinned releases were tried with, or this one."""
    own = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if sys.version_info[:2] == (3, 11):
        return own
    for name in filter(None, (shutil.which("python3.11"), "/usr/bin/python3.11")):
        if subprocess.run([name, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0:
            return _prefix(Path(name)) / "bin" / "python3.11"
    return own


def _prefix(python: Path) -> Path:
    return Path(_run([python, "-c", "import sys; print(sys.base_prefix)"]).strip())


def _environment(name: str, files: tuple[Path, ...], python: Path, make: Callable[[Path, Path], None]) -> Path:
    """The environment ``name-VERSION-KEY``; the key changes with everything that the result depends on."""
    pinned = "\n".join(file.read_text() for file in files)
    (version,) = re.findall(rf"^{name}==(\S+)$", pinned, re.MULTILINE)
    folder = cache() / f"{name}-{version}-{_key(files, f'{python} {TORCHVISION_REGISTRATIONS}')}"
    _make(folder, lambda building: make(python, building))
    return folder


def _key(files: tuple[Path, ...], more: str) -> str:
    text = "".join(file.read_text() for file in files) + more
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _make(folder: Path, fill: Callable[[Path], object]) -> None:
    """Fills a folder beside and renames it: it is there whole or not at all. What a killed run left is removed."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / "sglang.lock"):
        if folder.exists():
            return
        for stale in folder.parent.glob("sglang-building-*"):
            shutil.rmtree(stale)
        building = Path(tempfile.mkdtemp(prefix="sglang-building-", dir=folder.parent))
        building.chmod(0o755)
        fill(building)
        building.rename(folder)


def _make_server(python: Path, folder: Path) -> None:
    _run([python, "-m", "venv", folder])
    pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet")
    _run([*pip, "--requirement", SERVER])
    _run([*pip, "--no-deps", "--requirement", WITHOUT_DEPENDENCIES])
    (torchvision,) = folder.glob("lib/python*/site-packages/torchvision")
    for name in TORCHVISION_REGISTRATIONS:
        (torchvision / name).write_text("")


def _make_router(python: Path, folder: Path) -> None:
    _run([python, "-m", "venv", folder])
    _run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--requirement", ROUTER])


def _run(command: Sequence[str | Path]) -> str:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        words = " ".join(str(word) for word in command)
        raise CannotInstall(f"{words} exited {done.returncode}: {(done.stdout + done.stderr).strip()[-1500:]}")
    return done.stdout


if __name__ == "__main__":
    print(install())
