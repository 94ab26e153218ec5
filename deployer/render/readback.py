"""The rendered unit read as systemd will read it: what it would execute is what the release says it executes.

A template is the admin's to change. So argv and environment come from its text, not from what was put into it, and
whatever declared thing got lost on the way is a finding.
"""

from __future__ import annotations

from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.render.arguments import Argument
from deployer.render.credentials import CREDENTIAL, Handed
from deployer.settings.model import UnitSettings
from deployer.systemd import quote, specifiers
from deployer.systemd.command import Command, commands
from deployer.systemd.environment import assignments, without
from deployer.systemd.lines import Problem
from deployer.systemd.lint import lint
from deployer.systemd.parse import merge, parse

_HARMLESS = {"renamed-key", "repeated-key", "startlimit-in-service", "remark-behind-value", "unknown-key", "bad-value"}
"""Odd, but nothing that was declared gets lost; `deployer check` tells of them."""


@dataclass(frozen=True)
class Executed:
    """``argv`` and ``env`` as the process gets them; a secret stands as ``[secret NAME]`` in ``argv``."""

    argv: tuple[str, ...]
    env: dict[str, str]
    findings: tuple[Finding, ...] = ()


def executed(text: str, settings: UnitSettings, handed: Handed) -> Executed:
    """What systemd makes of the unit's text."""
    if len(text) > quote.LONGEST_LINE // 4 and any(
        len(line.encode()) > quote.LONGEST_LINE for line in text.replace("\\\n", " ").split("\n")
    ):
        return Executed((), {}, (Finding("command-too-long", Level.ERROR, "the arguments make a command of more than "
                                         "1 MiB, which systemd does not read", ("args",)),))
    unit = merge(parse(text))
    values = {**specifiers.SYSTEM, **specifiers.of_unit(settings.unit)}
    env, env_problems = assignments(unit.effective("Service", "Environment"), values)
    env = without(env, unit.words("Service", "UnsetEnvironment"))
    found, command_problems = commands(unit.effective("Service", "ExecStart"), values)
    problems = [problem for problem in lint(unit) if problem.code not in _HARMLESS] + env_problems + command_problems
    findings = [_finding(problem, settings) for problem in problems]
    if len(found) != 1 and not findings:
        findings.append(Finding("no-command" if not found else "two-execstart", Level.ERROR, "the template makes "
                                f"{len(found)} commands of ExecStart=", ("template",)))
    argv = _argv(found[0], env, settings) if found else ()
    return Executed(argv, env, tuple(findings))


def kept(ran: Executed, settings: UnitSettings, words: list[Argument], handed: Handed) -> list[Finding]:
    """Findings about what is declared and does not reach the process: the template left it out."""
    if ran.findings:
        return []
    joined = "\0" + "\0".join(ran.argv) + "\0"
    findings = [
        Finding("template-drops-argument", Level.ERROR, f"{argument.name} does not reach the command: the template "
                f"{settings.template} leaves it out", ("args", argument.name))
        for argument in words if "\0" + "\0".join(argument.words) + "\0" not in joined
    ]
    findings += [
        Finding("template-drops-variable", Level.ERROR, f"{name} does not reach the environment as declared: the "
                f"template {settings.template} or [service] sets it otherwise", ("env", name))
        for name, value in settings.env.items() if ran.env.get(name) != str(value)
    ]
    if handed.config and f"--config\0{_folder(settings)}/{CREDENTIAL}\0" not in joined:
        findings.append(Finding("template-drops-secret", Level.ERROR, f"the template {settings.template} does not hand "
                                f"over the secrets ({handed.config})", ("secrets",)))
    return findings


def _folder(settings: UnitSettings) -> str:
    """systemd.exec(5), "Credentials": where a service of the system manager finds them."""
    return f"/run/credentials/{settings.unit}"


def _argv(command: Command, env: dict[str, str], settings: UnitSettings) -> tuple[str, ...]:
    from deployer.render.credentials import is_variable, variable

    given = {"CREDENTIALS_DIRECTORY": _folder(settings)}
    given |= {variable(name): f"[secret {name}]" for name in settings.secrets if not is_variable(name)}
    given |= {name: f"[secret {name}]" for name in settings.secrets if is_variable(name)}
    return tuple(command.argv({**env, **given}))


def _finding(problem: Problem, settings: UnitSettings) -> Finding:
    level = Level.ERROR
    return Finding(problem.code, level, f"line {problem.line} of the rendered {settings.unit}: {problem.text}",
                   ("template",))
