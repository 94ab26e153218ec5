"""``deployer gpus``."""

from __future__ import annotations

from typing import Any

import click

from deployer.cli import console, run_hosts
from deployer.cli.asking import ask_hosts
from deployer.cli.complete import hosts as complete_hosts


@click.command("gpus")
@click.argument("names", metavar="HOST...", nargs=-1, required=True, shell_complete=complete_hosts)
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> int:
    """Show GPUs and who holds them: whose each process is, what proves it, and how `clean` would treat it.

    Changes nothing, and needs no root on this machine (without root, less is proven). Exit code 0 when the host
    answered, also when its driver did not: what went wrong stands in `errors`.

    \b
    deployer gpus gpu1
    deployer gpus local --json
    """
    from deployer.rollout import gpus

    hosts = [gpus.readable(host) for host in run_hosts.hosts(ctx, names)]
    answers, code = ask_hosts(hosts, gpus.ask)
    told = [(host.name, answers[host.name]) for host in hosts if host.name in answers]
    if as_json:
        _json(told, len(hosts))
    else:
        from deployer.cli.gpu_table import show

        for name, answer in told:
            show(name, answer)
    return code


def _json(told: list[tuple[str, Any]], asked: int) -> None:
    from deployer.rollout import gpus

    if asked > 1:
        console.result_json({"hosts": [{"host": name, **gpus.plain(answer)} for name, answer in told]})
    elif told:
        console.result_json(gpus.plain(told[0][1]))
