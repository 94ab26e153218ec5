"""Lays a pretended virtual environment with the stand-in as its ``sglang``: ``install.py PREFIX RELEASE < FLAGS.json``.

It has what the real one shows: ``bin/python``, ``pyvenv.cfg``, ``site-packages/sglang`` and a ``dist-info`` folder that
names the release; ``python -m sglang.launch_server`` and, from 0.5.5, ``bin/sglang serve`` start the stand-in.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HOME = "/usr/local/lib/standin"
LAUNCH = f"""\
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append("{HOME}")
    sys.dont_write_bytecode = True
    from sglang_standin.program import main

    sys.exit(main(sys.argv[1:], Path(__file__).parent))
"""
SERVE = f"""\
#!PREFIX/bin/python
import sys
from pathlib import Path

sys.path.append("{HOME}")
sys.dont_write_bytecode = True
from sglang_standin.program import main

import sglang

if sys.argv[1:2] != ["serve"]:
    sys.exit("usage: sglang serve --model-path MODEL_PATH ...")
sys.exit(main(sys.argv[2:], Path(sglang.__file__).parent))
"""


def install(prefix: str, release: str, python: str, root: Path = Path("/"), flags: str = "") -> None:
    """``prefix`` as the host sees it, ``root`` where the host's disk is; ``python`` such as "3.11"."""
    home = root / prefix.lstrip("/")
    site = home / "lib" / f"python{python}" / "site-packages"
    shutil.rmtree(home, ignore_errors=True)
    (site / "sglang" / "srt").mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n")
    for name in ("python", "python3"):
        (home / "bin" / name).symlink_to("/usr/bin/python3")
    package = site / "sglang"
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text(f'__version__ = "{release}"\n')
    (package / "standin-release").write_text(release + "\n")
    (package / "launch_server.py").write_text(LAUNCH)
    if flags:
        (package / "flags.json").write_text(flags)
    if tuple(int(part) for part in release.split(".")[:3] if part.isdigit()) >= (0, 5, 5):
        script = home / "bin" / "sglang"
        script.write_text(SERVE.replace("PREFIX", prefix))
        script.chmod(0o755)
    for name, version in (("sglang", release), ("torch", "2.9.1"), ("sgl_kernel", "0.3.21")):
        folder = site / f"{name}-{version}.dist-info"
        folder.mkdir()
        shown = name.replace("_", "-")
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {shown}\nVersion: {version}\n")
        (folder / "INSTALLER").write_text("pip\n")


if __name__ == "__main__":
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    install(sys.argv[1], sys.argv[2], version, flags=sys.stdin.read())
