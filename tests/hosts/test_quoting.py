"""What systemd executes is what was declared: 2,000 random argument lists and environments through a real systemd."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deployer.render.model import Release
from deployer.render.release import render
from deployer.settings.model import UnitSettings, Venv
from tests.hosts.bed import Host

UNITS, PARTS, BATCH, SEED = 2000, 4, 250, 20261130

# A shell under the interpreter's name: `-m` is an option of its own, and it runs the file sglang.launch_server of its
# working directory, so that even argv[0] is seen as it was given.
DUMP = "cat /proc/$$/cmdline /opt/echo/between /proc/$$/environ /opt/echo/end > /var/lib/echo/$DEPLOYER_UNIT\n"
INTERPRETERS = ("/opt/echo/python", "/opt/echo/wi th %h and $HOME ${X} $$ é/python#1;", "/opt/echo/-@:+!/pyth%%n")

OF_SYSTEMD = {"LANG", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "CACHE_DIRECTORY", "USER", "LOGNAME",
              "SHELL", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE", "PWD", "OLDPWD"}
PIECES = (
    "%", "%%", "%n", "$", "$$", "$HOME", "${HOME}", "${", '"', "'", "\\", "\\\\", "\\n", "\\x41", "\n", "\r",
    "\t", " ", "  ", ";", " ; ", "\\;", "#", "# x", "=", "--", "-", "é", "日本", "\U0001f600", "\u2028", "\x01",
    "\x1b", "\x7f", "\x85", "{", "}", "[", "]", ",", ":", "@", "+", "!", "|", "&", "`", "~", "*", "?", "a",
    "word", "/path/x",
)


def text(chance: random.Random, longest: int = 12) -> str:
    if chance.random() < 0.004:
        return chance.choice(PIECES) * chance.randint(1000, 15_000)
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(0, longest)))


def value(chance: random.Random) -> Any:
    kind = chance.random()
    if kind < 0.65:
        return text(chance)
    if kind < 0.75:
        return [item.lstrip("-") for item in (text(chance) for _ in range(chance.randint(1, 4)))]
    if kind < 0.85:
        return {text(chance): [text(chance), {"k": text(chance, 3)}, 1e-3, None is None, 12345678901234567890]}
    return chance.choice([True, False, 0, -5, 10**30, 0.88, -1.5e-7])


def settings(number: int, chance: random.Random) -> UnitSettings:
    wrapper = ("/opt/echo/sh", "/opt/echo/sglang.launch_server", *(text(chance) for _ in range(chance.randint(0, 3))))
    return UnitSettings(
        name=f"echo-{number}", runtime=Venv(chance.choice(INTERPRETERS)), sglang="0.5.9",
        description=text(chance), wrapper=wrapper if chance.random() < 0.3 else (),
        args={f"x-{index}": value(chance) for index in range(chance.randint(0, 8))},
        env={f"V_{index}": text(chance) for index in range(chance.randint(0, 4))},
        directives={"Service": {
            "WorkingDirectory": "/opt/echo", "PrivateTmp": False, "ProtectSystem": False, "ProtectControlGroups": False,
            "Restart": "no",
        }},
    )


def install(host: Host, files: dict[str, str]) -> None:
    packed = json.dumps({path: base64.b64encode(body.encode()).decode() for path, body in files.items()})
    host.run(["python3", "-c", "import base64, json, sys\nfor path, body in json.load(sys.stdin).items():\n"
              "    open(path, 'wb').write(base64.b64decode(body))"], input=packed)


def prepare(host: Host) -> None:
    host.run("mkdir -p /var/lib/echo /opt/echo && cp /bin/dash /opt/echo/sh")
    install(host, {"/opt/echo/sglang.launch_server": DUMP, "/opt/echo/between": "<>\n", "/opt/echo/end": "END"})
    for path in INTERPRETERS:
        host.run(["mkdir", "-p", str(Path(path).parent)])
        host.run(["cp", "/bin/dash", path])


def executed(host: Host, units: Sequence[str]) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Starts the units and waits until each has told what it got."""
    told = json.loads(host.run(["python3", "-c", (
        "import json, os, subprocess, sys, time\n"
        "units = json.load(sys.stdin)\n"
        "subprocess.run(['systemctl', 'start', *units])\n"
        "until, told, left = time.monotonic() + 60, {}, list(units)\n"
        "while left and time.monotonic() < until:\n"
        "    for unit in left:\n"
        "        path = '/var/lib/echo/' + unit\n"
        "        raw = open(path, 'rb').read() if os.path.exists(path) else b''\n"
        "        if raw.endswith(b'END'):\n"
        "            told[unit] = raw[:-3].decode('latin-1')\n"
        "    left = [unit for unit in left if unit not in told]\n"
        "    time.sleep(0.05 if left else 0)\n"
        "print(json.dumps(told))"
    )], input=json.dumps(list(units))).out)
    found = {}
    for unit, raw in told.items():
        argv, env = (part.split("\0")[:-1] for part in raw.encode("latin-1").decode("utf-8").split("<>\n", 1))
        found[unit] = (argv, dict(entry.split("=", 1) for entry in env))
    return found


def difference(release: Release, got: tuple[list[str], dict[str, str]] | None) -> str:
    if got is None:
        return f"{release.unit} did not run"
    argv, env = got
    if tuple(argv) != release.argv:
        return f"{release.unit} argv: {release.argv!r} became {argv!r}"
    env = {name: entry for name, entry in env.items() if name not in OF_SYSTEMD}
    return "" if env == release.env else f"{release.unit} env: {release.env!r} became {env!r}"


@pytest.mark.parametrize("part", range(PARTS))
def test_what_runs_is_what_was_declared(host: Host, part: int) -> None:
    chance = random.Random(SEED + part)
    releases = [render(settings(number, chance), None) for number in range(UNITS // PARTS)]
    prepare(host)
    install(host, {file.path: str(file.text) for release in releases for file in release.files})
    host.run("systemctl daemon-reload")
    differences = []
    for begin in range(0, len(releases), BATCH):
        batch = releases[begin:begin + BATCH]
        ran = executed(host, [release.unit for release in batch])
        differences += filter(None, (difference(release, ran.get(release.unit)) for release in batch))
    assert differences == [], f"{len(differences)} of {len(releases)}: " + "\n".join(differences[:3])
