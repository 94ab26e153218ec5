"""The real program, whose agent carries ``bundled.py`` with it: run in a process that is forked for it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from deployer.cli import main
from deployer.remote import bundle

ROOT = Path(__file__).parents[3]

def act(argv: Sequence[str], env: Mapping[str, str], said: str) -> None:
    """Runs ``deployer ARGV`` to its end with this environment; what it says goes to the file ``said``."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(ROOT)
    for descriptor, place, flags in ((0, os.devnull, os.O_RDONLY), (1, said, os.O_WRONLY | os.O_APPEND)):
        opened = os.open(place, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.dup2(1, 2)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False)
                                         for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.argv = list(argv)
    bundle.pack = armed
    main()


def armed(package: Path) -> bundle.Bundle:
    """The agent's bundle with one module more, imported where a transaction begins."""
    files = json.loads(plain(package).plain)
    files["deployer/agent/bundled.py"] = Path(__file__).with_name("bundled.py").read_text(encoding="utf-8")
    files["deployer/agent/transact/run.py"] += "\n\nimport deployer.agent.bundled  # noqa\n"
    text = json.dumps(files, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    return bundle.Bundle(hashlib.sha256(text).hexdigest()[:32], text)


plain = bundle.pack
