"""``deployer completion``."""

from __future__ import annotations

import click

from deployer.cli.console import result


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell: commands, options, units and hosts of the workspace.

    \b
    deployer completion bash > ~/.local/share/bash-completion/completions/deployer
    deployer completion zsh > ~/.zfunc/_deployer
    deployer completion fish > ~/.config/fish/completions/deployer.fish
    """
    from click.shell_completion import get_completion_class

    from deployer.cli.program import program

    kind = get_completion_class(shell)
    assert kind is not None
    result(kind(program, {}, "deployer", "_DEPLOYER_COMPLETE").source())
