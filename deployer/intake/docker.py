"""``docker run`` and its like: options, image, command.

Source: docker CLI 20.10 to 27, ``docker run --help``; podman 5.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deployer.protocol.records import dataclass, field

if TYPE_CHECKING:
    from deployer.intake.machine import Machine

CLIENTS = {"docker", "podman", "nerdctl", "docker-compose"}
_SWITCHES = {
    "--detach", "--disable-content-trust", "--help", "--init", "--interactive", "--no-healthcheck",
    "--oom-kill-disable",
    "--privileged", "--publish-all", "--read-only", "--rm", "--sig-proxy", "--tty", "--quiet", "--replace", "--rmi",
    "--env-host", "--http-proxy", "--no-hosts", "--tls-verify", "--read-only-tmpfs", "--passwd", "--no-hostname",
}
"""Long options of ``run`` without a value of their own word."""
_SHORT_SWITCHES = set("ditPq")
_GLOBAL_VALUED = {"-H", "--host", "--context", "-c", "--config", "-l", "--log-level", "--tlscacert", "--tlscert",
                  "--tlskey", "--connection", "--url", "--root", "--runroot", "--namespace", "-n", "--address", "-a"}


@dataclass
class Request:
    """What a client is asked for. ``end``: where the words behind the image begin; ``command`` with an entrypoint."""

    options: list[tuple[str, str]] = field(default_factory=list)
    image: str = ""
    command: list[str] = field(default_factory=list)
    end: int = 0
    executed: bool = False

    def all(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names]

    def last(self, *names: str) -> str | None:
        return next(iter(reversed(self.all(*names))), None)

    @property
    def entrypoint(self) -> str | None:
        return self.last("--entrypoint")

    @property
    def folder(self) -> str | None:
        return self.last("--workdir", "-w")


def read(argv: list[str]) -> Request | None:
    """The request of a client's command line; None where it starts no container."""
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in _GLOBAL_VALUED else 1
    if argv[at : at + 1] == ["container"]:
        at += 1
    if argv[at : at + 1] not in (["run"], ["create"], ["exec"]):
        return None
    request = Request(executed=argv[at] == "exec")
    at += 1
    while at < len(argv):
        word = argv[at]
        if word == "--":
            at += 1
            break
        if not word.startswith("-") or word == "-":
            break
        at = _option(argv, at, request)
    if at >= len(argv):
        return None
    request.image, request.end = argv[at], at + 1
    command = argv[at + 1 :]
    if request.entrypoint:
        entry = request.entrypoint
        command = [*(_listed(entry) if entry.startswith("[") else [entry]), *command]
    request.command = command
    return request


def _option(argv: list[str], at: int, request: Request) -> int:
    word = argv[at]
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if equals or name in _SWITCHES:
            request.options.append((name, value))
            return at + 1
        request.options.append((name, argv[at + 1] if at + 1 < len(argv) else ""))
        return at + 2
    for index, letter in enumerate(word[1:], 1):
        if letter in _SHORT_SWITCHES:
            request.options.append((f"-{letter}", ""))
            continue
        value = word[index + 1 :].removeprefix("=")
        if word[index + 1 :]:
            request.options.append((f"-{letter}", value))
            return at + 1
        request.options.append((f"-{letter}", argv[at + 1] if at + 1 < len(argv) else ""))
        return at + 2
    return at + 1


def _listed(text: str) -> list[str]:
    import json

    try:
        read = json.loads(text)
    except ValueError:
        return [text]
    return [str(item) for item in read] if isinstance(read, list) else [text]


def environment(request: Request, client: Mapping[str, str], machine: Machine) -> tuple[dict[str, str], list[str]]:
    """The container's variables: ``--env-file`` first, then ``-e``; a bare name takes the client's value."""
    found: dict[str, str] = {}
    notes: list[str] = []
    for path in request.all("--env-file"):
        text = machine.world.files.read(path, machine.folder)
        if text is None:
            notes.append(f"line {machine.line}: {machine.unknowns.shown(path)} is not here: what it sets is not known")
            continue
        for name, value in env_file(text):
            if value is not None:
                found[name] = value
            elif name in client:
                found[name] = client[name]
    for item in request.all("-e", "--env"):
        name, equals, value = item.partition("=")
        if equals:
            found[name] = value
        elif name in client:
            found[name] = client[name]
        else:
            notes.append(f"line {machine.line}: -e {name} hands over a variable that nothing here sets")
    return found, notes


def env_file(text: str) -> list[tuple[str, str | None]]:
    """Docker's own format: no quotes, no expansion, a name alone takes the client's value."""
    found: list[tuple[str, str | None]] = []
    for line in text.removeprefix("\ufeff").splitlines():
        line = line.lstrip()
        if line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            found.append((name, value if equals else None))
    return found


def described(request: Request, client: Mapping[str, str], shown: Callable[[str], str]) -> dict[str, Any]:
    """What was asked for, in the words of Docker's own request."""
    devices = [gpus(shown(value)) for value in request.all("--gpus")]
    found: dict[str, Any] = {
        "image": shown(request.image),
        "binds": [shown(value) for value in request.all("-v", "--volume")],
        "device_requests": [device for device in devices if device],
        "network": shown(request.last("--network", "--net") or "default"),
        "name": shown(request.last("--name") or "") or None,
        "env_of_the_client": {name: shown(value) for name, value in client.items()},
    }
    if request.executed:
        found["executed_in"] = found.pop("image")
    return found


def gpus(text: str) -> dict[str, Any] | None:
    """``--gpus all``, ``--gpus 2``, ``--gpus '"device=0,3"'``: a line of comma-separated values, quotes and all."""
    found: dict[str, Any] = {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
    try:
        fields = next(csv.reader([text]), [])
    except csv.Error:
        return None
    for item in fields:
        name, equals, value = item.partition("=")
        if not equals:
            name, value = "count", item
        if name == "count":
            found["Count"] = -1 if value == "all" else int(value) if re.fullmatch(r"-?\d+", value) else value
        elif name == "device":
            found["DeviceIDs"] = value.split(",")
        elif name == "driver":
            found["Driver"] = value
        elif name == "capabilities":
            found["Capabilities"] = [["gpu", *(part for part in value.split(",") if part != "gpu")]]
    if found["DeviceIDs"] is None:
        found["Count"] = found["Count"] or -1
    return found
