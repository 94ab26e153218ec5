"""``deployer clean``."""

from __future__ import annotations

import sys

import click

from deployer.cli import run_hosts
from deployer.cli.complete import hosts as complete_hosts
from deployer.cli.complete import units as complete_units
from deployer.rollout.view import Report
from deployer.settings.model import Host


@click.command("clean")
@click.argument("names", metavar="HOST...", nargs=-1, required=True, shell_complete=complete_hosts)
@click.option("-u", "--unit", metavar="UNIT", default=None, shell_complete=complete_units,
              help="Only what is provably of this unit (default: of any unit of this tool).")
@click.option("--scope", type=click.Choice(["own", "orphans", "all"]), default="own", show_default=True,
              help="own: leftovers of this tool's units; orphans: also SGLang of nobody; all: every compute process.")
@click.option("--gpu", "gpus", multiple=True, metavar="GPU", help="Only holders of this GPU (index or UUID).")
@click.option("--dry-run", is_flag=True, help="Show what would be ended, and why, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing; with --scope all only together with --gpu.")
@click.option("--deadline", type=click.FloatRange(1), default=120.0, show_default=True, metavar="SECONDS",
              help="For the whole on one host.")
@click.option("--json", "as_json", is_flag=True, help="JSON events on stdout, one a line.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], unit: str | None, scope: str, gpus: tuple[str, ...],
            dry_run: bool, yes: bool, deadline: float, as_json: bool) -> int:
    """End stale holders of GPU memory, proven ones only, and wait until the memory is free.

    What belongs to a running unit, a container or a login session is never ended in the scopes own and orphans.
    Exit codes: 0 done or nothing to do, 1 memory is still held, 3 host not reached, 6 locked by a push, 7 refused.

    \b
    deployer clean gpu1 --dry-run
    deployer clean gpu1 --unit qwen3.5-397b
    deployer clean gpu1 --scope all --gpu 0 --gpu 1
    """
    from deployer.cli.clean_view import CleanView
    from deployer.cli.views import JsonView
    from deployer.errors import RefusedError
    from deployer.rollout.clean import Preview, Wish, clean
    from deployer.rollout.many import code, guarded

    sure = yes and (scope != "all" or bool(gpus))
    terminal = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
    if scope == "all" and not sure and not dry_run and not terminal:
        missing = "name the GPUs too (--gpu)" if yes else "--yes and the GPUs (--gpu) are needed"
        raise RefusedError(f"--scope all ends other people's processes: without a terminal to ask on, {missing}",
                           hint=f"deployer clean {' '.join(names)} --scope all --dry-run")
    wish = Wish(scope, _service(unit), gpus, dry_run, deadline)
    view = JsonView() if as_json else CleanView()

    def agree(host: Host, preview: Preview) -> bool:
        if sure or not preview.acts or not terminal:
            return True
        return click.confirm(f"{host.name}: end these?", default=False, err=True)

    def act(host: Host) -> list[Report]:
        with run_hosts.open_contact(host, view, ctx) as contact:
            return [clean(contact, wish, lambda preview: agree(host, preview))]

    reports = [report for host in run_hosts.hosts(ctx, names) for report in guarded(act, host)]
    view.finish(reports)
    return code(reports)


def _service(unit: str | None) -> str | None:
    """The unit's name as systemd has it."""
    if not unit:
        return None
    bare = unit.rsplit("/", 1)[-1].removesuffix(".toml").removesuffix(".service")
    return f"{bare}.service"
