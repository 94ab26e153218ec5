"""``deployer flags``."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import click

from deployer.cli import console

if TYPE_CHECKING:
    from deployer.sglang.catalogue import Catalogue
    from deployer.sglang.history import Entry


@click.command("flags", context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--sglang", "release", metavar="V", help="As this release registers them (or the newest of a specifier).")
@click.option("--router", is_flag=True, help="The arguments of sglang-router, not of SGLang; V is then its release.")
@click.option("--json", "as_json", is_flag=True, help="Print the arguments as JSON.")
def command(name: str | None, release: str | None, router: bool, as_json: bool) -> None:
    """Say what is known of a server argument: releases, values, default, what stands in its place.

    Without NAME all arguments are listed: those of the release V, or all that ever were. Facts are those of the
    published wheels; plugins may add choices at run time.

    \b
    deployer flags kv-cache-dtype
    deployer flags cuda-graph-max-bs --sglang 0.5.23
    deployer flags --sglang 0.5.9 --json | jq -r '.flags[].name'
    """
    from deployer.sglang.catalogue import catalogue
    from deployer.sglang.history import entries

    known = catalogue("router" if router else "sglang")
    chosen = _release(known, release) if release else None
    found = [_one(known, name, chosen)] if name else entries(known, chosen)
    if as_json:
        console.result_json({"flags": [each.plain() for each in found]})
    elif name:
        console.result(_story(known, found[0], name, chosen))
    else:
        console.result(_table(found))


def _release(known: Catalogue, declared: str) -> str:
    """The newest known release that is meant. Raises UsageError."""
    from deployer.errors import UsageError
    from deployer.protocol.finding import Level
    from deployer.sglang.releases import meant

    found, findings = meant(known, declared)
    for finding in findings:
        if finding.level is Level.ERROR:
            raise UsageError(finding.message, hint=finding.hint)
        console.say(f"{finding.message}")
    return found[-1]


def _one(known: Catalogue, name: str, release: str | None) -> Entry:
    """Raises UsageError with what is near, or with the releases that have it."""
    from deployer.errors import UsageError
    from deployer.sglang.flag import dashed
    from deployer.sglang.history import entry
    from deployer.sglang.wording import TITLES, came, gone, near

    found = entry(known, name, release)
    if found:
        return found
    at = release or known.newest
    title = f"{TITLES[known.program]}{f' {release}' if release else ''}"
    first, last = came(known, name), gone(known, name)
    if first:
        early = known.order(at) < known.order(first)
        fate = f"came in {first}" if early else f"was removed in {last}"
        instead = known.instead(name)
        raise UsageError(f"{dashed(name)} is no argument of {title}: it {fate}",
                         hint=f"deployer flags {instead.split()[0].lstrip('-')}" if instead and last else
                         f"deployer flags {dashed(name)[2:]}")
    short = known.abbreviated(at, name)
    alike = [f"--{each}" for each in near(known, at, name)]
    listed = list(dict.fromkeys([*short[:5], *alike]))[:6]
    hint = f"near are {', '.join(listed)}" if listed else "deployer flags lists all"
    raise UsageError(f"{dashed(name)} is no argument of {title}", hint=hint)


def _story(known: Catalogue, found: Entry, name: str, release: str | None) -> str:
    from deployer.sglang.history import changes, shown, takes
    from deployer.sglang.wording import TITLES

    flag = found.flag
    lines = [console.paint(", ".join(flag.spellings), "1", sys.stdout)]
    rows = [("takes", takes(flag) + (" (plugins may add more)" if flag.open_choices else ""))]
    if flag.takes_value:
        rows.append(("default", shown(flag.default)))
    if flag.required:
        rows.append(("", "required"))
    since = f"{found.since} or earlier" if found.since == known.releases[0] else found.since
    until = f"removed in {found.removed}" if found.removed else f"still there in {known.newest}"
    rows.append(("releases", f"{TITLES[known.program]} {since}; {until}"))
    if found.deprecated:
        rows.append(("deprecated", f"since {found.deprecated}"))
    if found.successor:
        rows.append(("now", known.instead(flag.name) or found.successor))
    told = changes(known, name) if release is None else []
    rows += [(f"  {at}", words) for at, words in told[1:] if len(told) > 1]
    margin = max(len(label) for label, _ in rows) + 4
    for label, words in rows:
        wrapped = textwrap.wrap(words, console_width() - margin, break_on_hyphens=False) or [""]
        lines.append(f"  {label:<{margin - 2}}{wrapped[0]}")
        lines += [f"{'':<{margin}}{more}" for more in wrapped[1:]]
    return "\n".join(lines)


def console_width() -> int:
    """Columns of the terminal, at most 120."""
    import shutil

    return min(shutil.get_terminal_size((100, 24)).columns, 120)


def _table(found: list[Entry]) -> str:
    from deployer.sglang.history import as_table

    rows = as_table(found)
    heads = {"name": "ARGUMENT", "takes": "TAKES", "default": "DEFAULT", "since": "SINCE", "fate": ""}
    widths = {key: min(max([len(head), *(len(row[key]) for row in rows)]), 44) for key, head in heads.items()}
    lines = []
    for row in (heads, *rows):
        cells = (row[key] if len(row[key]) <= 44 else row[key][:43] + "…" for key in heads if key != "fate")
        padded = "  ".join(f"{cell:<{widths[key]}}" for key, cell in zip(heads, cells, strict=False))
        lines.append(f"{padded}  {row['fate']}".rstrip())
    return "\n".join(lines)
