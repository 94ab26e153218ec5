"""Packaged data: beside the package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def templates() -> Path:
    """The folder of the packaged templates."""
    return _folder("templates")


def units() -> Path:
    """The folder of the example units."""
    return _folder("units")


def package(*names: str) -> Path:
    """The folder of one or more subpackages: the agent's sources, data files that lie beside their code."""
    return _PACKAGE.joinpath(*names)
