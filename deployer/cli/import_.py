"""``deployer import``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployer import exits
from deployer.cli import console

if TYPE_CHECKING:
    from deployer.intake.bring import How, Imported, Result


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option("--name", metavar="UNIT", help="The unit's name, where the file has another: it counts for %n, %p, %i.")
@click.option("--root", type=click.Path(file_okay=False, exists=True, path_type=Path), metavar="DIR",
              help="The folder that stands for / of the host (default: files/ beside FILE, else this machine's own).")
@click.option("--cwd", metavar="DIR", help="The folder in which a script would be run, as the host has it.")
@click.option("--user/--system", "user", default=None, help="A unit of a user's manager, or of the system's.")
@click.option("--home", metavar="DIR", help="That user's home folder.")
def command(
    file: str, as_json: bool, name: str | None, root: Path | None, cwd: str | None, user: bool | None, home: str | None
) -> int:
    """Turn a unit file, a script, a command line, docker run, a compose or a Quadlet file into settings.

    It is read as systemd and bash would read it, and never run. What cannot be told from the text is said, not
    guessed; what cannot be carried over stands in the settings as a remark. Traps in a unit file are reported on
    stderr. Drop-ins are taken from FILE.d/, - reads from stdin.

    \b
    deployer import /etc/systemd/system/llm.service > units/llm.toml
    deployer import start.sh --json | jq .argv
    deployer import 'python3 -m sglang.launch_server --model-path /models/x --tp 4'
    """
    from deployer.intake.bring import How

    result = _bring(file, How(root, name, cwd, user, home))
    if as_json:
        units = [_plain(result, unit) for unit in result.units]
        console.result_json(units[0] if len(units) == 1 else {"units": units})
    console.show_findings(result.findings)
    for note in result.notes:
        console.say(f"{console.paint('note', '36;1')}: {note}")
    if not as_json:
        for index, unit in enumerate(result.units):
            if len(result.units) > 1:
                console.result(f"{chr(10) if index else ''}#### units/{unit.name}.toml")
            console.result(unit.settings.rstrip("\n"))
    if not result.units:
        console.say(f"deployer: no server was found in {file}: nothing in it starts sglang.launch_server, sglang serve "
                    "or sglang_router")
        return exits.FINDINGS
    return exits.OK


def _bring(file: str, how: How) -> Result:
    from deployer.intake.bring import bring_file, bring_text, bring_unit, kind_of
    from deployer.intake.files import Files

    path = Path(file)
    if file == "-":
        data = sys.stdin.buffer.read()
    elif path.exists() or not any(char in file for char in " \n"):
        return bring_file(path, how)
    else:
        data = file.encode("utf-8", "surrogateescape")
    files = Files(how.root or Path("/"))
    label = how.name or "imported"
    kind = kind_of(label if file == "-" else "", data)
    if kind in ("unit", "quadlet"):
        suffix = ".container" if kind == "quadlet" else ".service"
        return bring_unit(data, label if label.endswith(suffix) else label + suffix, {}, files, how)
    return bring_text(data, label, kind, files, how)


def _plain(result: Result, unit: Imported) -> dict[str, Any]:
    """The shape of DESIGN section 6, and beside it what else is known."""
    launch = unit.launch
    plain: dict[str, Any] = {
        "name": unit.name,
        "argv": launch.argv if launch else None,
        "env": launch.env if launch else dict(unit.env),
        "wrapper": launch.wrapper if launch else [],
        "cwd": launch.cwd if launch else None,
        "unresolved": launch.unresolved if launch else [],
        "directives": dict(unit.directives),
        "traps": list(result.traps),
        "settings": unit.settings,
    }
    if launch and launch.exe:
        plain["exe"] = launch.exe
    if launch and launch.removed:
        plain["env_removed"] = launch.removed
    if launch and launch.sourced:
        plain["env_from_sourced_file"] = launch.sourced
    if launch and launch.container:
        plain["docker"] = launch.container
    if result.ignored:
        plain["ignored_by_systemd"] = dict(result.ignored)
    if result.notes:
        plain["notes"] = list(result.notes)
    return {**plain, **unit.extra}
