"""The static reader on small sources of both shapes: what it makes of each way to declare an argument."""

from __future__ import annotations

import pytest

from deployer.sglang.flag import Flag
from deployer.sglang.record import from_record, to_record
from deployer.sglang.source.deprecation import pointer
from deployer.sglang.source.modules import Unresolved
from deployer.sglang.source.reader import read

PARSER = '''
import argparse, dataclasses, json, sys
from typing import List, Optional
from sglang.srt.lists import *
from sglang.srt.parsers import Registry

@dataclasses.dataclass
class ServerArgs:
    port: int = 30000
    size: int = 2**4
    names: List[str] = dataclasses.field(default_factory=lambda: list(NAMES))
    limit: int = sys.maxsize

    @staticmethod
    def add_cli_args(parser):
        kinds = ["auto"] + list(Registry.Map.keys())
        if unknown_machine():
            kinds.append("never")
        parser.add_argument("--port", "-p", type=int, default=ServerArgs.port, help=f"x {kinds}")
        parser.add_argument("--size", type=int, default=ServerArgs.size, choices=range_of_things())
        parser.add_argument("--names", nargs="+", default=ServerArgs.names)
        parser.add_argument("--limit", type=int, default=ServerArgs.limit, required=True)
        parser.add_argument("--kind", choices=kinds)
        parser.add_argument("--backend", choices=BACKENDS)
        parser.add_argument("--on", action="store_true")
        parser.add_argument("--both", action=argparse.BooleanOptionalAction, default=None)
        parser.add_argument("--old", action=DeprecatedAction,
                            help="'--old' is deprecated. Please use '--kind b' instead.")
        parser.add_argument("--hidden", type=json.loads, default=argparse.SUPPRESS)

class DeprecatedAction(argparse.Action):
    def __init__(self, option_strings, dest, nargs=0, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)
'''
LISTS = '''
NAMES = ("a", "b")
BACKENDS = ["triton"]
BACKENDS.extend(["aiter"])
def add_backend_choices(choices):
    BACKENDS.extend(choices)
'''
PARSERS = 'class Registry:\n    Map = {"one": Unknown, "two": Other()}\n'


def flags(server_args: str, **others: str) -> dict[str, Flag]:
    files = {"sglang/srt/server_args.py": server_args, **{f"sglang/srt/{n}.py": t for n, t in others.items()}}
    return {flag.name: flag for flag in read(files)}


def test_parser_calls() -> None:
    found = flags(PARSER, lists=LISTS, parsers=PARSERS)
    assert found["--port"] == Flag("--port", ("-p",), "port", "int", default=30000)
    assert found["--size"].default == 16 and found["--size"].choices is None and found["--size"].open_choices
    assert found["--names"] == Flag("--names", dest="names", nargs="+", default=["a", "b"])
    assert found["--limit"].required and found["--limit"].default == 2**63 - 1
    assert found["--kind"].choices == ("auto", "one", "two")
    assert found["--backend"].choices == ("triton", "aiter") and found["--backend"].open_choices
    assert found["--on"] == Flag("--on", dest="on", type="bool", nargs=0, default=False, action="store_true")
    assert found["--both"].spellings == ("--both", "--no-both") and found["--both"].action == "boolean_optional"
    old = found["--old"]
    assert (old.action, old.nargs, old.deprecated, old.instead) == ("DeprecatedAction", 0, True, "--kind b")
    assert (found["--hidden"].type, found["--hidden"].default) == ("json.loads", "==SUPPRESS==")


