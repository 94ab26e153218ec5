"""``deployer logs``."""

from __future__ import annotations

import threading
import time
from typing import Any

import click

from deployer.cli import console, run_hosts
from deployer.cli.asking import ask_hosts


class _Lines:
    """Log lines as they come, with the host in front when there are several."""

    def __init__(self, many: bool, as_json: bool) -> None:
        self._many, self._json, self._lock = many, as_json, threading.Lock()

    def tell(self, host: str, event: str, data: dict[str, Any]) -> None:
        if event != "log":
            return
        with self._lock:
            if self._json:
                console.result_json({"host": host, **data}, stream=True)
                return
            at = time.strftime("%b %d %H:%M:%S", time.localtime(data["at"]))
            console.result(f"{host + ' ' if self._many else ''}{at} {data['line']}")


@click.command("logs")
@run_hosts.host_options
@click.option("-n", "--lines", default=None, type=click.IntRange(1),
              help="The last lines (default: 200; with --release all).")
@click.option("-f", "--follow", is_flag=True, help="Go on showing what is logged.")
@click.option("--since", default=None, metavar="TIME", help='As journalctl reads it: "10 min ago", "today".')
@click.option("--release", default=None, type=click.IntRange(0), metavar="N",
              help="What was logged while the push of this release went on.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], units: tuple[str, ...], as_json: bool,
            lines: int | None, follow: bool, since: str | None, release: int | None) -> int:
    """Show a unit's journal, redacted: SGLang logs its arguments, keys included, so the journal itself is a secret.

    \b
    deployer logs gpu1 -u qwen3.5-397b -f
    deployer logs gpu1 -u qwen3.5-397b --release 4
    """
    from deployer.rollout.units import unit_names

    space = run_hosts.workspace(ctx)
    hosts = space.resolve(names)
    wanted = {host.name: [f"{name}.service" for name in unit_names(space, host, units)] for host in hosts}
    window = {"lines": lines, "follow": follow, "since": since, "release": release}
    view = _Lines(len(hosts) > 1 or any(len(found) > 1 for found in wanted.values()), as_json)
    answers, code = ask_hosts(hosts, lambda contact: [
        (unit, contact.call("logs", {"unit": unit, **window})) for unit in wanted[contact.host.name]], view)
    for host, found in answers.items():
        for unit, reply in found:
            if reply.get("lines") == 0:
                console.say(f"{host} {unit.removesuffix('.service')}: the journal holds no line of it")
    return code
