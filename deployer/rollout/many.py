"""Several hosts at a time, each with its own truth; which of them may be changed, and when, says ``turns``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from deployer import exits
from deployer.errors import DeployerError
from deployer.protocol.outcome import Outcome
from deployer.rollout.report import from_error
from deployer.rollout.turns import NotBegunError, Turns
from deployer.rollout.view import Report
from deployer.settings.model import Host

Act = Callable[[Host], list[Report]]
GOOD = (Outcome.DONE, Outcome.NOTHING_TO_DO)


def on_hosts(hosts: Sequence[Host], act: Act, parallel: int, turns: Turns | None = None) -> list[Report]:
    """Runs ``act`` on each host, ``parallel`` at a time; a host's error is its report. In the order of ``hosts``.

    With ``turns`` none is begun any more after too many failures; those say that they were not.
    """
    turns = turns or Turns([host.name for host in hosts], len(hosts))
    results: dict[int, list[Report]] = {}
    waiting = list(range(len(hosts)))
    with ThreadPoolExecutor(max_workers=max(1, min(parallel, len(hosts))), thread_name_prefix="host") as pool:
        running: dict[Future[list[Report]], int] = {}
        while waiting or running:
            while waiting and len(running) < parallel and turns.open():
                index = waiting.pop(0)
                running[pool.submit(_one, act, hosts[index], turns)] = index
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                results[running.pop(future)] = future.result()
    for index in waiting:
        results[index] = [not_begun(hosts[index])]
    return [report for index in range(len(hosts)) for report in results[index]]


def _one(act: Act, host: Host, turns: Turns) -> list[Report]:
    failed = True
    try:
        reports = guarded(act, host)
        failed = any(report.outcome not in GOOD for report in reports)
        return reports
    finally:
        turns.ended(host.name, failed)


def guarded(act: Act, host: Host) -> list[Report]:
    try:
        return act(host)
    except NotBegunError:
        return [not_begun(host)]
    except DeployerError as error:
        return [from_error(host.name, "", error)]


def not_begun(host: Host) -> Report:
    return Report(host.name, "", Outcome.REFUSED, "not begun: an earlier host failed",
                  "nothing was changed on the host", f"deployer push {host.name}", data={"code": "not-begun"})


def code(reports: Sequence[Report]) -> int:
    """The gravest exit code."""
    return exits.gravest(exits.exit_code(report.outcome) for report in reports)
