"""Kinds of values that only a unit's settings have: arguments, variables, directives, GPUs, secrets, releases."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from deployer.settings.model import SecretRef
from deployer.settings.scalars import Text
from deployer.settings.shape import INVALID, Field, Kind, ListOf, MapOf, Schema, Table
from deployer.settings.sink import Key, Sink
from deployer.settings.words import described, dotted, toml

_SCALAR: list[Schema] = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]


def json_merge(base: Any, over: Any) -> Any:
    """Two JSON values as one: objects key by key, anything else replaced."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {**base, **{name: json_merge(base[name], item) if name in base else item for name, item in over.items()}}


class Argument(Kind):
    """A value of a server argument. `false` leaves the flag out, so an override takes an argument away by it."""

    words = "text, a number, true, false, a list of these, or a table"
    takes_false = True

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if isinstance(value, (str, bool, int, float)):
            return value
        if isinstance(value, dict):
            return value if self._is_json(value, key, sink) else INVALID
        if isinstance(value, list):
            checks = [self._item(item, (*key, str(index)), sink) for index, item in enumerate(value)]
            return value if all(checks) else INVALID
        return self.wrong(value, key, sink, f'text stands in quotes: "{value}"')

    def _item(self, item: Any, key: Key, sink: Sink) -> bool:
        if isinstance(item, dict):
            return self._is_json(item, key, sink)
        if isinstance(item, (str, int, float)) and not isinstance(item, bool):
            return True
        hint = f'write "{str(item).lower()}" as text' if isinstance(item, bool) else ""
        message = f"`{dotted(key)}` takes text, a number or a table, not {described(item)}"
        sink.value("wrong-type", key, message, hint)
        return False

    def _is_json(self, value: Any, key: Key, sink: Sink) -> bool:
        if isinstance(value, dict):
            checks = [self._is_json(item, (*key, name), sink) for name, item in value.items()]
            return all(checks)
        if isinstance(value, list):
            checks = [self._is_json(item, (*key, str(index)), sink) for index, item in enumerate(value)]
            return all(checks)
        if isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return True
        message = f"`{dotted(key)}` is {described(value)}: a table becomes JSON, which has no such value"
        sink.value("wrong-type", key, message, "" if isinstance(value, float) else f'text stands in quotes: "{value}"')
        return False

    def merge(self, base: Any, over: Any) -> Any:
        return json_merge(base, over)

    def schema(self) -> Schema:
        table: Schema = {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}}
        items: Schema = {"anyOf": [{"type": "string"}, {"type": "number"}, table]}
        return {"anyOf": [*_SCALAR, {"type": "array", "items": items}, table]}


class Variable(Kind):
    """A value of an environment variable: text, or an integer that is written as it stands."""

    words = "text"

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, bool):
            hint = f'programs differ in what they take: write "1", "0" or "{str(value).lower()}" in quotes'
        else:
            hint = f'write {key[-1]} = "{value}"' if not isinstance(value, (dict, list)) else ""
        return self.wrong(value, key, sink, hint)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string"}, {"type": "integer"}]}


class Directive(Kind):
    """A value of a systemd directive; a list gives the directive several times."""

    words = "text, a number, true, false, or a list of these"
    takes_false = True

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if isinstance(value, (str, bool, int, float)):
            return value
        if isinstance(value, list):
            bad = [index for index, item in enumerate(value) if not isinstance(item, (str, bool, int, float))]
            for index in bad:
                path = (*key, str(index))
                message = f"`{dotted(path)}` takes text, a number, true or false, not {described(value[index])}"
                sink.value("wrong-type", path, message)
            return INVALID if bad else value
        return self.wrong(value, key, sink)

    def schema(self) -> Schema:
        return {"anyOf": [*_SCALAR, {"type": "array", "items": {"anyOf": _SCALAR}}]}


class Directives(MapOf):
    """The directives of one section of the unit file, by systemd's own names."""

    def __init__(self) -> None:
        super().__init__(Directive(), r"[A-Z][A-Za-z0-9]*|X-[A-Za-z0-9-]+", "the name of a systemd directive")

    def name_hint(self, name: str, value: Any) -> str:
        camel = "".join(part[:1].upper() + part[1:] for part in re.split(r"[-_ ]", name))
        return f"write {camel} = {toml(value)}" if self.name.fullmatch(camel) else ""


