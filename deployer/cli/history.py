"""``deployer history``."""

from __future__ import annotations

import time
from typing import Any

import click

from deployer.cli import console, run_hosts
from deployer.cli.asking import ask_hosts


@click.command("history")
@run_hosts.host_options
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], units: tuple[str, ...], as_json: bool) -> int:
    """List the releases that a host keeps of a unit: when, by whom, how it ended.

    \b
    deployer history gpu1 -u qwen3.5-397b
    """
    from deployer.rollout.units import unit_names

    space = run_hosts.workspace(ctx)
    hosts = space.resolve(names)
    wanted = {host.name: [f"{name}.service" for name in unit_names(space, host, units)] for host in hosts}
    answers, code = ask_hosts(hosts, lambda contact: [
        {"host": contact.host.name, "unit": unit, **contact.call("history", {"unit": unit})}
        for unit in wanted[contact.host.name]])
    rows = [row for host in hosts for row in answers.get(host.name, [])]
    if as_json:
        console.result_json({"units": rows})
        return code
    for row in rows:
        _show(row)
    return code


def _show(row: dict[str, Any]) -> None:
    name = str(row["unit"]).removesuffix(".service")
    if not row["releases"]:
        console.say(f"{row['host']} {name}: no release yet")
        return
    console.result(f"{row['host']} {name}")
    console.result(f"  {'':1} {'N':>3}  {'when':<16}  {'outcome':<12}  {'digest':<8}  by")
    for entry in row["releases"]:
        mark = "*" if entry["number"] == row["current"] else " "
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry["created"]))
        by = f"{entry['who']}@{entry['source']}" if entry["who"] else "(there before)"
        copy = f"  (release {entry['copy_of']} again)" if entry.get("copy_of") is not None else ""
        figures = entry.get("figures") or {}
        reason = f"  {figures['reason']}" if figures.get("reason") else ""
        console.result(f"  {mark} {entry['number']:>3}  {when}  {entry['outcome']:<12}  {entry['digest'][:8]:<8}  "
                       f"{by}{copy}{reason[:80]}")
