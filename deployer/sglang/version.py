"""Releases and specifiers as they are declared: "0.5.9", ">=0.5.4,<0.6".

``packaging`` is loaded at the first question that needs it: rendering a unit for a known release asks none.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version


class Unreadable(ValueError):
    """Neither a release nor a specifier."""


@functools.cache
def parsed(release: str) -> Version:
    """Raises Unreadable."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(release.strip())
    except InvalidVersion as error:
        raise Unreadable(f"{release!r} is neither a release nor a specifier") from error


def is_release(text: str) -> bool:
    """Whether ``text`` names one release, and is no specifier."""
    try:
        parsed(text)
    except Unreadable:
        return False
    return True


def specifier(text: str) -> SpecifierSet:
    """A declared release or specifier; a bare release means exactly that one. Raises Unreadable."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if is_release(text):
        return SpecifierSet(f"=={text.strip()}")
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise Unreadable(f"{text!r} is neither a release nor a specifier") from error


def matching(text: str, releases: Sequence[str]) -> list[str]:
    """The releases of ``releases`` that are meant, in their order. Raises Unreadable."""
    meant = specifier(text)
    return [release for release in releases if meant.contains(release, prereleases=True)]


def nearest(release: str, releases: Sequence[str]) -> str:
    """The newest of ``releases`` (oldest first) that is not newer than ``release``; the oldest where all are newer."""
    wanted = parsed(release)
    not_newer = [each for each in releases if parsed(each) <= wanted]
    return not_newer[-1] if not_newer else releases[0]


def at_least(release: str, bound: str) -> bool:
    """Whether ``release`` is ``bound`` or newer. Raises Unreadable."""
    return parsed(release) >= parsed(bound)
