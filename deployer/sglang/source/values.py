"""What an expression of a declaration can come to, beside plain values."""

from __future__ import annotations

import ast
from typing import Any

from deployer.protocol.records import dataclass
from deployer.sglang.source.modules import Module


@dataclass(frozen=True, eq=False)
class Class:
    module: Module
    node: ast.ClassDef


@dataclass(frozen=True, eq=False)
class Function:
    module: Module
    node: ast.FunctionDef | ast.Lambda


@dataclass(frozen=True)
class Member:
    """A member of an enumeration."""

    name: str
    value: Any


@dataclass(frozen=True)
class Opaque:
    """Something that is only passed on: a type function, a class of another package; known by its written name."""

    text: str


@dataclass(frozen=True, eq=False)
class Method:
    owner: Any
    name: str
