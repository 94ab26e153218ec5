"""The real program in a process of its own, forked from one that has imported it: half a second less for each."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path


def begin(
    words: Sequence[str], env: Mapping[str, str], folder: Path, streams: Sequence[str],
    prepare: Callable[[], object] | None = None,
) -> ForkServerProcess:
    """``deployer WORDS`` in ``folder``. ``streams`` are the files for its three streams.

    ``prepare`` (of a module) runs in the process, just before the program.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.hosts.bed.loaded"])
    arguments = (list(words), dict(env), str(folder), list(streams), prepare)
    process = context.Process(target=_act, args=arguments, daemon=True)
    process.start()
    return process


def _act(
    words: list[str], env: dict[str, str], folder: str, streams: list[str], prepare: Callable[[], object] | None,
) -> None:
    from deployer.cli import main

    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    for number, place in enumerate(streams):
        opened = os.open(place, os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False)
                                         for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.argv = ["deployer", *words]
    if prepare:
        prepare()
    main()
