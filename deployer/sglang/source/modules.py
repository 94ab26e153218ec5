"""Modules as syntax trees, found by name in a mapping of source texts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from deployer.protocol.records import dataclass, field


class Unresolved(Exception):
    """A value that the sources alone do not tell: it depends on the machine, or on code that would have to run."""


@dataclass
class Module:
    """``names`` maps a top-level name to the statement that binds it; ``changes`` to calls that change it after.

    ``stars`` are the modules from which it takes every name.
    """

    name: str
    tree: ast.Module
    names: dict[str, ast.stmt] = field(default_factory=dict)
    changes: dict[str, list[ast.Call]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    package: bool = False

    def origin(self, statement: ast.ImportFrom) -> str:
        """The dotted name of the module that ``statement`` imports from, relative ones filled in."""
        if not statement.level:
            return statement.module or ""
        up = statement.level - (1 if self.package else 0)
        parts = self.name.split(".")
        return ".".join(part for part in (*parts[:len(parts) - up], statement.module) if part)


class Sources:
    """``files`` maps a path below the folder of packages ("sglang/srt/server_args.py") to its text."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """The module of a dotted name; None where the files do not hold it."""
        if name not in self._modules:
            base = name.replace(".", "/")
            path = next((path for path in (f"{base}.py", f"{base}/__init__.py") if path in self.files), None)
            self._modules[name] = parse(name, path, self.files[path]) if path else None
        return self._modules[name]

    def package(self, prefix: str) -> list[Module]:
        """Every module below a folder ("sglang/srt/arg_groups/"), by path."""
        paths = sorted(path for path in self.files if path.startswith(prefix) and path.endswith(".py"))
        names = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in paths]
        return [module for name in names if (module := self.module(name))]


def parse(name: str, path: str, text: str) -> Module:
    """Raises Unresolved where the text is not Python that this interpreter reads."""
    try:
        module = Module(name, ast.parse(text), package=path.endswith("__init__.py"))
    except (SyntaxError, ValueError) as error:
        raise Unresolved(f"{name}: {error}") from error
    for statement in _flat(module.tree.body):
        _bind(module, statement)
    return module


def _flat(statements: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Statements with the bodies of ``try`` and ``if`` in place; what stands in the first branch comes first."""
    for statement in statements:
        if isinstance(statement, ast.Try):
            yield from _flat(statement.body)
            for handler in statement.handlers:
                yield from _flat(handler.body)
        elif isinstance(statement, ast.If):
            yield from _flat(statement.body)
            yield from _flat(statement.orelse)
        else:
            yield statement


def _bind(module: Module, statement: ast.stmt) -> None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value.func
        if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name):
            module.changes.setdefault(call.value.id, []).append(statement.value)
        return
    if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
        module.stars.append(module.origin(statement))
        return
    for name in bound(statement):
        module.names.setdefault(name, statement)


def bound(statement: ast.stmt) -> list[str]:
    """The names that a statement binds."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    return []