FIELDS = '''
from typing import Dict, List, Literal, Optional
from sglang.srt.arg_groups.fields.memory import Memory
from sglang.srt.arg_groups.arg_utils import add_cli_args_from_dataclass

class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--late", default=_declared_default("tp_size"), type=int)

_INPUT_NAMESPACES = [Memory]
ServerArgs = msgspec.defstruct("ServerArgs", [])
'''
MEMORY = '''
import json
import msgspec
from sglang.srt.arg_groups.arg_utils import A, Arg

class Memory(msgspec.Struct):
    model_path: A[str, Arg(help="m", aliases=["--model"])]
    tp_size: A[int, Arg(help="t", cli_name="--tensor-parallel-size", aliases=["--tp-size"])] = 1
    tp_size: A[int, Arg(help="twice", cli_name="--tensor-parallel-size", aliases=["--tp-size"])] = 2
    mode: A[Literal["a", "b"], "help"] = "a"
    level: A[Optional[Literal[1, 2]], "help"] = None
    sizes: A[Optional[List[int]], "help"] = None
    parsed: A[Optional[List[int]], Arg(type_parser=json.loads)] = None
    switch: A[bool, ("text in " "parts")] = False
    hidden: A[bool, Arg(no_cli=True)] = False
    plain: Optional[int] = None
    urls: A[List[str], Arg(help="u", nargs="*")] = msgspec.field(default_factory=list)
    gone: A[bool, "Deprecated. Use --mode=b instead."] = False
'''


def test_annotated_fields() -> None:
    found = flags(FIELDS, **{"arg_groups/fields/memory": MEMORY})
    assert list(found) == ["--model-path", "--tensor-parallel-size", "--mode", "--level", "--sizes", "--parsed",
                           "--switch", "--urls", "--gone", "--late"]
    assert found["--model-path"].required and found["--model-path"].aliases == ("--model",)
    assert found["--tensor-parallel-size"].dest == "tp_size" and found["--tensor-parallel-size"].default == 2
    assert (found["--mode"].choices, found["--mode"].type) == (("a", "b"), "str")
    assert (found["--level"].choices, found["--level"].type) == ((1, 2), "int")
    assert (found["--sizes"].nargs, found["--sizes"].type) == ("+", "int")
    assert (found["--parsed"].nargs, found["--parsed"].type) == (None, "json.loads")
    assert found["--switch"].action == "store_true"
    assert (found["--urls"].nargs, found["--urls"].default) == ("*", [])
    assert found["--gone"].deprecated and found["--gone"].instead == "--mode b"
    assert found["--late"].default == 2


def test_messages_of_a_release_name_what_is_deprecated() -> None:
    message = "NOTE: --on is deprecated. Please set `--kind` to 'two' instead."
    source = PARSER + f'\ndef check(args):\n    print(f"{message}")\n'
    found = flags(source, lists=LISTS, parsers=PARSERS)
    assert (found["--on"].deprecated, found["--on"].instead) == (True, "--kind two")


@pytest.mark.parametrize(("text", "instead"), [
    ("Deprecated alias for --cuda-graph-bs-decode.", "--cuda-graph-bs-decode"),
    ("(Deprecated, use --smg-grpc-mode) Legacy.", "--smg-grpc-mode"),
    ("Deprecated: it is enabled by default. Use --enforce-x to skip conditions.", None),
    ("'--a' is deprecated. Please use '--attention-backend triton' instead.", "--attention-backend triton"),
    ("Deprecated. Use --g-{decode,prefill}=disabled instead.", "--g-{decode,prefill} disabled"),
    ("[Deprecated] Use SGLANG_X=1 and SGLANG_Y=1 instead.", "SGLANG_X=1 and SGLANG_Y=1"),
])
def test_pointers(text: str, instead: str | None) -> None:
    assert pointer(text) == instead


def test_another_shape_is_said_and_never_guessed() -> None:
    with pytest.raises(Unresolved):
        flags("class ServerArgs:\n    pass\n")
    with pytest.raises(Unresolved):
        flags("x = (")
    with pytest.raises(Unresolved):
        flags("class ServerArgs:\n    def add_cli_args(parser):\n        parser.add_argument(name_of_it())\n")


def test_records_give_the_same_flag_back() -> None:
    for flag in flags(PARSER, lists=LISTS, parsers=PARSERS).values():
        assert from_record(to_record(flag)) == flag
