"""Reads every server argument that a release of SGLang or of its router registers."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from deployer.protocol import records
from deployer.sglang.flag import Flag
from deployer.sglang.source import deprecation, fields
from deployer.sglang.source.choices import extensible
from deployer.sglang.source.evaluate import Evaluator
from deployer.sglang.source.modules import Sources, Unresolved
from deployer.sglang.source.registration import build, given
from deployer.sglang.source.values import Class

HOMES = {
    "sglang": (("sglang.srt.server_args", "ServerArgs"),),
    "router": (("sglang_router.router_args", "RouterArgs"), ("sglang_router.launch_router", "RouterArgs")),
}
"""Program -> where its argument class has stood, newest first."""

NEEDS = ("sglang/srt/server_args.py", "sglang/srt/arg_groups/")
"""Files that a reader on a host has to hand over; choices come from more, and are unknown without them."""


def read(files: Mapping[str, str], program: str = "sglang") -> list[Flag]:
    """The flags of ``program``, without ``--help``, in the order of registration.

    ``files`` maps paths below the folder of packages to their texts. The router's are those of
    ``sglang_router.launch_router``, without prefix. Raises Unresolved where the sources have another shape.
    """
    sources = Sources(files)
    evaluator = Evaluator(sources)
    owner = _owner(program, sources, evaluator)
    method = _method(owner)
    if method is None:
        raise Unresolved(f"{owner.module.name}: no add_cli_args")
    scope: dict[str, object] = {argument.arg: False for argument in method.args.args[1:]}
    reader = _Reader(owner, evaluator, scope)
    reader.follow(method.body)
    said = deprecation.messages([owner.module, *sources.package("sglang/srt/arg_groups/")])
    return [_told(flag, said) for flag in reader.flags]


def _owner(program: str, sources: Sources, evaluator: Evaluator) -> Class:
    for home, name in HOMES[program]:
        module = sources.module(home)
        found = evaluator.name(name, module) if module and name in module.names else None
        if isinstance(found, Class):
            return found
    raise Unresolved(f"no {HOMES[program][0][1]} in these sources")


def _method(owner: Class) -> ast.FunctionDef | None:
    for statement in owner.node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "add_cli_args":
            return statement
    return None


def _told(flag: Flag, said: Mapping[str, str | None]) -> Flag:
    """The flag with what a message of the release says of it."""
    spelling = next((spelling for spelling in flag.spellings if spelling in said), None)
    if spelling is None:
        return flag
    return records.replace(flag, deprecated=True, instead=flag.instead or said[spelling])


class _Reader:
    """Follows the body of ``add_cli_args``."""

    def __init__(self, owner: Class, evaluator: Evaluator, scope: dict[str, object]) -> None:
        self.owner = owner
        self.evaluator = evaluator
        self.scope = scope
        self.flags: list[Flag] = []

    def follow(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.If):
                true = self.evaluator.true(statement.test, self.owner.module, self.scope)
                self.follow(statement.body if true else statement.orelse)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self._call(statement.value)
            else:
                self.evaluator.bind(statement, self.owner.module, self.scope)

    def _call(self, call: ast.Call) -> None:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            self._register(call)
        elif ast.unparse(call.func) == "add_cli_args_from_dataclass":
            for owner in self._namespaces():
                self.flags.extend(fields.flags(owner, self.evaluator))

    def _register(self, call: ast.Call) -> None:
        module = self.owner.module
        names = [str(self.evaluator.value(name, module, self.scope)) for name in call.args]
        node = next((k.value for k in call.keywords if k.arg == "choices"), None)
        values = given(self._declared(call), module, self.scope, self.evaluator)
        self.flags.append(build(names, values, self.evaluator, extensible(node, module, self.evaluator)))

    def _declared(self, call: ast.Call) -> ast.Call:
        """``default=_declared_default("x")`` (0.5.20 and later) is the default of the field ``x``."""
        keywords = []
        for keyword in call.keywords:
            value = keyword.value
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "_declared_default":
                value = self._field_default(ast.literal_eval(value.args[0]))
            keywords.append(ast.keyword(keyword.arg, value))
        return ast.Call(call.func, call.args, keywords)

    def _field_default(self, name: str) -> ast.expr:
        for owner in self._namespaces():
            for statement in reversed(owner.node.body):
                if (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
                        and statement.target.id == name and statement.value is not None):
                    return ast.Constant(self.evaluator.value(statement.value, owner.module, {}))
        raise Unresolved(f"default of {name}")

    def _namespaces(self) -> list[Class]:
        """The classes that hold the fields: the class itself, or those that its module collects (0.5.20 and later)."""
        module = self.owner.module
        if "_INPUT_NAMESPACES" not in module.names:
            return [self.owner]
        collected = self.evaluator.iterate(self.evaluator.name("_INPUT_NAMESPACES", module))
        return [self.owner, *(value for value in collected if isinstance(value, Class))]
