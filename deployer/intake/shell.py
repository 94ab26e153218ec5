"""A script, or one command line, read as bash would read it."""

from __future__ import annotations

from deployer.intake.files import Files
from deployer.intake.found import Launch
from deployer.intake.machine import Machine, World
from deployer.intake.run import script


def read(text: str, files: Files, *, name: str = "input.sh", cwd: str | None = None) -> tuple[list[Launch], list[str]]:
    """The servers that a script would start, and what could not be followed. ``cwd``: where it would be run.

    Never runs anything, and reads no file but those that the script itself reads, through ``files``.
    """
    world = World(files)
    machine = Machine(world, start=cwd)
    machine.script = name
    script(machine, text.removeprefix("\ufeff"))
    return world.launches, world.notes