class Devices(Kind):
    """Read as "all", None (none) or a tuple of indices and UUIDs."""

    words = '"all", "none", or a list of GPU indices or UUIDs'
    _UUID = r"(GPU|MIG)-[A-Za-z0-9/-]+"

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if value in ("all", "none") and isinstance(value, str):
            return "all" if value == "all" else None
        if not isinstance(value, list):
            lone = isinstance(value, int) and not isinstance(value, bool)
            hint = f"write {key[-1]} = [{value}]" if lone or self._is_uuid(value) else ""
            return self.wrong(value, key, sink, hint)
        before = sink.errors
        for index, item in enumerate(value):
            self._item(item, value[:index], (*key, str(index)), sink)
        return INVALID if sink.errors > before else tuple(value) or None

    def _is_uuid(self, value: Any) -> bool:
        return isinstance(value, str) and bool(re.fullmatch(self._UUID, value))

    def _item(self, item: Any, earlier: list[Any], key: Key, sink: Sink) -> None:
        index = isinstance(item, int) and not isinstance(item, bool) and item >= 0
        if not index and not self._is_uuid(item):
            number = isinstance(item, str) and item.isdigit()
            hint = f"write {item}, without quotes" if number else "`nvidia-smi -L` lists them"
            message = f"`{dotted(key)}` takes an index or a UUID such as GPU-5f1c…, not {described(item)}"
            sink.value("bad-value", key, message, hint)
        elif item in earlier:
            sink.value("duplicate-value", key, f"GPU {item} stands twice in `{dotted(key[:-1])}`")

    def schema(self) -> Schema:
        item: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^{self._UUID}$"}]}
        return {"anyOf": [{"enum": ["all", "none"]}, {"type": "array", "items": item, "uniqueItems": True}]}


class Outside(Kind):
    """Whether health is also asked from the operator's machine, or the URL to ask."""

    words = 'true, false, or a URL such as "http://gpu1.example.org:30000"'
    takes_false = True
    _URL = r"https?://[^\s/]+(/\S*)?"

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if isinstance(value, bool) or (isinstance(value, str) and re.fullmatch(self._URL, value)):
            return value
        return self.wrong(value, key, sink)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": f"^{self._URL}$"}]}


_RELEASE = r"[0-9]+(\.[0-9]+)+((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[A-Za-z0-9.]+)?"
_CLAUSE = rf"(==|!=|~=|<=|>=|<|>) *{_RELEASE}(\.\*)?"


class Release(Text):
    """A release, or a specifier of releases as of PEP 440."""

    def __init__(self) -> None:
        words = 'a release such as "0.5.9" or a specifier such as ">=0.5.4,<0.6"'
        super().__init__(words, pattern=rf"{_RELEASE}| *{_CLAUSE}( *, *{_CLAUSE})* *")

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        text = super().read(value, key, sink)
        if text is INVALID or re.fullmatch(_RELEASE, text):
            return text
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            SpecifierSet(text)
        except InvalidSpecifier as error:
            sink.value("bad-value", key, f"`{dotted(key)}` takes {self.words}: {str(error).lower()}")
            return INVALID
        return text

    def hint(self, value: str, key: Key) -> str:
        bare = value.strip().lstrip("vV=")
        return f'write {key[-1]} = "{bare}"' if re.fullmatch(_RELEASE, bare) else ""


class Absolute(Text):
    """An absolute path on the host."""

    def __init__(self) -> None:
        super().__init__("an absolute path on the host", pattern=r"/.*")

    def hint(self, value: str, key: Key) -> str:
        return "the home folder is another one for the service: write the path out" if value[:1] == "~" else ""


class Secret(Table):
    """Where a secret is: exactly one of file, env and command. An override replaces the whole of it."""

    words = "where the secret is: a table with file, env or command"

    def __init__(self) -> None:
        super().__init__(
            {
                "file": Field(
                    Text("a path"),
                    "A file on the operator's machine whose text is the secret (a line feed at its end is left out); "
                    "relative to the workspace. Keep it out of git.",
                    example="secrets/qwen.key",
                ),
                "env": Field(
                    Text("the name of an environment variable", pattern=r"[A-Za-z_][A-Za-z0-9_]*"),
                    "An environment variable of the operator's shell.",
                    example="HF_TOKEN",
                ),
                "command": Field(
                    ListOf(Text(empty=True), "a list of words", 1),
                    "A command on the operator's machine that prints the secret; run without a shell.",
                    example=["pass", "show", "sglang/qwen"],
                ),
            },
            make=_secret,
            check=_one_source,
        )

    def read(self, value: Any, key: Key, sink: Sink) -> Any:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            message = f"`{dotted(key)}` says where the secret is, never the secret itself"
            hint = f'put it into a file of its own: {key[-1]} = {{ file = "secrets/{key[-1]}" }}'
            sink.value("secret-in-settings", key, message, hint)
            return INVALID
        with sink.whole():
            return super().read(value, key, sink)

    def merge(self, base: Any, over: Any) -> Any:
        return over

    def schema(self) -> Schema:
        return {**super().schema(), "oneOf": [{"required": [name]} for name in self.fields]}


def _secret(file: str | None = None, env: str | None = None, command: tuple[str, ...] | None = None) -> SecretRef:
    return SecretRef(Path(file).expanduser() if file else None, env, command)


def _one_source(written: Any, key: Key, sink: Sink) -> None:
    if len(written) > 1:
        sink.key("conflict", key, f"`{dotted(key)}` says {' and '.join(written)}", "a secret has one place: keep one")
    elif not written:
        sink.key("missing-key", key, f"`{dotted(key)}` does not say where the secret is", "write file, env or command")
