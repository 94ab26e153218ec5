"""A compose file: its services that serve a model. Source: compose-spec (interpolation, services), docker compose 2.

YAML is read as nodes, so that a value keeps its text: ``PORT: 030`` and ``FLAG: yes`` are what the file says.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from deployer.intake import docker
from deployer.intake.files import Files
from deployer.intake.found import Launch
from deployer.intake.launch import peel
from deployer.intake.machine import Machine, World
from deployer.intake.process import Process
from deployer.protocol import patterns

_VARIABLE = patterns.compile(
    r"\$(?:\$|(?P<bare>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<op>:?[-?+])(?P<rest>(?:[^{}]|"
    r"\{[^{}]*\}|\$\{[^{}]*\})*))?\})")


class NoCompose(ValueError):
    """A text that is no compose file; the message says why."""


def read(text: str, files: Files, folder: str | None = None) -> tuple[list[Launch], list[str]]:
    """The servers among the services, their names in ``Launch.name``. ``folder``: where the file lies on the host."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise NoCompose(f"no YAML: {' '.join(str(error).split())}") from None
    data = _plain(node) if node is not None else None
    services = data.get("services") if isinstance(data, dict) else None
    if not isinstance(services, dict):
        raise NoCompose("no services: in it")
    world = World(files)
    values = dict(_dot_env(files.read(".env", folder) or ""))
    for name, service in services.items():
        if isinstance(service, dict):
            _service(str(name), _filled(service, values, world), world, folder)
    return world.launches, world.notes


def _plain(node: Any) -> Any:
    """A node as Python values; scalars as their text, null as None; merge keys are taken in."""
    if node.id == "scalar":
        return None if node.tag.endswith(":null") else node.value
    if node.id == "sequence":
        return [_plain(item) for item in node.value]
    found: dict[str, Any] = {}
    for key, value in node.value:
        if key.tag.endswith(":merge"):
            parts = value.value if value.id == "sequence" else [value]
            for part in parts:
                found = {**_plain(part), **found}
        else:
            found[str(_plain(key))] = _plain(value)
    return found


def _dot_env(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        match = re.match(r"\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*=\s*(.*?)\s*$", line)
        if match:
            value = match[2]
            quoted = re.match(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"", value)
            if quoted:
                value = quoted[1] if quoted[1] is not None else re.sub(r"\\(.)", r"\1", quoted[2])
            else:
                value = re.sub(r"\s+#.*$", "", value)
            yield match[1], value


def _filled(item: Any, values: dict[str, str], world: World) -> Any:
    if isinstance(item, str):
        return _interpolated(item, values, world)
    if isinstance(item, list):
        return [_filled(each, values, world) for each in item]
    if isinstance(item, dict):
        return {key: _filled(each, values, world) for key, each in item.items()}
    return item


def _interpolated(text: str, values: dict[str, str], world: World) -> str:
    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, operator, rest = match["bare"] or match["name"], match["op"], match["rest"] or ""
        given = values.get(name)
        if operator and operator[0] == ":" and given == "":
            given = None
        if operator and operator[-1] == "+":
            return "" if given is None else _interpolated(rest, values, world)
        if given is not None:
            return given
        if operator and operator[-1] == "-":
            return _interpolated(rest, values, world)
        return world.unknowns.variable(name)

    return _VARIABLE.sub(one, text)


def _words(value: Any) -> list[str] | None:
    if isinstance(value, list):
        return ["" if item is None else str(item) for item in value]
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError:
            return value.split()
    return None


def _service(name: str, service: dict[str, Any], world: World, folder: str | None) -> None:
    command, entry = _words(service.get("command")), _words(service.get("entrypoint"))
    argv = [*(entry or []), *(command or [])]
    if not argv:
        return
    env = _environment(service, world, folder)
    container = _described(service, {key: world.unknowns.shown(value) for key, value in env.items()}, world)
    machine = Machine(world)
    before = len(world.launches)
    process = Process(argv, env, [], (), service.get("working_dir"), None, container)
    if not peel(machine, process) and argv[0].startswith("-"):
        world.note(f"{name}: the command goes to the entrypoint of its image, which is not known")
    for launch in world.launches[before:]:
        launch.name, launch.line = name, 0


def _environment(service: dict[str, Any], world: World, folder: str | None) -> dict[str, str]:
    """``env_file`` first, then ``environment``; a name alone takes the value of whoever starts it."""
    found: dict[str, str] = {}
    listed = service.get("env_file")
    for item in listed if isinstance(listed, list) else [listed] if listed else []:
        path = item.get("path") if isinstance(item, dict) else item
        text = world.files.read(str(path), folder)
        if text is None:
            world.note(f"{world.unknowns.shown(str(path))} is not here: what it sets is not known")
            continue
        found |= dict(_dot_env(text))
    given = service.get("environment") or {}
    pairs = [(k, v) for k, v in given.items()] if isinstance(given, dict) else [
        (str(item).partition("=")[0], str(item).partition("=")[2] if "=" in str(item) else None) for item in given]
    for name, value in pairs:
        if value is None:
            world.note(f"{name} is handed over from whoever starts it: its value is not known")
        else:
            found[str(name)] = str(value)
    return found


def _described(service: dict[str, Any], env: dict[str, str], world: World) -> dict[str, Any]:
    shown = world.unknowns.shown
    volumes = [item if isinstance(item, str) else f"{item.get('source', '')}:{item.get('target', '')}"
               for item in service.get("volumes") or ()]
    reserved = service.get("deploy")
    for key in ("resources", "reservations", "devices"):
        reserved = reserved.get(key) if isinstance(reserved, dict) else None
    devices = [_device(item) for item in reserved or () if isinstance(item, dict)]
    if isinstance(service.get("gpus"), str):
        devices.append(docker.gpus(service["gpus"]) or {})
    return {
        "image": shown(str(service.get("image") or "")), "binds": [shown(volume) for volume in volumes],
        "device_requests": devices, "network": shown(str(service.get("network_mode") or "default")),
        "name": service.get("container_name"), "env": env,
    }


def _device(item: dict[str, Any]) -> dict[str, Any]:
    count = item.get("count")
    listed = item.get("device_ids")
    number = -1 if count in (None, "all") else int(count) if str(count).isdigit() else count
    return {"Driver": item.get("driver") or "", "Count": 0 if listed else number, "DeviceIDs": listed,
            "Capabilities": [item.get("capabilities") or ["gpu"]], "Options": item.get("options") or {}}
