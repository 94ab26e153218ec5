"""Prints what a release's own parser registers, as JSON: run in a process of its own, never imported.

    python own_parser.py FOLDER sglang|router
    python own_parser.py FOLDER sglang|router parse     which command lines (a JSON list on stdin) it takes

FOLDER holds the unpacked wheel. Modules that declare arguments are the release's own; every other module that they
import is a stand-in, so that nothing of torch or of the machine is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import sys
import types
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

OWN = (
    "sglang.srt.server_args", "sglang.srt.arg_groups", "sglang.srt.environ", "sglang.srt.constants",
    "sglang.srt.model_executor.cuda_graph_config", "sglang.srt.function_call.parser_names",
    "sglang.srt.parser.reasoning_parser_names", "sglang_router.router_args", "sglang_router.launch_router",
)
PACKAGES = ("sglang", "sglang.srt", "sglang.srt.model_executor", "sglang.srt.function_call", "sglang.srt.parser",
            "sglang_router")


class StandIn(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name in PACKAGES:
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = [str(self.folder / name.replace(".", "/"))]
            return spec
        if any(name == own or name.startswith(own + ".") for own in OWN):
            base = self.folder / name.replace(".", "/")
            if base.is_dir():
                return importlib.util.spec_from_file_location(
                    name, base / "__init__.py", submodule_search_locations=[str(base)])
            if base.with_suffix(".py").exists():
                return importlib.util.spec_from_file_location(name, base.with_suffix(".py"))
        if name.split(".")[0] in sys.stdlib_module_names | {"msgspec"}:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        module = StandIn(spec.name)
        module.__path__ = list(spec.submodule_search_locations or [])
        return module

    def exec_module(self, module: Any) -> None:
        pass


def plain(value: Any) -> Any:
    """The value where JSON can hold it, else a mark that it came from a stand-in."""
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return {"stand-in": True}


def takes(parser: argparse.ArgumentParser, words: list[str]) -> bool:
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            parser.parse_args(words)
    except (SystemExit, ValueError):                # a retired argument's action may raise instead of exiting
        return False
    return True


def main() -> None:
    sys.meta_path.insert(0, Finder(Path(sys.argv[1])))
    if sys.argv[2] == "sglang":
        from sglang.srt.server_args import ServerArgs as Arguments
    else:
        newer = (Path(sys.argv[1]) / "sglang_router" / "router_args.py").exists()
        name = "router_args" if newer else "launch_router"
        Arguments = importlib.import_module(f"sglang_router.{name}").RouterArgs
    parser = argparse.ArgumentParser(add_help=False)
    Arguments.add_cli_args(parser)
    if sys.argv[3:] == ["parse"]:
        print(json.dumps([takes(parser, words) for words in json.load(sys.stdin)]))
        return
    print(json.dumps([
        {
            "spellings": action.option_strings or [action.dest], "dest": action.dest,
            "action": type(action).__name__, "nargs": action.nargs, "default": plain(action.default),
            "required": action.required,
            "type": getattr(action.type, "__name__", None) if not isinstance(action.type, MagicMock) else "stand-in",
            "choices": plain(list(action.choices)) if isinstance(action.choices, (list, tuple, set, frozenset))
            else None if action.choices is None else {"stand-in": True},
        }
        for action in parser._actions
    ]))


main()
