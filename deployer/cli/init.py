"""``deployer init``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from deployer.cli.console import paint, say
from deployer.errors import UsageError

UNIT = "example"
_HOSTS = f"""\
# The hosts that units are pushed to. Hosts that ~/.ssh/config knows need nothing here: `deployer push NAME -u UNIT`.

# What holds for each host of this file that does not say otherwise.
[defaults]
user = "admin"
become = "sudo"                         # how the agent becomes root; "none" where the user who logs in is root
# port = 22
# identity-file = "~/.ssh/id_ed25519"

[hosts.gpu1]
address = "192.0.2.11"                  # a name or an address; left out: the name above, which ssh_config may know
units = ["{UNIT}"]                     # what `deployer push gpu1` brings there

# A host that is a Proxmox, LXC or Incus container: GPU memory whose holder cannot be seen from inside is looked for
# on the machine around it.
# hypervisor = {{ host = "pve1", container = 129 }}

# This host's own values for a unit, merged over units/{UNIT}.toml.
# [hosts.gpu1.overrides."{UNIT}".args]
# port = 30001

# Written @coding on the command line. A group may hold another: "@others".
[groups]
coding = ["gpu1"]
"""

_TEMPLATES = """\
# Templates

Templates of unit files that lie here come before the packaged ones of the same name:

    deployer templates                        lists the packaged ones
    deployer templates eject sglang.service   copies one here, to be edited

They are Jinja files that read like the unit file they become. `deployer render UNIT` shows the result.
"""

_IGNORED = """\
# Secrets stay out of git.
/secrets/
"""


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    """Write a workspace to start from into DIR (the current folder): units/, templates/, hosts.toml.

    Files that are there already are left as they are.

    \b
    deployer init my-hosts
    """
    from deployer import resources

    example = (resources.units() / "annotated.toml").read_text(encoding="utf-8")
    files = {
        f"units/{UNIT}.toml": (example, "a server, every key explained"),
        "hosts.toml": (_HOSTS, "where it is pushed to"),
        "templates/README.md": (_TEMPLATES, "how to edit the unit file itself"),
        ".gitignore": (_IGNORED, "keeps secrets/ out of git"),
    }
    for name, (text, about) in files.items():
        written = _write(folder / name, text)
        mark = paint("wrote", "32") if written else paint("kept ", "33")
        say(f"{mark}  {folder / name!s:<{len(str(folder)) + 24}}{about if written else 'was there already'}")
    _secrets(folder)
    _next(folder)


def _write(file: Path, text: str) -> bool:
    """Whether the file was written: one that is there is left as it is."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        if file.exists():
            return False
        raise UsageError(f"{file.parent} is no folder", hint="name another folder") from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", hint="name a folder that you can write to") from None
    return True


def _secrets(folder: Path) -> None:
    ignored = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
    if not {"secrets", "secrets/", "/secrets", "/secrets/"} & {line.strip() for line in ignored}:
        say(f"note   {folder / '.gitignore'} does not leave out secrets/: add a line /secrets/")
    (folder / "secrets").mkdir(mode=0o700, exist_ok=True)


def _next(folder: Path) -> None:
    editor = os.environ.get("EDITOR", "vi").split("/")[-1].split()[0]
    steps = [] if folder.samefile(".") else [(f"cd {folder}", "")]
    steps += [
        (f"mv units/{UNIT}.toml units/NAME.toml", "the file's name is the unit's: NAME.service"),
        (f"{editor} units/NAME.toml hosts.toml", "take out what you do not need; name the unit in hosts.toml too"),
        ("deployer check", "all that is wrong, with its place"),
        ("deployer render NAME", "the unit file as it will be"),
        ("deployer push gpu1 --dry-run", "what a push would do; nothing is changed"),
    ]
    say("\nnext:")
    for step, about in steps:
        say(f"  {step:<42}{about}".rstrip())
