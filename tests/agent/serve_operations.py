"""Operations for the tests of the server, and a server that knows them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deployer.agent import serve
from deployer.agent.door import Refusal

HERE = str(Path(__file__).parent)
Emit = Callable[..., None]


def count(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    for number in range(data["to"]):
        emit("number", {"n": number})
    return {"counted": data["to"]}


def forever(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Streams without end; says on the disk that it was unwound."""
    try:
        while True:
            emit("tick", {"filler": "x" * 100})
    finally:
        Path(data["file"]).write_text("unwound")


def quiet(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    try:
        emit("begun", {})
        time.sleep(60)
    finally:
        Path(data["file"]).write_text("unwound")
    return {}


def fault(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    raise KeyError("api_key=sk-supersecretvalue12345")


def refuse(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    raise Refusal("too-late", "it is too late", since=5)


def unserialisable(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    return {"what": object()}


def prints(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    print("a stray word on stdout")
    sys.stdout.flush()
    return {"read": sys.stdin.read()}


def exits(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    sys.exit("away")


def numbered(data: dict[str, Any], emit: Emit) -> dict[str, Any]:
    emit("old", {}, seq=41, at=1.5)
    return {}


if __name__ == "__main__":
    sys.path.insert(0, HERE)
    names = ("count", "forever", "quiet", "fault", "refuse", "unserialisable", "prints", "exits", "numbered")
    serve.OPERATIONS.update({name: "serve_operations:" + name for name in names}, missing="nowhere.at_all:x")
    if len(sys.argv) > 1:
        serve.BEAT_SECONDS = float(sys.argv[1])
    sys.exit(serve.main([]))
