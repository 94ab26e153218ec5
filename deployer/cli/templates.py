"""``deployer templates``."""

from __future__ import annotations

from pathlib import Path

import click

from deployer.cli import console

_NAMES = """
    What a template knows, each already quoted for its place:

    \b
    unit, name             qwen.service, qwen
    source                 the settings' file, for remarks
    description            for Description=
    command_line           wrapper, interpreter and module
    arguments              the arguments, one entry each, the config file last
    environment            the variables of [env], for Environment=
    environment_file       the file with the secret variables, or ""
    load_credential        for LoadCredential=, or ""
    search_path            PATH with the virtual environment in front
    cache, cache_directory the unit's own cache, as a path and for CacheDirectory=
    gpu, visible_devices   whether GPUs are meant, and which ("" for all)
    mounts                 model and virtual environment, for RequiresMountsFor=
    writable               paths of [env] that ProtectSystem= would make read-only
    private_tmp            whether nothing in the settings lies below /tmp
    success_exit_status, restart_force_exit_status, restart_prevent_exit_status
    restart_sec, start_limit_burst, start_limit_interval, stop_timeout
    watch                  whether there is a [watch] timer

    As they are, to be quoted: args, env, settings, release; with the filters word (an argument of ExecStart=), path,
    text (Description=), program, and the function environment(name, value).
"""


def command_help(function: click.Command) -> click.Command:
    """Adds the list of names to the command's help."""
    function.help = (function.help or "") + _NAMES
    return function


@click.group("templates", invoke_without_command=True)
@click.pass_context
def group(ctx: click.Context) -> None:
    """List the packaged templates, or copy one into the workspace to change it there.

    The workspace's own templates/NAME.j2 comes before the packaged one of the same name, also where another template
    includes it.

    \b
    deployer templates
    deployer templates eject sglang.service
    """
    if ctx.invoked_subcommand is None:
        _list(ctx)


@group.command("eject", short_help="Copy a packaged template into the workspace.")
@click.argument("name")
@click.option("--force", is_flag=True, help="Overwrite the workspace's own.")
@click.pass_context
def eject(ctx: click.Context, name: str, force: bool) -> None:
    """Copy the packaged template NAME to the workspace's templates/, where it comes first.

    \b
    deployer templates eject sglang.service
    """
    from deployer.errors import UsageError
    from deployer.render import templates
    from deployer.resources import templates as packaged
    from deployer.settings.workspace import Workspace

    bare = name.removesuffix(templates.SUFFIX)
    if bare not in templates.names():
        raise UsageError(f"there is no packaged template {name}", hint=f"there are: {', '.join(templates.names())}")
    workspace = Workspace.find(Path(ctx.obj) if ctx.obj else None)
    place = workspace.root / "templates" / (bare + templates.SUFFIX)
    origin = packaged() / (bare + templates.SUFFIX)
    if place.exists() and not force:
        same = place.read_bytes() == origin.read_bytes()
        raise UsageError(f"{place} is there already" + (", equal to the packaged one" if same else ""),
                         hint="change it as it is, or overwrite it with --force")
    place.parent.mkdir(parents=True, exist_ok=True)
    if not (place.exists() and place.samefile(origin)):
        place.write_bytes(origin.read_bytes())
    console.result(str(place))


def _list(ctx: click.Context) -> None:
    from deployer.errors import UsageError
    from deployer.render import templates
    from deployer.settings.workspace import Workspace

    try:
        own = Workspace.find(Path(ctx.obj) if ctx.obj else None).templates
    except UsageError:
        own = None
    names = sorted({*templates.names(), *(path.name.removesuffix(templates.SUFFIX)
                                          for path in (own.glob(f"*{templates.SUFFIX}") if own else ()))})
    for name in names:
        console.result(f"{name:28} {templates.source(name, own)}")


command = command_help(group)
