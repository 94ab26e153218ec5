"""Builds deployer/sglang/catalogue.json from the published wheels of sglang and sglang-router.

    python scripts/build_catalogue.py            reads the releases that the file does not hold yet
    python scripts/build_catalogue.py --all      reads every release again

Wheels are fetched by pip into .cache/wheels and read as syntax trees; nothing of them is imported or run. The file
holds facts only, one argument and range of releases a line, so that a new release changes few lines.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from typing import Any

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from successors import SUCCESSORS  # noqa: E402
from wheels import WheelFiles, releases, wheel  # noqa: E402

from deployer.sglang.flag import Flag  # noqa: E402
from deployer.sglang.record import from_record, to_record  # noqa: E402
from deployer.sglang.source.modules import Unresolved  # noqa: E402
from deployer.sglang.source.reader import read  # noqa: E402

FILE = ROOT / "deployer" / "sglang" / "catalogue.json"
PROGRAMS = {"sglang": ("sglang", "0.4.0"), "router": ("sglang-router", "0.0.5")}
"""Program -> its package and the first release to hold. Router wheels before 0.0.5 declare no arguments."""

Known = dict[str, list[Flag]]
"""Release -> its flags in the order of registration."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the catalogue of server arguments from the published wheels.")
    parser.add_argument("--all", action="store_true", help="read every release again, not only new ones")
    parser.add_argument("-o", "--output", type=Path, default=FILE, help="the file to write (default: the packaged one)")
    options = parser.parse_args()
    before = json.loads(FILE.read_text("utf-8")) if FILE.exists() and not options.all else {}
    programs = {program: known(program, before.get(program)) for program in PROGRAMS}
    options.output.write_text(text({program: encode(program, flags) for program, flags in programs.items()}), "utf-8")
    for program, flags in programs.items():
        newest = list(flags)[-1]
        print(f"{program}: {len(flags)} releases, newest {newest} with {len(flags[newest])} arguments")
    return 0


def known(program: str, before: dict[str, Any] | None) -> Known:
    """Every release's flags, oldest first: those of the file as it is, and those read now."""
    package, first = PROGRAMS[program]
    held = decode(before) if before else {}
    wanted = sorted((r for r in releases(package) if Version(r) >= Version(first)), key=Version)
    flags: Known = {}
    for release in wanted:
        if release not in held:
            print(f"reading {package} {release}", file=sys.stderr)
            try:
                held[release] = read(WheelFiles(wheel(package, release)), program)
            except Unresolved as error:
                raise SystemExit(f"{package} {release}: its sources have a shape that is not known: {error}") from error
        flags[release] = held[release]
    return flags


def decode(before: dict[str, Any]) -> Known:
    """The flags by release of a catalogue file's part."""
    order = before["releases"]
    flags: Known = {release: [] for release in order}
    for first, last, record in before["flags"]:
        end = order.index(last) if last else len(order) - 1
        for release in order[order.index(first):end + 1]:
            flags[release].append(from_record(record))
    return flags


def encode(program: str, flags: Known) -> dict[str, Any]:
    """Ranges of releases in which an argument is registered alike; ``last`` is null while it still is."""
    order = list(flags)
    ranges: list[tuple[str, int, int, dict[str, Any]]] = []
    open_ranges: dict[str, int] = {}
    for index, release in enumerate(order):
        for flag in flags[release]:
            record = to_record(flag)
            at = open_ranges.get(flag.name)
            if at is not None and ranges[at][2] == index - 1 and ranges[at][3] == record:
                ranges[at] = (flag.name, ranges[at][1], index, record)
            else:
                open_ranges[flag.name] = len(ranges)
                ranges.append((flag.name, index, index, record))
    ranges.sort(key=lambda entry: (entry[0], entry[1]))
    last = len(order) - 1
    rows = [[order[start], None if end == last else order[end], record] for _, start, end, record in ranges]
    return {"releases": order, "successors": successors(program, flags), "flags": rows}


def successors(program: str, flags: Known) -> dict[str, str]:
    """Removed spelling -> what stands in its place, where the release itself did not say so.

    Written down by hand where the documentation of the releases tells; else the argument that stores into the same
    place from the removal on.
    """
    found: dict[str, str] = {}
    order = list(flags)
    for before, after in itertools.pairwise(order):
        left = {spelling for flag in flags[after] for spelling in flag.spellings}
        by_dest = {flag.dest: flag.name for flag in flags[after]}
        for flag in flags[before]:
            for spelling in flag.spellings:
                if spelling not in left and not flag.instead and flag.dest in by_dest:
                    found[spelling] = by_dest[flag.dest]
    newest = {spelling for flag in flags[order[-1]] for spelling in flag.spellings}
    found.update(SUCCESSORS[program])
    return {spelling: name for spelling, name in sorted(found.items()) if spelling not in newest}


def text(programs: dict[str, Any]) -> str:
    """JSON with one range a line."""
    def line(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    parts = []
    for program, part in programs.items():
        rows = ",\n".join(line(row) for row in part["flags"])
        named = ",\n".join(f"{line(k)}:{line(v)}" for k, v in part["successors"].items())
        listed = ",\n".join(line(release) for release in part["releases"])
        parts.append(f'"{program}":{{\n"releases":[\n{listed}\n],\n"successors":{{\n{named}\n}},\n"flags":[\n{rows}\n]}}')
    return '{"format":1,\n' + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    sys.exit(main())
