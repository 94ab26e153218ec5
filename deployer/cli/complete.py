"""What the shells complete: names from the workspace, read without validating anything."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem


def _space(ctx: click.Context) -> object:
    from deployer.settings.workspace import Workspace

    root = ctx.find_root()
    given = root.params.get("workspace")
    return Workspace.find(Path(given) if given else None)


def units(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Units of the workspace."""
    from deployer.errors import DeployerError
    from deployer.settings.workspace import Workspace

    try:
        space = _space(ctx)
        assert isinstance(space, Workspace)
        return [CompletionItem(name) for name in space.unit_names() if name.startswith(incomplete)]
    except DeployerError:
        return []


def hosts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Hosts and @groups of hosts.toml, and ``local``."""
    from deployer.errors import DeployerError
    from deployer.settings.workspace import Workspace

    names = ["local"]
    try:
        space = _space(ctx)
        assert isinstance(space, Workspace)
        known = space.hosts()
        names += [*known.hosts, *(f"@{group}" for group in known.groups)]
    except DeployerError:
        pass
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
