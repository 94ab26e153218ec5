"""Arguments declared as annotated fields: ``name: A[T, Arg(...)] = default`` (SGLang 0.5.14 and later).

The rules are those of ``sglang/srt/arg_groups/arg_utils.py``, ``add_cli_args_from_dataclass``: a Literal gives
choices, a list "+" values, a bool a switch, and a field without a default is required.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from deployer.sglang.flag import Flag
from deployer.sglang.source.choices import extensible
from deployer.sglang.source.evaluate import Evaluator
from deployer.sglang.source.modules import Module, Unresolved
from deployer.sglang.source.registration import ABSENT, build, given
from deployer.sglang.source.values import Class

_SCALARS = {"str": str, "int": int, "float": float}


def flags(owner: Class, evaluator: Evaluator) -> Iterator[Flag]:
    """The flags of a class's annotated fields, in order; of a field declared twice (0.5.15) the later one counts.

    Raises Unresolved.
    """
    declared = {
        statement.target.id: statement for statement in owner.node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    for field, statement in declared.items():
        flag = _flag(statement, field, owner.module, evaluator)
        if flag:
            yield flag


def _flag(statement: ast.AnnAssign, field: str, module: Module, evaluator: Evaluator) -> Flag | None:
    annotation = statement.annotation
    if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("A", "Annotated")
            and isinstance(annotation.slice, ast.Tuple)):
        return None
    declared, *metadata = annotation.slice.elts
    arg = _metadata(metadata, module, evaluator)
    if arg is None or arg.get("no_cli"):
        return None
    name = arg.get("cli_name") or "--" + field.replace("_", "-")
    names = [name, *(arg.get("aliases") or [])]
    values = {"dest": field, "help": arg.get("help", "")}
    default = _default(statement, module, evaluator)
    if default is not ABSENT:
        values["default"] = default
    _shape(values, _optional(declared), arg, default is ABSENT)
    return build(names, values, evaluator, extensible(_choices_node(metadata), module, evaluator))


def _metadata(metadata: list[ast.expr], module: Module, evaluator: Evaluator) -> dict[str, Any] | None:
    """The keywords of ``Arg(...)``; a bare text is its help."""
    for node in metadata:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Arg":
            return given(node, module, {}, evaluator)
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            try:
                return {"help": evaluator.value(node, module, {})}
            except Unresolved:
                return {"help": ""}
    return None


def _choices_node(metadata: list[ast.expr]) -> ast.expr | None:
    calls = [node for node in metadata if isinstance(node, ast.Call) and ast.unparse(node.func) == "Arg"]
    return next((k.value for call in calls for k in call.keywords if k.arg == "choices"), None)


def _default(statement: ast.AnnAssign, module: Module, evaluator: Evaluator) -> Any:
    if statement.value is None:
        return ABSENT
    return evaluator.field(evaluator.value(statement.value, module, {}))


def _optional(node: ast.expr) -> ast.expr:
    """The type inside ``Optional[…]`` or ``… | None``."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Optional":
        return node.slice
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides = [side for side in (node.left, node.right) if ast.unparse(side) != "None"]
        if len(sides) == 1:
            return sides[0]
    return node


def _shape(values: dict[str, Any], declared: ast.expr, arg: dict[str, Any], absent: bool) -> None:
    """Sets action, type, nargs, choices and required as the declared type asks."""
    head = ast.unparse(declared.value) if isinstance(declared, ast.Subscript) else ast.unparse(declared)
    parser = arg.get("type_parser")
    if arg.get("action") is not None:
        values["action"] = arg["action"]
        values.update(arg.get("action_kwargs") or {})
    elif head == "Literal" and isinstance(declared, ast.Subscript):
        literals = ast.literal_eval(declared.slice)
        literals = literals if isinstance(literals, tuple) else (literals,)
        values["choices"] = arg.get("choices") or literals
        values["type"] = parser or _SCALARS.get(type(literals[0]).__name__, str)
    elif head in ("List", "list") and parser is None:
        element = ast.unparse(declared.slice) if isinstance(declared, ast.Subscript) else "str"
        values.update(type=_SCALARS.get(element, str), nargs=arg.get("nargs") or "+")
        if arg.get("choices"):
            values["choices"] = arg["choices"]
    elif head == "bool":
        values["action"] = "store_true"
    else:
        values["type"] = parser or _SCALARS.get(head, str)
        values.update({key: arg[key] for key in ("choices", "nargs") if arg.get(key)})
        values["required"] = arg.get("required") is True or (arg.get("required") is None and absent)
