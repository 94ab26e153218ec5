"""Asking several hosts at once for something that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deployer.cli import run_hosts
from deployer.cli.views import summary
from deployer.protocol.outcome import Outcome
from deployer.rollout.contact import Contact
from deployer.rollout.many import code, on_hosts
from deployer.rollout.view import Report
from deployer.settings.model import Host


class Quiet:
    """A view that shows nothing: the answer is the result."""

    def tell(self, host: str, event: str, data: dict[str, Any]) -> None:
        return None


def ask_hosts(hosts: Sequence[Host], ask: Callable[[Contact], Any], view: Any = None) -> tuple[dict[str, Any], int]:
    """Answers by host name, eight hosts at a time; those that failed are told on stderr. Beside it the exit code."""
    answers: dict[str, Any] = {}

    def act(host: Host) -> list[Report]:
        with run_hosts.open_contact(host, view or Quiet()) as contact:
            answers[host.name] = ask(contact)
        return [Report(host.name, "", Outcome.NOTHING_TO_DO)]

    reports = on_hosts(hosts, act, 8)
    for report in reports:
        if report.outcome is not Outcome.NOTHING_TO_DO:
            summary(report)
    return answers, code(reports)
