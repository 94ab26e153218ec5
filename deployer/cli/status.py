"""``deployer status``."""

from __future__ import annotations

import time
from typing import Any

import click

from deployer.cli import console, run_hosts
from deployer.cli.asking import ask_hosts
from deployer.settings.model import Host


@click.command("status")
@click.argument("names", metavar="[HOST]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> int:
    """Show the units of hosts: state, since when, release, health, tokens, GPU memory, last push (default: all hosts).

    \b
    deployer status
    deployer status gpu1 @coding
    """
    from deployer.errors import UsageError

    space = run_hosts.workspace(ctx)
    hosts = space.resolve(names or tuple(space.hosts().hosts))
    if not hosts:
        raise UsageError("which host?", hint="name one, or list hosts in hosts.toml")
    answers, code = ask_hosts(hosts, lambda contact: contact.call("status", {"units": _units(contact.host)}))
    if as_json:
        console.result_json({"hosts": [{"host": host.name, **answers[host.name]} for host in hosts
                                       if host.name in answers]})
        return code
    _table([(host.name, answers[host.name]) for host in hosts if host.name in answers])
    return code


def _units(host: Host) -> list[str]:
    return [f"{name}.service" for name in host.units]


HEADS = ("HOST", "UNIT", "STATE", "SINCE", "RELEASE", "HEALTH", "TOKENS", "GPU MEM", "LAST PUSH")


def _table(answers: list[tuple[str, dict[str, Any]]]) -> None:
    """One row a unit; nothing, not even the heads, where no host answered."""
    if not answers:
        return
    rows: list[tuple[str, ...]] = [HEADS]
    notes: list[str] = []
    for host, answer in answers:
        for row in answer["units"]:
            rows.append(_row(host, row))
            # A push that is under way has files in place that are not recorded yet.
            moving = (answer.get("transaction") or {}).get("unit") == row["unit"]
            notes += [f"{host} {_short(row)}: {drift['message']}" for drift in row["drift"] if not moving]
            notes += _last(host, row)
        if not answer["units"]:
            empty = "no units of this tool" if answer.get("systemd", True) else "systemd does not run there"
            rows.append((host, "-", empty, *[""] * 6))
        elif not answer.get("systemd", True):
            notes.append(f"{host}: systemd does not run there")
        notes += _transaction(host, answer.get("transaction"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        console.result(line if number else console.paint(line, "1"))
    for note in notes:
        console.say(note)


def _row(host: str, row: dict[str, Any]) -> tuple[str, ...]:
    release = row.get("release") or {}
    health = row.get("health") or {}
    memory = row.get("gpu_memory_mib")
    tokens = health.get("tokens") or (release.get("figures") or {}).get("max_total_num_tokens")
    return (
        host, _short(row), f"{row['active']}" + (f" ({row['result']})" if row["active"] == "failed" else ""),
        str(row["since"]).removesuffix(" UTC")[4:20] or "-", str(release.get("number", "-")),
        str(health.get("text", "-")),
        f"{tokens:,}" if tokens else "-", "?" if memory is None else f"{memory / 1024:.1f} GiB" if memory else "-",
        _ago(release.get("created")) + (f" by {release['who']}" if release.get("who") else "") if release else "-",
    )


def _last(host: str, row: dict[str, Any]) -> list[str]:
    last = row.get("last") or {}
    if last.get("outcome") in (None, "done", "refused", "locked", "nothing-to-do"):
        return []
    return [f"{host} {_short(row)}: the last push ({_ago(last.get('at'))}) {last['outcome']}: {_why(last)}"]


def _why(last: dict[str, Any]) -> str:
    return str((last.get("explanation") or {}).get("cause") or last.get("reason", ""))


def _transaction(host: str, found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    unit = str(found["unit"]).removesuffix(".service")
    if found["running"]:
        return [f"{host} {unit}: a push by {found['who']} is in the step {found['step']}: deployer attach {host}"]
    return [f"{host} {unit}: a push was INTERRUPTED in the step {found['step'] or '?'}: "
            f"deployer attach {host} puts it right"]


def _short(row: dict[str, Any]) -> str:
    return str(row["unit"]).removesuffix(".service")


def _ago(at: Any) -> str:
    if not at:
        return "-"
    seconds = max(0.0, time.time() - float(at))
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name} ago"
    return f"{seconds:.0f} s ago"
