"""Builds deployer/systemd/directives.txt: which key belongs to which section, of what kind, in which systemd.

    systemd --dump-configuration-items > 252.txt          # on a machine of each release
    python scripts/directives.py 247=247.txt 252=252.txt 257=257.txt > deployer/systemd/directives.txt

The dump is systemd's own table (load-fragment-gperf.gperf.in); only names and kinds are kept. A line of the result
is ``Section Key KIND SINCE LAST``, the releases being those that were dumped and the kind that of the oldest (some
booleans take further words later: deployer/systemd/values.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

SECTIONS = ("Unit", "Service", "Install", "Timer", "Socket", "Path")


def read(text: str) -> dict[tuple[str, str], str]:
    """(section, key) -> kind, of one dump."""
    found: dict[tuple[str, str], str] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and section in SECTIONS:
            key, _, kind = line.partition("=")
            found[section, key] = kind.replace(" ", "")
    return found


def main(arguments: list[str]) -> None:
    dumps = {int(release): read(Path(file).read_text()) for release, _, file in (a.partition("=") for a in arguments)}
    keys = sorted({key for dump in dumps.values() for key in dump}, key=lambda key: (SECTIONS.index(key[0]), key[1]))
    for section, name in keys:
        releases = sorted(release for release, dump in dumps.items() if (section, name) in dump)
        print(section, name, dumps[releases[0]][section, name] or "OTHER", releases[0], releases[-1])


if __name__ == "__main__":
    main(sys.argv[1:])
