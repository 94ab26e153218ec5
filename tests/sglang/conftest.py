"""Fixtures of the tests with the real SGLang: one host for the module, with all that is installed bound into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.bed import Operator, Pool, Unable
from tests.sglang.install import CannotInstall, install
from tests.sglang.scene import Scene, binds

MISSING = "no real SGLang here"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A run without it says so in its last lines: a green one must not be taken for more than it is."""
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple) and MISSING in report.longrepr[2]:
            terminalreporter.write_line(f"SKIPPED: {report.longrepr[2].removeprefix('Skipped: ')}", red=True)
            return


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.sglang)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A host that has the real SGLang, and its operator. Where there can be none: skipped, under CI failed."""
    try:
        pool = Pool()
    except Unable as error:
        _unable(error)
    try:
        (host,) = pool.take(1, options=binds(install()))
        yield Scene(host, Operator(pool.keys, tmp_path_factory.mktemp("operator") / "home"))
    except CannotInstall as error:
        _unable(error)
    finally:
        pool.close()


def _unable(error: Exception) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{MISSING}: {error}", pytrace=False)
    pytest.skip(f"{MISSING}: {error}")
