"""One server argument as one release registers it."""

from __future__ import annotations

from typing import Any

from deployer.protocol.records import dataclass


@dataclass(frozen=True)
class Flag:
    """One ``add_argument`` of a release, facts only.

    ``name`` is the first spelling registered, with its dashes; ``aliases`` are the others (``--no-…`` too, where the
    release registers it). ``type`` is the name of argparse's type function ("str", "int", "human_readable_int",
    "json.loads" …), "bool" where the argument takes no value. ``nargs`` is argparse's own: None (one value), a
    number, "?", "*" or "+"; 0 where it takes none. ``action`` is argparse's word ("store", "store_true", "append",
    "boolean_optional") or the name of the release's own action class. ``open_choices``: plugins may add some at run
    time. ``instead`` is what to write in its place, as the release says it ("--moe-a2a-backend deepep").
    ``refused``: the release still knows the spelling, only to stop with a message.
    """

    name: str
    aliases: tuple[str, ...] = ()
    dest: str = ""
    type: str = "str"
    choices: tuple[Any, ...] | None = None
    nargs: int | str | None = None
    default: Any = None
    required: bool = False
    action: str = "store"
    open_choices: bool = False
    deprecated: bool = False
    refused: bool = False
    instead: str | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every spelling, the first registered one first."""
        return (self.name, *self.aliases)

    @property
    def takes_value(self) -> bool:
        return self.nargs != 0

    @property
    def positional(self) -> bool:
        return not self.name.startswith("-")

    @property
    def successor(self) -> str | None:
        """The flag that stands in its place, without a value; None where there is none, or it is no flag."""
        return flag_in(self.instead)


def flag_in(text: str | None) -> str | None:
    """The flag that ``text`` begins with: ``--a-{x,y}=v`` and ``--a-x v`` both give ``--a-x``."""
    if not text or not text.startswith("--"):
        return None
    flag = text.split("=")[0].split(" ")[0]
    if "{" in flag:
        head, _, rest = flag.partition("{")
        inner, _, tail = rest.partition("}")
        flag = head + inner.split(",")[0] + tail
    return flag


def dashed(name: str) -> str:
    """A declared name as a long option: ``tp_size``, ``tp-size`` and ``--tp-size`` are all ``--tp-size``."""
    return "--" + name.lstrip("-").replace("_", "-")


def strip(name: str) -> str:
    """A spelling as it is written in settings: without its leading dashes."""
    return name.lstrip("-")
