"""Several hosts: canary, pace, stopping after failures, partial truth, the gravest code."""

from __future__ import annotations

import threading

import pytest

from deployer.errors import ConnectError, LockedError
from deployer.protocol.outcome import Outcome
from deployer.rollout.many import Pace, code, on_hosts
from deployer.rollout.view import Report
from deployer.settings.model import Host

HOSTS = [Host(f"h{number}") for number in range(6)]


def acts(outcomes: dict[str, Outcome], begun: list[str]) -> object:
    lock = threading.Lock()

    def act(host: Host) -> list[Report]:
        with lock:
            begun.append(host.name)
        return [Report(host.name, "u", outcomes.get(host.name, Outcome.DONE))]

    return act


def test_the_first_goes_alone() -> None:
    alone = threading.Event()
    begun: list[str] = []

    def act(host: Host) -> list[Report]:
        if host.name != "h0":
            assert alone.is_set()
        begun.append(host.name)
        if host.name == "h0":
            alone.set()
        return [Report(host.name, "u", Outcome.DONE)]

    reports = on_hosts(HOSTS, act, Pace(parallel=3))
    assert begun[0] == "h0"
    assert [report.host for report in reports] == [host.name for host in HOSTS]
    assert code(reports) == 0


def test_a_failed_canary_ends_it() -> None:
    begun: list[str] = []
    reports = on_hosts(HOSTS, acts({"h0": Outcome.ROLLED_BACK}, begun), Pace())  # type: ignore[arg-type]
    assert begun == ["h0"]
    assert [report.data.get("code") for report in reports[1:]] == ["not-begun"] * 5
    assert code(reports) == 4


def test_max_failures_lets_go_on() -> None:
    begun: list[str] = []
    bad = {"h0": Outcome.DARK, "h1": Outcome.ROLLED_BACK}
    reports = on_hosts(HOSTS, acts(bad, begun), Pace(parallel=1, max_failures=1))  # type: ignore[arg-type]
    assert begun == ["h0", "h1"]
    assert code(reports) == 5


@pytest.mark.parametrize(("error", "outcome"), [
    (ConnectError("h0", "no route to host"), Outcome.UNREACHED),
    (LockedError("another push"), Outcome.LOCKED),
])
def test_an_error_is_a_report(error: Exception, outcome: Outcome) -> None:
    def act(host: Host) -> list[Report]:
        raise error

    reports = on_hosts(HOSTS[:1], act, Pace())
    assert [(report.host, report.outcome) for report in reports] == [("h0", outcome)]
