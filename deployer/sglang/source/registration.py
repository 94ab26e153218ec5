"""What ``add_argument`` makes of its arguments: argparse's own rules, and those of a release's action classes."""

from __future__ import annotations

import ast
from typing import Any

from deployer.sglang.flag import Flag
from deployer.sglang.source import deprecation
from deployer.sglang.source.evaluate import Evaluator, Scope
from deployer.sglang.source.modules import Module, Unresolved
from deployer.sglang.source.values import Class, Opaque

ABSENT = object()

_PLAIN_ACTIONS = {"store", "store_true", "store_false", "store_const", "append", "append_const", "count", "extend"}
_NO_VALUE = {"store_true": False, "store_false": True, "store_const": None, "append_const": None, "count": None}
_TYPE_NAMES = {str: "str", int: "int", float: "float", bool: "bool", list: "list", dict: "dict"}


def build(names: list[str], given: dict[str, Any], evaluator: Evaluator, open_choices: bool) -> Flag:
    """The flag of one registration. ``given`` holds the evaluated keywords, ``help`` among them."""
    dest = given.get("dest") or _dest(names)
    action, defaults = _action(given.get("action"), evaluator)
    nargs: Any = given.get("nargs", defaults.get("nargs"))
    default = given.get("default", defaults.get("default"))
    if action == "boolean_optional":
        names = [*names, *("--no-" + name[2:] for name in names if name.startswith("--"))]
    choices = given.get("choices")
    if isinstance(choices, Opaque):
        choices, open_choices = None, True
    if isinstance(choices, (set, frozenset)):
        choices = sorted(choices)
    said = deprecation.of_registration(action, given, bool(defaults.get("raises")))
    return Flag(
        name=names[0], aliases=tuple(names[1:]), dest=dest,
        type="bool" if nargs == 0 else _type(given.get("type")),
        choices=tuple(evaluator.iterate(choices)) if choices is not None else None,
        nargs=nargs, default=_plain(default),
        required=bool(given.get("required", False)) or (not names[0].startswith("-") and nargs not in ("?", "*")),
        action=action, open_choices=open_choices and (choices is None or bool(choices)),
        deprecated=said.deprecated, refused=said.refused, instead=said.instead,
    )


def _dest(names: list[str]) -> str:
    """argparse's rule: the first long option, else the first name."""
    name = next((name for name in names if name.startswith("--")), names[0])
    return name.lstrip("-").replace("-", "_")


def _type(function: Any) -> str:
    if function is None:
        return "str"
    if isinstance(function, type):
        return _TYPE_NAMES[function]
    if isinstance(function, Opaque):
        return function.text
    return str(getattr(getattr(function, "node", None), "name", "") or "str")


def _plain(value: Any) -> Any:
    """A default as JSON can hold it. Raises Unresolved."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Opaque) and value.text == "argparse.SUPPRESS":
        return "==SUPPRESS=="
    if hasattr(value, "value"):
        return _plain(value.value)
    raise Unresolved(f"default {value!r}")


def _action(action: Any, evaluator: Evaluator) -> tuple[str, dict[str, Any]]:
    """The action's name, and the ``nargs`` and ``default`` that it brings itself."""
    if action is None:
        return "store", {}
    if isinstance(action, str) and action in _PLAIN_ACTIONS:
        return action, {"nargs": 0, "default": _NO_VALUE[action]} if action in _NO_VALUE else {}
    if isinstance(action, Opaque) and action.text.endswith("BooleanOptionalAction"):
        return "boolean_optional", {"nargs": 0}
    if isinstance(action, Class):
        return action.node.name, {**_constructor(action, evaluator), "raises": _raises(action)}
    raise Unresolved(f"action {action!r}")


def _constructor(action: Class, evaluator: Evaluator) -> dict[str, Any]:
    """Defaults of ``__init__``'s own parameters, and what it hands to ``super().__init__`` as constants."""
    for statement in action.node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = statement.args.args
            defaults = statement.args.defaults
            pairs = zip(arguments[len(arguments) - len(defaults):], defaults, strict=True)
            found = {a.arg: evaluator.value(d, action.module, {}) for a, d in pairs}
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
                    constants = {k.arg: k.value.value for k in call.keywords
                                 if k.arg and isinstance(k.value, ast.Constant)}
                    found.update(constants)
            return {key: found[key] for key in ("nargs", "default") if key in found}
    return {}


def _raises(action: Class) -> bool:
    """Whether the action does nothing but stop: its ``__call__`` ends in a ``raise`` whatever it is given."""
    calls = (s for s in action.node.body if isinstance(s, ast.FunctionDef) and s.name == "__call__")
    return any(isinstance(statement, ast.Raise) for call in calls for statement in call.body)


def given(call: ast.Call, module: Module, scope: Scope, evaluator: Evaluator) -> dict[str, Any]:
    """The keywords of an ``add_argument`` or ``Arg`` call, evaluated; a help text that depends on more is dropped."""
    values: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in ("metavar", "const"):
            continue
        try:
            values[keyword.arg] = evaluator.value(keyword.value, module, scope)
        except Unresolved:
            if keyword.arg == "help":
                values["help"] = _literal_text(keyword.value)
            elif keyword.arg == "choices":
                values["choices"] = Opaque(ast.unparse(keyword.value))
            else:
                raise
    return values


def _literal_text(node: ast.expr) -> str:
    return "".join(n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
