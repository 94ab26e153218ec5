"""The program: its commands by name, each loaded only when it is run, and the one handler of errors."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "Write a workspace to start from."),
    "render": ("render", "Print the files of units, or write them to a folder."),
    "check": ("check", "Report all findings about the settings."),
    "plan": ("plan", "Say what will fit: weights, KV cache, tokens, host memory."),
    "diff": ("diff", "Show what a push would change."),
    "push": ("push", "Bring hosts to the declared release, verified, or back."),
    "verify": ("verify", "Run the gates alone, changing nothing."),
    "gpus": ("gpus", "Show GPUs and who holds them."),
    "clean": ("clean", "End stale GPU processes, proven ones only."),
    "status": ("status", "Show units on hosts: state, release, health."),
    "attach": ("attach", "Follow a push that is under way on a host."),
    "logs": ("logs", "Show a unit's journal, redacted."),
    "history": ("history", "List a unit's releases on a host."),
    "rollback": ("rollback", "Bring an earlier release back, verified."),
    "adopt": ("adopt", "Take hand edits on a host over into the settings."),
    "explain": ("explain", "Say what happened in an SGLang start-up log."),
    "import": ("import_", "Turn a unit file or launch command into settings."),
    "flags": ("flags", "Say what is known of an SGLang argument."),
    "schema": ("schema", "Print the JSON Schema of the settings."),
    "templates": ("templates", "List the packaged templates, or eject one."),
    "completion": ("completion", "Print the completion script of a shell."),
}
"""Command -> module in ``deployer.cli`` (its click command is named ``command``), one line for the list of commands."""


class LazyGroup(click.Group):
    """Lists the commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"deployer.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.command(cls=LazyGroup, context_settings=CONTEXT, invoke_without_command=False)
@click.option("-C", "--workspace", "workspace", metavar="DIR", default=None, envvar="DEPLOYER_WORKSPACE",
              help="The workspace (default: the nearest folder upwards that holds units/ or hosts.toml).")
@click.version_option(None, "-V", "--version", package_name="deployer", message="deployer %(version)s")
@click.pass_context
def program(ctx: click.Context, workspace: str | None) -> None:
    """Deploy SGLang model servers as systemd units: checked before the old server is touched, verified after the
    new one starts, and put back by itself when it is not good.

    \b
    deployer init my-hosts && cd my-hosts
    deployer check
    deployer push gpu1
    """
    ctx.obj = workspace


def run() -> None:
    """Runs the program and ends the process with the exit code of DESIGN section 6."""
    from deployer.cli.failure import guarded

    sys.exit(guarded(lambda: program.main(
        prog_name="deployer", complete_var="_DEPLOYER_COMPLETE", standalone_mode=False)))
