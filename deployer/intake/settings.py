"""What was found, as the text of ``units/NAME.toml``: it renders to the same command, or says what does not."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deployer.intake import toml
from deployer.intake.arguments import Read
from deployer.intake.arguments import read as read_arguments
from deployer.intake.found import Launch, server
from deployer.intake.secrets import is_secret
from deployer.protocol import patterns
from deployer.protocol.redact import MASK, Redactor, is_secret_name, mask_argv

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OWN_NAME = patterns.compile(r"%([nNpPiIjJf])")
_NOT_CARRIED = {"Type": ("notify", "notify-reload", "forking", "dbus")}


def settings(
    launch: Launch, name: str, *, origin: str, directives: Mapping[str, Mapping[str, Any]] | None = None,
    remarks: Sequence[str] = (), read_files: Iterable[str] = (), specifiers: Mapping[str, str] | None = None,
) -> str:
    """The settings of one server. ``origin`` names the file; ``remarks`` are told at the top (traps, notes).

    ``read_files``: environment files whose variables are in ``launch.env``. ``specifiers``: values of the unit's own
    name, written out where the new unit has another name.
    """
    return _Writer(launch, name, origin, directives or {}, remarks, set(read_files), specifiers or {}).text()


def unit_name(text: str) -> str:
    """A name for settings: what a unit may be called."""
    bare = re.sub(r"\.(?:service|container|sh|bash|ya?ml|toml|txt)$", "", text.rpartition("/")[2])
    return re.sub(r"[^A-Za-z0-9_.:-]+", "-", bare).strip("-.") or "sglang"


class _Writer:
    def __init__(
        self, launch: Launch, name: str, origin: str, directives: Mapping[str, Mapping[str, Any]],
        remarks: Sequence[str], read_files: set[str], specifiers: Mapping[str, str],
    ) -> None:
        self.launch, self.name, self.origin = launch, name, origin
        self.directives, self.remarks = directives, remarks
        self.read_files, self.specifiers = read_files, specifiers
        self.lines: list[str] = []
        self.secrets: dict[str, tuple[str, str]] = {}
        started = server(launch.argv) or self._behind_name(launch)
        self.program, self.at = started or ("sglang", len(launch.argv))
        self.known = bool(started)
        inside = launch.container.get("env", launch.env) if launch.container else launch.env
        self.env = dict(inside)

    @staticmethod
    def _behind_name(launch: Launch) -> tuple[str, int] | None:
        """A command whose argv[0] is a name of its own: the program tells."""
        return server([launch.exe, *launch.argv[1:]]) if launch.exe else None

    def text(self) -> str:
        self._say(f"From {self.origin}. `deployer check {self.name}` says what is still to be filled in.")
        for remark in self.remarks:
            self._say(remark)
        self.lines.append("")
        self._description()
        self._runtime()
        read = read_arguments(self.launch.argv[self.at:], self.program)
        self._args(read)
        self._env()
        self._secrets()
        self._gpu()
        self._directives()
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        return "\n".join(self.lines) + "\n"

    def _say(self, text: str) -> None:
        self.lines += toml.remark(text)

    def _put(self, name: str, value: Any) -> None:
        """A line; as a remark where the value is not known, or cannot stand in TOML."""
        try:
            line = f"{toml.key(name)} = {toml.value(value)}"
        except toml.NoToml:
            self._say(f"{name}: bytes that are not UTF-8, which settings cannot hold")
            return
        unknown = [mark for item in _strings(value) for mark in self._unknown(item)]
        if unknown:
            self._say(f"not known from {self.origin}: {', '.join(dict.fromkeys(unknown))}")
            line = "# " + line
        self.lines.append(line)

    def _unknown(self, text: str) -> list[str]:
        """What in a text is not known: only texts that really hold a mark count, others may look alike."""
        if not any(text in opaque for opaque in self.launch.opaque):
            return []
        return [mark for mark in self.launch.marks if mark in text]

    def _section(self, name: str) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")
        self.lines.append(f"[{name}]")

    def _description(self) -> None:
        description = self.directives.get("Unit", {}).get("Description")
        if isinstance(description, str) and "%" not in description:
            self._put("description", description)

    def _runtime(self) -> None:
        self._section("router" if self.program == "router" else "sglang")
        self._say("Which release it is, is not told by a command line: " + ("pip show sglang-router" if self.program ==
                  "router" else "pip show sglang") + " in its environment says it.")
        self.lines.append('# version = "…"')
        launch = self.launch
        if launch.container or self._contained():
            self._container()
            return
        python, doubt = self._python()
        if doubt:
            self._say(doubt)
        self._put("python", python)
        if launch.wrapper:
            self._put("wrapper", launch.wrapper)
        for word in self._interpreter_options():
            self._say(f"the interpreter's option {word} is not carried over")

    def _contained(self) -> bool:
        wrapper = self.launch.wrapper
        return bool(wrapper) and wrapper[0].rpartition("/")[2] in ("docker", "podman", "nerdctl")

    def _container(self) -> None:
        self._say("Containers are not deployed yet. It ran in one; install SGLang into a virtual environment on the "
                  "host, and write its interpreter here." + (" It was started with:" if self.launch.wrapper else ""))
        if self.launch.wrapper:
            self._say("  " + " ".join(mask_argv(self.launch.wrapper)))
        image = self.launch.wrapper[-1] if self.launch.wrapper else ""
        if self.launch.container:
            image = self.launch.container.get("image", image)
        self.lines.append(f"# image = {toml.string(image)}")
        self.lines.append('# python = "/opt/sglang/.venv/bin/python"')

    def _python(self) -> tuple[str, str]:
        """The interpreter, and what is doubtful about it."""
        launch = self.launch
        program = launch.exe or (launch.argv[0] if launch.argv else "")
        base = program.rpartition("/")[2]
        python = re.fullmatch(r"(?:python|pypy)[\d.]*", base)
        if program.startswith("/") and python:
            doubt = f"argv[0] was {launch.argv[0]}" if launch.exe and launch.argv[0] != base and \
                "/" not in launch.argv[0] and not re.match("python", launch.argv[0]) else ""
            return program, doubt
        if program.startswith("/"):
            return posixpath.join(posixpath.dirname(program), "python"), (
                f"The command was {base} {launch.argv[1] if launch.argv[1:] else ''}: the interpreter beside it is "
                "assumed, and starts the same server.")
        first = launch.env.get("PATH", "").partition(":")[0]
        if first.startswith("/") and first not in _SYSTEM_PATH.split(":") and "${" not in first:
            return f"{first}/{base if python else 'python'}", (
                f"{base} was looked for along PATH: the first folder of it is assumed.")
        return f"/usr/bin/{base if python else 'python3'}", (
            f"Which {base or 'program'} it is, depends on the PATH of whoever started it: write its path.")

    def _interpreter_options(self) -> list[str]:
        head = self.launch.argv[1: self.at]
        return [word for word in head if word.startswith("-") and word != "-u" and not word.startswith("-m")]

    def _args(self, read: Read) -> None:
        self._section("args")
        if not self.known:
            self._say("No SGLang server was recognized in this command: " + " ".join(mask_argv(self.launch.argv)))
        for name, value in read.args.items():
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
                self._say(f"the word {'--' + name!r} is no argument: SGLang refuses it")
                continue
            if isinstance(value, str) and value and is_secret_name(name) and value[:1] != "/":
                self.secrets[name] = (value, "args")
                continue
            for text in read.remarks.get(name, ()):
                self._say(f"{name}: {text}")
            self._put(name, value)
        for word in read.lost:
            self._say(f"the word {Redactor().text(word)!r} belongs to no argument: SGLang refuses it")

    def _env(self) -> None:
        devices = devices_of(self.env.get("CUDA_VISIBLE_DEVICES", ""))
        env = {name: value for name, value in self.env.items() if name != "CUDA_VISIBLE_DEVICES" or not devices}
        clear = {value for value, _ in self.secrets.values()}
        for name, value in list(env.items()):
            if (is_secret(name, value) or value in clear) and re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
                self.secrets[name] = (value, "env")
                del env[name]
        if not env and not self.launch.removed:
            return
        self._section("env")
        for name, value in env.items():
            if name == "PATH" and "${PATH}" in value:
                self._say("${PATH}, the account's own, is not known here: systemd's default stands in its place")
                value = value.replace("${PATH}", _SYSTEM_PATH)
            if is_secret(name, value) or value in clear:
                self._say(f"{name} held a secret: write it under [secrets] by a name in capitals")
                continue
            self._put(name, value)
        for name in self.launch.removed:
            self._say(f"{name} was taken out of the environment; a unit does not have it unless it is set")

    def _secrets(self) -> None:
        if not self.secrets:
            return
        self._section("secrets")
        for name, (value, table) in self.secrets.items():
            if value.startswith("$(") and self._unknown(value):
                self._say(f"{name} was read by {Redactor().text(value)} on the host")
            elif self._unknown(value):
                self._say(f"{name} was {value}")
            else:
                self._say(f"{name} stood in clear in {self.origin}: put it into this place, and change it where it was")
            ref = {"env": name} if table == "env" else {"file": f"secrets/{self.name}-{name}"}
            self._put(name, ref)

    def _gpu(self) -> None:
        devices = devices_of(self.env.get("CUDA_VISIBLE_DEVICES", ""))
        container = self.launch.container or {}
        for request in container.get("device_requests", ()):
            listed = request.get("DeviceIDs")
            devices = devices or (devices_of(",".join(listed)) if listed else None)
        if devices:
            self._section("gpu")
            self._put("devices", devices)

    def _directives(self) -> None:
        for section, table in self.directives.items():
            lines, self.lines = self.lines, []
            for key, value in table.items():
                if key == "Description" and "%" not in str(value):
                    continue
                self._directive(key, value)
            if section == "Service" and self.launch.cwd and "WorkingDirectory" not in table:
                self._put("WorkingDirectory", self.launch.cwd.replace("%", "%%"))
            made, self.lines = self.lines, lines
            if made:
                self._section(section.lower())
                self.lines += made
        if "Service" not in self.directives and self.launch.cwd:
            self._section("service")
            self._put("WorkingDirectory", self.launch.cwd.replace("%", "%%"))

    def _directive(self, key: str, value: Any) -> None:
        if key == "EnvironmentFile":
            kept = [item for item in value if self._plain(item) not in self.read_files]
            for item in value:
                if item not in kept:
                    self._say(f"EnvironmentFile={item}: its variables stand under [env]")
            if kept:
                self._put(key, kept)
            return
        if value in _NOT_CARRIED.get(key, ()):
            self._say(f"{key}={value} is not carried over: SGLang neither notifies nor forks")
            return
        items = value if isinstance(value, list) else [value]
        written = [_OWN_NAME.sub(self._own, item) for item in items]
        if any(MASK in Redactor().text(item) for item in written):
            self._say(f"{key}= holds a secret and is not carried over: {Redactor().text(' ; '.join(written))}")
            return
        self.lines.append(f"{key} = {toml.value(written if len(written) > 1 else written[0])}")

    def _plain(self, item: str) -> str:
        return _OWN_NAME.sub(self._own, item).removeprefix("-")

    def _own(self, match: re.Match[str]) -> str:
        value = self.specifiers.get(match[1])
        return match[0] if value is None else value.replace("%", "%%")


def _strings(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _strings(item)]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    return [value] if isinstance(value, str) else []


def devices_of(text: str) -> list[int | str] | None:
    """``CUDA_VISIBLE_DEVICES`` as devices of settings; None where it is neither indices nor UUIDs."""
    parts = [part.strip() for part in text.split(",")]
    if len(set(parts)) < len(parts):
        return None
    if text and all(re.fullmatch(r"\d+", part) for part in parts):
        return [int(part) for part in parts]
    if text and all(re.fullmatch(r"(?:GPU|MIG)-[0-9A-Za-z/-]+", part) for part in parts):
        return list(parts)
    return None
