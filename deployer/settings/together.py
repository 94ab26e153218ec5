"""What does not go together in a unit's settings, though each key alone is good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployer.protocol.finding import Level
from deployer.protocol.redact import is_secret_name
from deployer.settings.model import VerifySettings
from deployer.settings.sink import Key, Sink
from deployer.settings.spans import canonical

PROGRAMS = ("sglang", "router")
_ARGUMENT_SECRETS = ("api-key", "admin-api-key", "ssl-keyfile-password")
"""SGLang's own secrets among its arguments (SGLang 0.5.23, server_args.py)."""


def one_runtime(written: Mapping[str, Any], key: Key, sink: Sink) -> None:
    """A venv or an image; images are refused until they can be deployed."""
    if "image" in written and "python" in written:
        sink.key("conflict", (*key, "image"), "`image` and `python` exclude each other", "keep one of the two")
    elif "image" in written:
        hint = 'install SGLang into a venv on the host, and write python = "/opt/sglang/.venv/bin/python"'
        sink.key("container-not-supported", (*key, "image"), "container images cannot be deployed yet", hint)
    elif "python" not in written:
        sink.key("missing-key", key, f"`{key[0]}.python` is missing", 'write python = "/opt/sglang/.venv/bin/python"')


def waits(written: Mapping[str, Any], key: Key, sink: Sink) -> None:
    """The waits of the verifier against each other."""
    deadline = written.get("deadline", VerifySettings.deadline)
    settle, stall = written.get("settle", VerifySettings.settle), written.get("stall", 0.0)
    if not all(isinstance(wait, float) for wait in (deadline, settle, stall)):
        return
    if settle >= deadline:
        where = (*key, "settle" if "settle" in written else "deadline")
        message = "`verify.settle` does not end before `verify.deadline`"
        sink.value("conflict", where, message, "make the deadline longer")
    if stall > deadline:
        message = "`verify.stall` is longer than `verify.deadline`, which therefore always comes first"
        sink.value("no-effect", (*key, "stall"), message, "make it shorter", Level.WARNING)


def together(written: Mapping[str, Any], key: Key, sink: Sink) -> None:
    """What only the whole file shows: the program, and secrets."""
    programs = [name for name in PROGRAMS if name in written]
    if len(programs) > 1:
        sink.key(
            "conflict",
            ("router",),
            "[sglang] and [router] exclude each other",
            "a unit runs one program: make two units",
        )
    elif not programs:
        hint = 'write [sglang] with version = "0.5.9" and python = "/opt/sglang/.venv/bin/python"'
        sink.key("missing-key", (), "[sglang] is missing: which SGLang is it?", hint)
    secrets = {canonical(name) for name in _table(written, "secrets")}
    consent = any(_table(written, program).get("allow_secrets_in_argv") for program in programs)
    for table in ("args", "env"):
        for name, value in _table(written, table).items():
            where = (table, name)
            if canonical(name) in secrets:
                hint = f"keep the one under [secrets], and take {name} out of [{table}]"
                sink.key("conflict", where, f"`{name}` stands under [{table}] and under [secrets]", hint)
            elif _looks_secret(name, value):
                grave = table == "args" and canonical(name) in _ARGUMENT_SECRETS and not consent
                reader = "the command line, which" if table == "args" else "an environment that"
                message = f"`{table}.{name}` puts a secret into the settings, and into {reader} every user can read"
                hint = f'write under [secrets]: {name} = {{ file = "secrets/{name}" }}'
                sink.value("secret-in-settings", where, message, hint, Level.ERROR if grave else Level.WARNING)


def _table(written: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = written.get(name)
    return table if isinstance(table, dict) else {}


def _looks_secret(name: str, value: Any) -> bool:
    """By its name; a path is taken for the place of a secret, not for one."""
    if not isinstance(value, str) or value.lower() in ("", "none", "empty") or value[:1] == "/":
        return False
    return is_secret_name(name)
