"""``deployer explain``"""

from __future__ import annotations

import click

STYLES = {"bad": "31;1", "good": "32;1", "warn": "33;1", "head": "1"}


@click.command("explain")
@click.argument("file")
@click.option("--unit-state", "state", metavar="FILE", default=None,
              help="Properties of the unit: `systemctl show UNIT` or the same as JSON.")
@click.option("--json", "as_json", is_flag=True, help="The explanation as JSON.")
def command(file: str, state: str | None, as_json: bool) -> None:
    """Say what happened in an SGLang start-up log: cause, evidence, remedy, timeline, capacity.

    FILE is a log as SGLang wrote it or as journalctl gives it (short, short-iso, -o json; best with -a); "-" reads
    standard input. Whatever the diagnosis, the exit code is 0 when the log could be read.

    \b
    journalctl -u qwen.service -b -a | deployer explain -
    deployer explain startup.log --json
    """
    import sys

    from deployer.cli.console import paint, result, result_json
    from deployer.rollout import explain

    told = explain.explain_file(file, state)
    if as_json:
        result_json(explain.as_json(told))
        return
    for style, line in explain.for_people(told):
        result(paint(line, STYLES[style], sys.stdout) if style else line)
