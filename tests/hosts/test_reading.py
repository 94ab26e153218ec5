"""Our reading of unit files against the real one: random unit text, read by both, compared by what runs."""

from __future__ import annotations

import base64
import json
import random
import re
from dataclasses import dataclass

from deployer.systemd import specifiers
from deployer.systemd.command import commands
from deployer.systemd.environment import assignments, entries
from deployer.systemd.parse import merge, parse
from tests.hosts.bed import Host

UNITS, SEED = 600, 8

COMMAND = (
    " ", " ", "  ", "\\\n", "\\\n", "\\ \n", "\\\r\n", '"', '"', "'", "'", "\\", "\\\\", "$A", "${A}", "$B",
    "${B}", "${C D}", "$$", "$", "%n", "%p", "%%", "%Q", "% ", ";", " ; ", "\\;", " \\; ", "a", "b", "word",
    "--flag", "é", "\u2028", "\t", "\\x41", "\\xc3\\xa9", "\\n", "\\q", "\\101", "\\u00e9", "\\s", "{", "}",
    ":", "=", "#", " #", "\\\n# c\n", "\\\n; c\\\n", "\\\n\n", ",", "-", "@", "$A-", "x$A", "x${A}y", "${A",
    "\\x00", "\\xzz", "\\400", '\\"', "\\'",
)
VARIABLES = (
    " ", " ", "A=", "B=", "C=", "Z=", "1", "two", '"', '"', "'", "\\", "\\\\", "$A", "%n", "%%", "%Q", "%", "é",
    "\\x41", "\\n", "\\q", "=", ";", "#", "\\\n", "1X=", "-=", "\\s", '\\"', "\\xff", "\x01",
)
FILE = (
    "\n", "\n", " ", "A=", "B=", "C=", "D=", "x", "y z", '"', '"', "'", "'", "\\", "\\\\", "\\\n", "$", "`",
    "\\$", "\\n", "#", "\n#", ";", "é", "export ", "\t", '\\"', "\r\n", "=", "\n# a\\\n",
)
PREFIXES = ("", "", "", ":", "@", "-", "!", "+", "!!", '"')

DUMP = "#!/bin/sh\nfor part in cmdline environ; do cat /proc/$$/$part; echo '<>'; done > /var/lib/echo/$1\n"
OF_SYSTEMD = {"LANG", "PATH", "USER", "LOGNAME", "HOME", "SHELL", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
              "PWD", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"}


@dataclass(frozen=True)
class Case:
    name: str
    unit: str
    file: str


def case(number: int, chance: random.Random) -> Case:
    def some(pieces: tuple[str, ...], most: int) -> str:
        return "".join(chance.choice(pieces) for _ in range(chance.randint(0, most)))

    name = f"read-{number}"
    variables = "".join(f"Environment={some(VARIABLES, 8)}\n" for _ in range(chance.randint(0, 3)))
    prefix = chance.choice(PREFIXES)
    program = f"{prefix}/opt/dump{prefix if prefix == chr(34) else ''}{' argv0' if prefix == '@' else ''}"
    unit = (f"[Unit]\nDescription=x\n[Service]\nType=oneshot\n{variables}EnvironmentFile=/etc/{name}.env\n"
            f"ExecStart={program} {name} {some(COMMAND, 14)}\n[Install]\nWantedBy=a.target\n")
    # What only the host knows (%H, %b …) is left out: it is not ours to fill in.
    return Case(name, re.sub(r"%(?![npQ])[A-Za-z\\]", " x ", unit), some(FILE, 16))


def ours(case: Case, systemd: int) -> tuple[list[str], dict[str, str]] | None:
    """What we say is executed; None where the unit is refused or nothing runs."""
    unit = merge(parse(case.unit.encode()))
    values = {**specifiers.SYSTEM, **specifiers.of_unit(f"{case.name}.service")}
    env, _ = assignments(unit.effective("Service", "Environment"), values)
    if unit.value("Service", "EnvironmentFile"):
        found, problems = entries(case.file.encode(), systemd=systemd)
        if any(problem.fatal for problem in problems):
            return None
        env.update({entry.name: entry.value for entry in found if entry.valid})
    executed, problems = commands(unit.effective("Service", "ExecStart"), values)
    if unit.refused or not executed or any(problem.fatal for problem in problems):
        return None
    return executed[0].argv(env)[1:], env


def theirs(host: Host, cases: list[Case]) -> dict[str, tuple[list[str], dict[str, str]]]:
    """What systemd executed."""
    files = {"/opt/dump": DUMP}
    for one in cases:
        files |= {f"/etc/systemd/system/{one.name}.service": one.unit, f"/etc/{one.name}.env": one.file}
    told = json.loads(host.run(["python3", "-c", (
        "import base64, json, os, subprocess, sys\n"
        "os.makedirs('/var/lib/echo', exist_ok=True)\n"
        "for path, body in json.load(sys.stdin).items():\n"
        "    open(path, 'wb').write(base64.b64decode(body))\n"
        "os.chmod('/opt/dump', 0o755)\n"
        "subprocess.run(['systemctl', 'daemon-reload'], check=True)\n"
        f"units = ['read-%d.service' % i for i in range({len(cases)})]\n"
        "for i in range(0, len(units), 200):\n"
        "    subprocess.run(['systemctl', 'start', *units[i:i + 200]], stderr=subprocess.DEVNULL)\n"
        "print(json.dumps({n: open('/var/lib/echo/' + n, 'rb').read().decode('latin-1')\n"
        "                  for n in os.listdir('/var/lib/echo')}))"
    )], input=json.dumps({path: base64.b64encode(body.encode()).decode() for path, body in files.items()})).out)
    found = {}
    for name, raw in told.items():
        words, variables = (part.split("\0")[:-1] for part in raw.encode("latin-1").decode(
            "utf-8", "surrogateescape").split("<>\n")[:2])
        env = dict(entry.split("=", 1) for entry in variables)
        # The shell that runs the script stands in front of it in place of argv[0].
        found[name] = (words[2:], {name: value for name, value in env.items() if name not in OF_SYSTEMD})
    return found


def test_units_are_read_as_systemd_reads_them(host: Host) -> None:
    chance = random.Random(SEED)
    cases = [case(number, chance) for number in range(UNITS)]
    systemd = int(host.run("systemctl --version").out.split()[1])
    executed = theirs(host, cases)
    assert len(executed) > UNITS / 3, "too few ran to say anything"
    different = [(one, ours(one, systemd), executed.get(one.name)) for one in cases
                 if ours(one, systemd) != executed.get(one.name)]
    assert different == [], f"{len(different)} of {UNITS} are read differently: {different[:2]}"
