"""Fixtures of the test bed: ``host``, ``hosts``, ``operator``. See README.md beside this file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hosts.bed import Host, Hypervisor, Operator, Pool, Unable

MISSING = "no real systemd hosts here"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A run without hosts says so in its last lines: a green one must not be taken for more than it is."""
    reasons = {str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])
               if isinstance(report.longrepr, tuple) and MISSING in report.longrepr[2]}
    for reason in reasons:
        terminalreporter.write_line(f"SKIPPED: {reason.removeprefix('Skipped: ')}", red=True)
    _count_faults(terminalreporter)


def _count_faults(reporter: pytest.TerminalReporter) -> None:
    """How many cases of the fault matrix ran, and which failed."""
    passed, failed = ([report.nodeid.partition("[")[2].rstrip("]") for report in reporter.stats.get(outcome, [])
                       if "test_faults.py" in report.nodeid] for outcome in ("passed", "failed"))
    if passed or failed:
        names = ": " + " ".join(failed) if failed else ""
        reporter.write_line(f"fault matrix: {len(passed) + len(failed)} cases ran, {len(failed)} failed{names}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.hosts)


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """The run's hosts; where this machine can have none, every test that asks is skipped, or fails under CI."""
    try:
        made = Pool()
    except Unable as error:
        if os.environ.get("CI"):
            pytest.fail(f"{MISSING}: {error}", pytrace=False)
        pytest.skip(f"{MISSING}: {error}")
    yield made
    made.close()


@pytest.fixture
def hosts(pool: Pool) -> Iterator[Callable[[int], list[Host]]]:
    """``hosts(3)`` lends three pristine hosts for this test."""
    lent: list[Host] = []

    def lend(count: int) -> list[Host]:
        taken = pool.take(count)
        lent.extend(taken)
        return taken

    yield lend
    for host in lent:
        pool.give_back(host)


@pytest.fixture
def host(hosts: Callable[[int], list[Host]]) -> Host:
    """One pristine host, up, with two simulated GPUs."""
    return hosts(1)[0]


@pytest.fixture
def hypervisor(pool: Pool) -> Iterator[Hypervisor]:
    """A host that runs another one, ``hypervisor.container``, as a Proxmox machine runs an LXC container."""
    taken = pool.take_hypervisor()
    yield taken
    pool.give_back(taken)


@pytest.fixture
def operator(pool: Pool, tmp_path: Path) -> Operator:
    """The person at the other end: a home folder with ``~/.ssh`` for the run's hosts, and the ``deployer`` command."""
    return Operator(pool.keys, tmp_path / "home")
