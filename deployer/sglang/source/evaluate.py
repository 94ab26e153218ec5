"""Evaluates the few kinds of expression that argument declarations are written in, without running anything.

What depends on the machine counts as unset: an environment variable is absent, a condition that cannot be told is
false. What cannot be told at all raises Unresolved.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from deployer.sglang.source.modules import Module, Sources, Unresolved
from deployer.sglang.source.values import Class, Function, Member, Method, Opaque

Scope = Mapping[str, Any]


_BUILTINS: dict[str, Any] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "sorted": sorted, "dict": dict,
    "int": int, "float": float, "str": str, "bool": bool, "len": len,
}
_METHODS = {"keys", "values", "items", "lower", "upper", "replace", "split", "join", "copy"}
_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.FloorDiv: lambda a, b: a // b, ast.Pow: lambda a, b: a**b,
    ast.BitOr: lambda a, b: a | b,
}


class Evaluator:
    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._depth = 0

    def value(self, node: ast.expr, module: Module, scope: Scope) -> Any:
        """The value of an expression of ``module``; ``scope`` holds local names. Raises Unresolved."""
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            raise Unresolved(ast.unparse(node))
        self._depth += 1
        try:
            if self._depth > 60:
                raise Unresolved(f"{module.name}: {ast.unparse(node)}: too deep")
            return method(node, module, scope)
        finally:
            self._depth -= 1

    def name(self, name: str, module: Module) -> Any:
        """The value of a top-level name of ``module``. Raises Unresolved."""
        statement = module.names.get(name)
        if isinstance(statement, ast.ClassDef):
            return Class(module, statement)
        if isinstance(statement, ast.FunctionDef):
            return Function(module, statement)
        if isinstance(statement, ast.ImportFrom):
            return self._imported(statement, name, module)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            value = self.value(statement.value, module, {})
            for call in module.changes.get(name, ()):
                value = self._changed(value, call, module, {})
            return value
        if statement is None and name in _BUILTINS:
            return _BUILTINS[name]
        origin = self.origin(name, module)
        return self.name(name, origin) if origin and origin is not module else Opaque(name)

    def origin(self, name: str, module: Module) -> Module | None:
        """The module that binds ``name``: itself, or one from which it takes every name."""
        if name in module.names:
            return module
        taken = (self.sources.module(star) for star in module.stars)
        return next((found for origin in taken if origin and (found := self.origin(name, origin))), None)

    def _imported(self, statement: ast.ImportFrom, name: str, module: Module) -> Any:
        original = next(a.name for a in statement.names if (a.asname or a.name) == name)
        source = module.origin(statement)
        home = self.sources.module(source)
        origin = self.origin(original, home) if home else None
        if origin:
            return self.name(original, origin)
        return self.sources.module(f"{source}.{original}") or Opaque(original)

    # ----- expressions, by the name of their node -----

    def _constant(self, node: ast.Constant, module: Module, scope: Scope) -> Any:
        return node.value

    def _name(self, node: ast.Name, module: Module, scope: Scope) -> Any:
        return scope[node.id] if node.id in scope else self.name(node.id, module)

    def _list(self, node: ast.List, module: Module, scope: Scope) -> Any:
        return self._elements(node.elts, module, scope)

    def _tuple(self, node: ast.Tuple, module: Module, scope: Scope) -> Any:
        return tuple(self._elements(node.elts, module, scope))

    def _set(self, node: ast.Set, module: Module, scope: Scope) -> Any:
        return set(self._elements(node.elts, module, scope))

    def _elements(self, elements: list[ast.expr], module: Module, scope: Scope) -> list[Any]:
        values: list[Any] = []
        for element in elements:
            if isinstance(element, ast.Starred):
                values.extend(self.iterate(self.value(element.value, module, scope)))
            else:
                values.append(self.value(element, module, scope))
        return values

    def _dict(self, node: ast.Dict, module: Module, scope: Scope) -> Any:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.value(value, module, scope))
                continue
            try:
                held = self.value(value, module, scope)
            except Unresolved:
                held = Opaque(ast.unparse(value))
            result[self.value(key, module, scope)] = held
        return result

    def _joinedstr(self, node: ast.JoinedStr, module: Module, scope: Scope) -> Any:
        parts = []
        for part in node.values:
            held = part.value if isinstance(part, ast.FormattedValue) else part
            parts.append(str(self.value(held, module, scope)))
        return "".join(parts)

    def _unaryop(self, node: ast.UnaryOp, module: Module, scope: Scope) -> Any:
        value = self.value(node.operand, module, scope)
        if isinstance(node.op, ast.Not):
            return not value
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        raise Unresolved(ast.unparse(node))

    def _binop(self, node: ast.BinOp, module: Module, scope: Scope) -> Any:
        left, right = self.value(node.left, module, scope), self.value(node.right, module, scope)
        try:
            return _OPERATORS[type(node.op)](left, right)
        except (KeyError, TypeError, ZeroDivisionError) as error:
            raise Unresolved(ast.unparse(node)) from error

    def _compare(self, node: ast.Compare, module: Module, scope: Scope) -> Any:
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            raise Unresolved(ast.unparse(node))
        left = self.value(node.left, module, scope)
        right = self.value(node.comparators[0], module, scope)
        if isinstance(left, Opaque) or isinstance(right, Opaque):
            raise Unresolved(ast.unparse(node))
        equal = left is right if isinstance(node.ops[0], (ast.Is, ast.IsNot)) else left == right
        return equal == isinstance(node.ops[0], (ast.Is, ast.Eq))

    def _ifexp(self, node: ast.IfExp, module: Module, scope: Scope) -> Any:
        return self.value(node.body if self.true(node.test, module, scope) else node.orelse, module, scope)

    def _lambda(self, node: ast.Lambda, module: Module, scope: Scope) -> Any:
        return Function(module, node)

    def _subscript(self, node: ast.Subscript, module: Module, scope: Scope) -> Any:
        value, index = self.value(node.value, module, scope), self.value(node.slice, module, scope)
        try:
            return value[index]
        except (TypeError, KeyError, IndexError) as error:
            raise Unresolved(ast.unparse(node)) from error

    def _listcomp(self, node: ast.ListComp, module: Module, scope: Scope) -> Any:
        generator = node.generators[0]
        if len(node.generators) != 1 or not isinstance(generator.target, ast.Name):
            raise Unresolved(ast.unparse(node))
        result = []
        for item in self.iterate(self.value(generator.iter, module, scope)):
            inner = {**scope, generator.target.id: item}
            if all(self.true(test, module, inner) for test in generator.ifs):
                result.append(self.value(node.elt, module, inner))
        return result

    def _attribute(self, node: ast.Attribute, module: Module, scope: Scope) -> Any:
        text = ast.unparse(node)
        if text == "sys.maxsize":
            return 2**63 - 1
        owner = self.value(node.value, module, scope)
        if isinstance(owner, Class):
            return self.attribute(owner, node.attr)
        if isinstance(owner, Module):
            return self.name(node.attr, owner)
        if isinstance(owner, Member) and node.attr in ("name", "value"):
            return getattr(owner, node.attr)
        if isinstance(owner, (dict, str, list, set)) and node.attr in _METHODS:
            return Method(owner, node.attr)
        if isinstance(owner, Opaque):
            return Opaque(text)
        raise Unresolved(text)

    def attribute(self, owner: Class, name: str) -> Any:
        """A class attribute, a field's default, or a member of an enumeration. Raises Unresolved."""
        for statement in owner.node.body:
            value = getattr(statement, "value", None)
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            if value is not None and any(isinstance(t, ast.Name) and t.id == name for t in targets):
                found = self.field(self.value(value, owner.module, self._body(owner, name)))
                return Member(name, found) if self._enumeration(owner) else found
        raise Unresolved(f"{owner.node.name}.{name}")

    def _body(self, owner: Class, stop: str) -> dict[str, Any]:
        """What the class body has bound before ``stop``: its attributes see each other by bare name."""
        scope: dict[str, Any] = {}
        for statement in owner.node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                if statement.targets[0].id == stop:
                    break
                try:
                    scope[statement.targets[0].id] = self.value(statement.value, owner.module, dict(scope))
                except Unresolved:
                    continue
        return scope

    def _enumeration(self, owner: Class) -> bool:
        return any(ast.unparse(base).endswith("Enum") or ast.unparse(base).endswith("Flag")
                   for base in owner.node.bases)

    def field(self, value: Any) -> Any:
        """A default as it stands, or what ``field(default_factory=…)`` makes."""
        if isinstance(value, dict) and "__factory__" in value:
            factory = value["__factory__"]
            if isinstance(factory, Function) and isinstance(factory.node, ast.Lambda):
                return self.value(factory.node.body, factory.module, {})
            if factory in (list, dict, set, tuple):
                return factory()
            raise Unresolved("default_factory")
        return value

    def _call(self, node: ast.Call, module: Module, scope: Scope) -> Any:
        text = ast.unparse(node.func)
        if text in ("os.getenv", "os.environ.get", "sys.modules.get"):
            return self.value(node.args[1], module, scope) if len(node.args) > 1 else None
        if text in ("field", "dataclasses.field", "msgspec.field"):
            given = {key.arg: key.value for key in node.keywords}
            if "default" in given:
                return self.value(given["default"], module, scope)
            return {"__factory__": self.value(given["default_factory"], module, scope)}
        function = self.value(node.func, module, scope)
        arguments = self._elements(node.args, module, scope)
        if isinstance(function, Function):
            return self._result(function, arguments)
        if isinstance(function, Method):
            return getattr(function.owner, function.name)(*arguments)
        if function in _BUILTINS.values() and not node.keywords:
            return self._builtin(function, arguments)
        raise Unresolved(ast.unparse(node))

    def _builtin(self, function: Any, arguments: list[Any]) -> Any:
        if function in (list, tuple, set, frozenset, sorted) and arguments:
            return function(self.iterate(arguments[0]))
        try:
            return function(*arguments)
        except (TypeError, ValueError) as error:
            raise Unresolved(str(error)) from error

    def iterate(self, value: Any) -> list[Any]:
        """The items of a value; the members of an enumeration. Raises Unresolved."""
        if isinstance(value, Class) and self._enumeration(value):
            names = [s.targets[0].id for s in value.node.body
                     if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)]
            return [self.attribute(value, name) for name in names if not name.startswith("_")]
        if isinstance(value, (list, tuple, dict)) or (hasattr(value, "__iter__") and not isinstance(value, str)):
            return list(value)
        raise Unresolved(f"not iterable: {value!r}")

    # ----- statements: only what small helpers of choice lists are made of -----

    def true(self, test: ast.expr, module: Module, scope: Scope) -> bool:
        """A condition; False where it cannot be told, since it then asks about the machine."""
        try:
            value = self.value(test, module, scope)
        except Unresolved:
            return False
        return not isinstance(value, Opaque) and bool(value)

    def _result(self, function: Function, arguments: list[Any]) -> Any:
        if isinstance(function.node, ast.Lambda):
            raise Unresolved("lambda")
        scope = dict(zip((a.arg for a in function.node.args.args), arguments, strict=False))
        returned, value = self.run(function.node.body, function.module, scope)
        if not returned:
            raise Unresolved(f"{function.node.name}() returns nothing")
        return value

    def run(self, body: list[ast.stmt], module: Module, scope: dict[str, Any]) -> tuple[bool, Any]:
        """Follows assignments, imports, conditions and returns; ``scope`` takes what they bind."""
        for statement in body:
            if isinstance(statement, ast.Return):
                return True, self.value(statement.value, module, scope) if statement.value else None
            if isinstance(statement, ast.If):
                branch = statement.body if self.true(statement.test, module, scope) else statement.orelse
                returned, value = self.run(branch, module, scope)
                if returned:
                    return True, value
            else:
                self.bind(statement, module, scope)
        return False, None

    def bind(self, statement: ast.stmt, module: Module, scope: dict[str, Any]) -> None:
        """Takes an assignment or import into ``scope``; anything else is passed over."""
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            try:
                scope[name] = self.value(statement.value, module, scope)
            except Unresolved:
                scope[name] = Opaque(ast.unparse(statement.value))
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                scope[alias.asname or alias.name] = self._imported(statement, alias.asname or alias.name, module)

    def _changed(self, value: Any, call: ast.Call, module: Module, scope: Scope) -> Any:
        """A list after ``NAME.extend([...])`` or ``NAME.append(...)`` on the module's top level."""
        assert isinstance(call.func, ast.Attribute)
        if not isinstance(value, list) or call.func.attr not in ("extend", "append"):
            return value
        given = self.value(call.args[0], module, scope)
        return value + (self.iterate(given) if call.func.attr == "extend" else [given])
