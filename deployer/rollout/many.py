"""Several hosts: the first alone as a canary, then a few at a time, and no further host after too many failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from deployer import exits
from deployer.errors import DeployerError
from deployer.protocol.outcome import Outcome
from deployer.protocol.records import dataclass
from deployer.rollout.report import from_error
from deployer.rollout.view import Report
from deployer.settings.model import Host

Act = Callable[[Host], list[Report]]
GOOD = (Outcome.DONE, Outcome.NOTHING_TO_DO)


@dataclass(frozen=True)
class Pace:
    """``parallel`` hosts at a time; no further one is begun after more than ``max_failures`` have failed."""

    parallel: int = 4
    max_failures: int = 0
    canary: bool = True


def on_hosts(hosts: Sequence[Host], act: Act, pace: Pace) -> list[Report]:
    """Runs ``act`` on each host; a host's error is its report, and hosts that were not begun say so. In their order."""
    if len(hosts) == 1:
        return guarded(act, hosts[0])
    results: dict[int, list[Report]] = {}
    waiting = list(range(len(hosts)))
    if pace.canary:
        first = waiting.pop(0)
        results[first] = guarded(act, hosts[first])
    with ThreadPoolExecutor(max_workers=max(1, pace.parallel), thread_name_prefix="host") as pool:
        running: dict[Future[list[Report]], int] = {}
        while waiting or running:
            while waiting and len(running) < pace.parallel and failures(results) <= pace.max_failures:
                index = waiting.pop(0)
                running[pool.submit(guarded, act, hosts[index])] = index
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                results[running.pop(future)] = future.result()
    for index in waiting:
        results[index] = [Report(hosts[index].name, "", Outcome.REFUSED, "not begun: an earlier host failed",
                                 "nothing was changed on the host", f"deployer push {hosts[index].name}",
                                 data={"code": "not-begun"})]
    return [report for index in range(len(hosts)) for report in results[index]]


def guarded(act: Act, host: Host) -> list[Report]:
    try:
        return act(host)
    except DeployerError as error:
        return [from_error(host.name, "", error)]


def failures(results: dict[int, list[Report]]) -> int:
    return sum(any(report.outcome not in GOOD for report in reports) for reports in results.values())


def code(reports: Sequence[Report]) -> int:
    """The gravest exit code."""
    return exits.gravest(exits.exit_code(report.outcome) for report in reports)
