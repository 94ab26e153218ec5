"""How an argument is spelled in the declared release: full names only, since an abbreviation breaks with the next
flag that begins alike."""

from __future__ import annotations

import functools

from deployer.sglang.catalogue import Catalogue, catalogue
from deployer.sglang.flag import Flag, dashed
from deployer.sglang.version import Unreadable


class Spelling:
    """Spellings for a declared release or specifier. What no catalogue knows is taken as it is written."""

    def __init__(self, known: Catalogue, declared: str, release: str) -> None:
        self._known = known
        self._declared = declared
        self._release = release
        self._options: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The long option for a declared name, in a form that every allowed release takes where there is one."""
        if name not in self._options:
            self._options[name] = self._option(name)
        return self._options[name]

    def _option(self, name: str) -> str:
        try:
            return self._known.spelling(self._declared, name) or dashed(name)
        except Unreadable:
            return dashed(name)

    def dest(self, name: str) -> str:
        """The name under which SGLang keeps the value ("tp_size")."""
        flag = self._flag(self.of(name))
        return flag.dest if flag and flag.dest else dashed(name)[2:].replace("-", "_")

    def negative(self, option: str) -> str | None:
        """``--no-x`` where the release registers it for ``--x``."""
        flag = self._flag(option)
        negative = "--no-" + option.removeprefix("--")
        return negative if flag and negative in flag.spellings else None

    def takes_boolean(self, option: str) -> bool:
        """Whether the argument wants a word behind it even where it is declared as true or false."""
        flag = self._flag(option)
        return bool(flag and flag.nargs is None and flag.type == "json.loads")

    def _flag(self, option: str) -> Flag | None:
        if not self._release:
            return None
        return self._known.find(self._known.standing(self._release), option)


@functools.lru_cache(maxsize=64)
def spelling(declared: str, release: str, program: str) -> Spelling:
    """``release`` is the lowest that ``declared`` takes in, "" where that is not known."""
    return Spelling(catalogue(program), declared, release)
