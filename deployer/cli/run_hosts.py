"""What the commands that act on hosts share: which hosts and units, who watches, what Ctrl-C does, the exit code."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from deployer.cli import console
from deployer.cli.views import JsonView, PlainView
from deployer.rollout.contact import Contact
from deployer.rollout.many import code, on_hosts
from deployer.rollout.turns import Turns
from deployer.rollout.view import Report, View
from deployer.settings.model import Host
from deployer.settings.workspace import Workspace

Work = Callable[[Contact, list[str]], list[Report]]


def workspace(ctx: click.Context) -> Workspace:
    """The workspace of ``-C`` or of where the command runs."""
    return Workspace.find(Path(ctx.obj) if ctx.obj else None)


def hosts(ctx: click.Context, names: Sequence[str]) -> list[Host]:
    """The hosts that ``names`` stand for; without a workspace too, since SSH destinations and ``local`` need none."""
    from deployer.errors import UsageError
    from deployer.settings.host import LoadedHosts, resolve

    try:
        space = workspace(ctx)
    except UsageError:
        if ctx.obj:
            raise
        return resolve(names, LoadedHosts())
    return space.resolve(names)


def host_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """HOST…, -u, --json."""
    from deployer.cli.complete import hosts, units

    for option in (
        click.option("--json", "as_json", is_flag=True, help="JSON on stdout."),
        click.option("-u", "--unit", "units", multiple=True, metavar="UNIT", shell_complete=units,
                     help="Only this unit (default: those that hosts.toml lists for the host)."),
        click.argument("names", metavar="HOST...", nargs=-1, required=True, shell_complete=hosts),
    ):
        command = option(command)
    return command


def pace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--parallel, --max-failures."""
    for option in (
        click.option("--max-failures", default=0, show_default=True, type=click.IntRange(0),
                     help="Begin no further host after more failures than this."),
        click.option("--parallel", default=4, show_default=True, type=click.IntRange(1), metavar="N",
                     help="Hosts at a time; of several to be changed, the first goes alone."),
    ):
        command = option(command)
    return command


def asker() -> Any:
    """The one Ask of this process, so that a password is asked once for all hosts, and one at a time."""
    with _ONE:                                       # functools.cache alone makes one for each thread that comes
        return _asker()


_ONE = threading.Lock()


@functools.cache
def _asker() -> Any:
    from deployer.cli.ask import TerminalAsk

    return TerminalAsk()


def open_contact(host: Host, view: View, ctx: click.Context | None = None,
                 turn: Callable[[], float] = lambda: 0.0) -> Contact:
    """With ``ctx`` other hosts can be reached from it, by the names of the command's workspace."""
    from deployer.remote.session import open_session

    reach = (lambda name: open_contact(hosts(ctx, (name,))[0], view)) if ctx is not None else None
    asker().around = getattr(view, "paused", contextlib.nullcontext)
    return Contact(host, lambda: open_session(host, asker()), view, reach=reach, turn=turn)


class UnderWay:
    """The turns of a rollout, told to whoever watches; on hosts that have had theirs Ctrl-C asks what now."""

    def __init__(self, hosts: Sequence[Host], max_failures: int) -> None:
        self.turns = Turns([host.name for host in hosts], max_failures)
        self._hosts = hosts

    def turn(self, host: Host, view: View) -> Callable[[], float]:
        """What the host's contact calls before it changes anything."""
        def take() -> float:
            said: list[str] = []

            def told(text: str) -> None:
                if text not in said:
                    said.append(text)
                    view.tell(host.name, "turn", {"state": "waiting", "text": text})

            waited = self.turns.take(host.name, told)
            if said:
                view.tell(host.name, "turn", {"state": "done", "text": "", "seconds": waited})
            return waited

        return take

    def interrupted(self, view: View) -> None:
        from deployer.cli.interrupt import ask_what_now

        begun = self.turns.under_way()
        ask_what_now([host for host in self._hosts if host.name in begun], view)


def view_for(hosts: Sequence[Host], as_json: bool) -> Any:
    """JSON lines, the live view on a terminal, plain lines elsewhere."""
    if as_json:
        return JsonView()
    if console.live():
        from deployer.cli.live import LiveView

        return LiveView([host.name for host in hosts])
    return PlainView(len(hosts) > 1)


def run(hosts: Sequence[Host], act: Callable[[Host, View], list[Report]], *, as_json: bool, parallel: int = 8,
        turns: Turns | None = None, interrupted: Callable[[View], None] | None = None) -> int:
    """Runs ``act`` on the hosts under a view; the exit code. Ctrl-C is handed to ``interrupted``, a second one ends."""
    view = view_for(hosts, as_json)
    done: list[list[Report]] = []
    fault: list[BaseException] = []
    # Not Thread.join: up to Python 3.12 one that Ctrl-C interrupts takes the thread for ended from then on.
    ended = threading.Event()

    def work() -> None:
        try:
            done.append(on_hosts(hosts, lambda host: act(host, view), parallel, turns))
        except BaseException as error:
            fault.append(error)
        finally:
            ended.set()

    threading.Thread(target=work, name="rollout", daemon=True).start()
    asked = False
    while not ended.is_set():
        try:
            ended.wait(0.2)
        except KeyboardInterrupt:
            asker().cancel()                         # a password that is being asked for is not wanted any more
            if interrupted is None or asked:
                _close(view)
                if asked:
                    console.say("stopped watching; what was begun goes on there: deployer attach HOST looks again")
                raise
            asked = True
            interrupted(view)
    _close(view)
    if fault:
        raise fault[0]
    view.finish(done[0])
    return code(done[0])


def _close(view: Any) -> None:
    close = getattr(view, "close", None)
    if close:
        close()


