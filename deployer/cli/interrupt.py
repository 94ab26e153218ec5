"""What Ctrl-C means while hosts are at work: they finish alone, so the operator decides what they shall do."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from deployer.cli import run_hosts
from deployer.cli.console import say
from deployer.errors import DeployerError
from deployer.rollout.abort import abort_on
from deployer.rollout.view import View
from deployer.settings.model import Host


def ask_what_now(hosts: Sequence[Host], view: View) -> None:
    """Asks once: let it finish, or roll back now. Raises KeyboardInterrupt when there is nothing to decide."""
    if not hosts:
        raise KeyboardInterrupt
    pause = getattr(view, "paused", contextlib.nullcontext)
    with pause():
        say("")
        say("The push goes on by itself on: " + ", ".join(host.name for host in hosts))
        say("  r      roll back now")
        say("  Enter  let it finish, and go on watching")
        say("  Ctrl-C leave it running and stop watching; deployer attach HOST -u UNIT looks again")
        try:
            answer = input("> ").strip().lower()
        except EOFError:
            answer = ""
    if answer.startswith("r"):
        for host in hosts:
            try:
                said = abort_on(run_hosts.open_contact(host, view))
                say(f"{host.name}: {said}")
            except DeployerError as error:
                say(f"{host.name}: {error.message}")
