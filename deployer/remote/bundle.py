"""The agent as it travels: its sources in one deterministic, compressed piece, named by their hash."""

from __future__ import annotations

import functools
import hashlib
import json
import threading
import zlib
from pathlib import Path

from deployer import resources
from deployer.protocol.records import dataclass

_ENTRY = (
    "import sys\n\nsys.path.insert(0, __file__.rpartition('/')[0])\n\n"
    "from deployer.agent.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"
)
"""``python3 FOLDER/__main__.py`` runs this (``python3 FOLDER`` would load ``runpy``, 7 ms); the rest comes compiled."""


@dataclass(frozen=True)
class Bundle:
    """``hash`` names the folder on the host; ``plain`` is what it is the hash of (JSON: path -> text)."""

    hash: str
    plain: bytes

    @functools.cached_property
    def payload(self) -> bytes:
        """What is sent where the folder is absent: a line with the length, and the compressed text."""
        packed = zlib.compress(self.plain, 9)
        return f"{len(packed)}\n".encode() + packed

    @functools.cached_property
    def unpacker(self) -> bytes:
        """The program that receives the payload, with its length in a line before it."""
        source = resources.package("agent", "unpack.py").read_bytes()
        program = source + b"\n\nif __name__ == '__main__':\n    arrive(i, *sys.argv[1:])\n"
        return f"{len(program)}\n".encode() + program


def bundle() -> Bundle:
    """The agent of this installation: ``deployer/__init__.py``, ``deployer/agent/**``, ``deployer/protocol/**``."""
    with _ONE:                                       # functools.cache alone makes one for each thread that comes
        return _bundle()


_ONE = threading.Lock()


@functools.cache
def _bundle() -> Bundle:
    return pack(resources.package())


def ahead() -> None:
    """Makes it aside, while a server is waited for: about 25 ms."""
    threading.Thread(target=bundle, name="bundle", daemon=True).start()


def pack(package: Path) -> Bundle:
    """The bundle of the sources under ``package`` (the folder of ``deployer``)."""
    files = {"__main__.py": _ENTRY, "deployer/__init__.py": (package / "__init__.py").read_text(encoding="utf-8")}
    for room in ("agent", "protocol"):
        for path in sorted((package / room).rglob("*")):
            if path.suffix in (".py", ".json") and path.is_file():
                files["deployer/" + path.relative_to(package).as_posix()] = path.read_text(encoding="utf-8")
    plain = json.dumps(files, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    return Bundle(hashlib.sha256(plain).hexdigest()[:32], plain)
