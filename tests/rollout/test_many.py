"""Several hosts: canary, pace, stopping after failures, partial truth, the gravest code."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from deployer.errors import ConnectError, LockedError
from deployer.protocol.outcome import Outcome
from deployer.rollout.many import code, on_hosts
from deployer.rollout.turns import NotBegunError, Turns
from deployer.rollout.view import Report
from deployer.settings.model import Host

HOSTS = [Host(f"h{number}") for number in range(6)]
NAMES = [host.name for host in HOSTS]


class Rollout:
    """Hosts that take their turn and then end as ``outcomes`` says; ``same`` need no change. ``order`` of the turns."""

    def __init__(self, outcomes: dict[str, Outcome] | None = None, same: tuple[str, ...] = (),
                 failures: int = 0) -> None:
        self.turns = Turns(NAMES, failures)
        self.outcomes, self.same = outcomes or {}, same
        self.order: list[str] = []
        self.looked: list[str] = []
        self.during: Callable[[str], None] = lambda host: None
        self._lock = threading.Lock()

    def act(self, host: Host) -> list[Report]:
        with self._lock:
            self.looked.append(host.name)
        if host.name in self.same:
            return [Report(host.name, "u", Outcome.NOTHING_TO_DO)]
        self.turns.take(host.name)
        with self._lock:
            self.order.append(host.name)
        self.during(host.name)
        return [Report(host.name, "u", self.outcomes.get(host.name, Outcome.DONE))]

    def run(self, parallel: int = 4) -> list[Report]:
        return on_hosts(HOSTS, self.act, parallel, self.turns)


def test_the_first_goes_alone_while_others_look() -> None:
    rollout = Rollout()
    others = threading.Barrier(3)            # the canary's end is not needed for two others to look

    def act(host: Host) -> list[Report]:
        if host.name in NAMES[:3]:
            others.wait(10)
        return Rollout.act(rollout, host)

    def during(host: str) -> None:
        if host == "h0":
            assert rollout.order == ["h0"]

    rollout.during = during
    reports = on_hosts(HOSTS, act, 3, rollout.turns)
    assert rollout.order[0] == "h0" and sorted(rollout.order) == NAMES
    assert [report.host for report in reports] == NAMES and code(reports) == 0


def test_after_the_canary_they_go_side_by_side() -> None:
    rollout = Rollout()
    both = threading.Barrier(2)
    rollout.during = lambda host: both.wait(10) if host in ("h1", "h2") else None  # type: ignore[assignment, return-value]
    assert code(rollout.run(parallel=2)) == 0


def test_the_first_that_needs_a_change_is_the_canary() -> None:
    rollout = Rollout({"h2": Outcome.ROLLED_BACK}, same=("h0", "h1"))
    reports = rollout.run(parallel=6)
    assert rollout.order == ["h2"]
    assert [report.outcome for report in reports[:3]] == [*[Outcome.NOTHING_TO_DO] * 2, Outcome.ROLLED_BACK]
    assert [report.data.get("code") for report in reports[3:]] == ["not-begun"] * 3 and code(reports) == 4


def test_nothing_to_change_needs_no_turn() -> None:
    rollout = Rollout(same=tuple(NAMES))
    together = threading.Barrier(6)

    def act(host: Host) -> list[Report]:
        together.wait(10)
        return Rollout.act(rollout, host)

    assert code(on_hosts(HOSTS, act, 6, rollout.turns)) == 0


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_failed_canary_ends_it(parallel: int) -> None:
    rollout = Rollout({"h0": Outcome.ROLLED_BACK})
    reports = rollout.run(parallel)
    assert rollout.order == ["h0"] and len(rollout.looked) <= parallel
    assert [report.data.get("code") for report in reports[1:]] == ["not-begun"] * 5
    assert code(reports) == 4


def test_max_failures_lets_go_on_with_the_next_canary() -> None:
    rollout = Rollout({"h0": Outcome.DARK, "h1": Outcome.ROLLED_BACK}, failures=1)
    reports = rollout.run(parallel=4)
    assert rollout.order == ["h0", "h1"] and code(reports) == 5
    assert [report.outcome for report in reports[:2]] == [Outcome.DARK, Outcome.ROLLED_BACK]


def test_a_host_that_is_not_reached_is_a_failure_before_any_change() -> None:
    turns = Turns(NAMES)
    turns.ended("h3", failed=True)
    with pytest.raises(NotBegunError):
        turns.take("h0")
    assert not turns.open()


def test_what_is_waited_for_is_told() -> None:
    turns = Turns(["h0", "h1"])
    told: list[str] = []
    heard = threading.Event()

    def hear(text: str) -> None:
        told.append(text)
        heard.set()

    waiting = threading.Thread(target=turns.take, args=("h1", hear))
    waiting.start()
    assert heard.wait(10) and told == ["waits for h0, which goes first"]
    assert turns.take("h0") < 10 and turns.take("h0") < 10
    turns.ended("h0", failed=False)
    waiting.join(10)
    assert not waiting.is_alive()


@pytest.mark.parametrize(("error", "outcome"), [
    (ConnectError("h0", "no route to host"), Outcome.UNREACHED),
    (LockedError("another push"), Outcome.LOCKED),
])
def test_an_error_is_a_report(error: Exception, outcome: Outcome) -> None:
    def act(host: Host) -> list[Report]:
        raise error

    reports = on_hosts(HOSTS[:1], act, 4)
    assert [(report.host, report.outcome) for report in reports] == [("h0", outcome)]
