"""The command line: click, lazily loaded, one file a command."""

from __future__ import annotations


def main() -> None:
    """The entry point of the ``deployer`` program."""
    from deployer.cli.program import run

    run()
