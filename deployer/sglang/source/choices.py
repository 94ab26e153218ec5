"""Whether plugins may add choices at run time: a list with an ``add_…_choices`` helper, or a registry of parsers."""

from __future__ import annotations

import ast

from deployer.sglang.source.evaluate import Evaluator
from deployer.sglang.source.modules import Module

_REGISTRIES = ("DetectorMap", "ToolCallParserEnum", "reasoning_parser_choices", "tool_call_parser_choices")


def extensible(node: ast.expr | None, module: Module, evaluator: Evaluator) -> bool:
    """Whether the list that ``node`` names can grow: SGLang's extension points and its parser registries."""
    if node is None:
        return False
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    if names.intersection(_REGISTRIES):
        return True
    return any(_extended(name, _home(name, module, evaluator)) for name in names)


def _home(name: str, module: Module, evaluator: Evaluator) -> Module:
    """The module that defines a list which ``module`` imports."""
    home = evaluator.origin(name, module) or module
    statement = home.names.get(name)
    if isinstance(statement, ast.ImportFrom):
        source = evaluator.sources.module(home.origin(statement))
        return _home(name, source, evaluator) if source and source is not home else home
    return home


def _extended(name: str, home: Module) -> bool:
    """Whether ``home`` extends the list in a function, or hands out its ``extend`` or ``append``."""
    for bound, statement in home.names.items():
        if not bound.startswith("add_"):
            continue
        for node in ast.walk(statement):
            if (isinstance(node, ast.Attribute) and node.attr in ("extend", "append")
                    and isinstance(node.value, ast.Name) and node.value.id == name):
                return True
    return False
