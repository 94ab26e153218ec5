"""Secrets: the files that carry them, and how the unit hands them over. No value is ever seen here but in ``fill``.

- A name in capitals is a variable of the server's environment: an ``EnvironmentFile``, root's, 0600, since
  ``Environment=`` can be read by every user of the host.
- Any other name is one of SGLang's arguments: from 0.5.3 on it stands in a YAML file that SGLang reads with
  ``--config``, handed over by ``LoadCredential=``. SGLang takes dashed keys there, and one such file.
- Before 0.5.3, and for the router, there is only argv: allowed where the settings say so, and even then the unit
  names a variable of the EnvironmentFile, so that the secret stands in no file that others can read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from deployer.errors import SettingsError
from deployer.protocol import patterns
from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.render.arguments import dest
from deployer.render.model import File, SecretText
from deployer.render.spelling import Spelling
from deployer.settings.model import SecretRef, UnitSettings
from deployer.sglang.health import before
from deployer.systemd import quote

FOLDER = "/etc/deployer"
CREDENTIAL = "sglang.yaml"
CONFIG_SINCE = "0.5.3"

_VARIABLE = patterns.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class Handed:
    """How the unit gets its secrets: lines for the template, the files, and what the process gets."""

    files: tuple[File, ...] = ()
    load_credential: str = ""                      # the value of LoadCredential=, "" for none
    environment_file: str = ""
    config: str = ""                               # the words of ExecStart=, as written there
    arguments: tuple[str, ...] = ()                # lines of ExecStart= for secrets in argv
    secret_args: tuple[str, ...] = ()              # dest names


def is_variable(name: str) -> bool:
    """Whether a secret of this name goes into the environment: capitals, digits and underscores."""
    return bool(_VARIABLE.fullmatch(name))


def variable(name: str) -> str:
    """The variable that carries an argument's secret to ``ExecStart=``: api-key -> DEPLOYER_SECRET_API_KEY."""
    return "DEPLOYER_SECRET_" + re.sub(r"[^A-Z0-9]", "_", name.lstrip("-").upper())


def hand_over(settings: UnitSettings, release: str, spelling: Spelling) -> tuple[Handed, list[Finding]]:
    """``release`` is the lowest allowed one ("" is taken for a recent one)."""
    findings = _conflicts(settings)
    in_environment = {name: ref for name, ref in settings.secrets.items() if is_variable(name)}
    for_server = {name: ref for name, ref in settings.secrets.items() if not is_variable(name)}
    by_config = settings.program == "sglang" and not before(release, CONFIG_SINCE)
    carried = dict(in_environment)
    arguments: tuple[str, ...] = ()
    files: list[File] = []
    config = load = ""
    if for_server and by_config:
        path = f"{FOLDER}/{settings.name}/{CREDENTIAL}"
        load = f"{CREDENTIAL}:{path}"
        config = f"--config ${{CREDENTIALS_DIRECTORY}}/{CREDENTIAL}"
        files.append(_file(path, {spelling.of(name)[2:]: (name, ref) for name, ref in for_server.items()}, "yaml"))
        if isinstance(settings.args.get("config"), str):
            findings.append(Finding(
                "config-beside-secrets", Level.ERROR, "SGLang reads one config file, and that one carries the secrets "
                f"{', '.join(for_server)}", ("args", "config"),
                hint="write the file's entries under [args], or as a table: config = { … }"))
    elif for_server:
        if not settings.allow_secrets_in_argv:
            findings += [_only_argv(settings, name, release) for name in for_server]
        carried |= {variable(name): ref for name, ref in for_server.items()}
        arguments = tuple(f"{spelling.of(name)}=${{{variable(name)}}}" for name in for_server)
    environment_file = ""
    if carried:
        environment_file = f"{FOLDER}/{settings.name}/secrets.env"
        sources = {variable(name): name for name in for_server} | {name: name for name in in_environment}
        files.append(_file(environment_file, {name: (sources[name], ref) for name, ref in carried.items()},
                           "environment"))
    secret_args = tuple(spelling.dest(name) for name in for_server)
    return Handed(tuple(files), load, environment_file, config, arguments, secret_args), findings


def fill(text: SecretText, values: Mapping[str, str]) -> str:
    """The file's text with its secrets, by their names in ``[secrets]``. Raises SettingsError for a value that the
    file cannot carry; the message does not show it."""
    lines = []
    for index, (name, entry) in enumerate(text.entries):
        source = text.sources[index] if text.sources else name
        value = entry if isinstance(entry, str) else values[source]
        lines.append(_line(text.encoding, name, value, source))
    return "".join(f"{line}\n" for line in lines)


def masked(text: SecretText) -> str:
    """The file for people: where each secret comes from in place of it."""
    mark = ": " if text.encoding == "yaml" else "="
    return "".join(
        f"{name}{mark}{entry if isinstance(entry, str) else '<' + words(entry) + '>'}\n" for name, entry in text.entries
    )


def words(ref: SecretRef) -> str:
    """Where a secret is, for people and for the digest."""
    if ref.file is not None:
        return f"from file {ref.file}"
    if ref.env is not None:
        return f"from variable {ref.env}"
    return "from command " + " ".join(ref.command or ())


def _line(encoding: str, name: str, value: str, source: str) -> str:
    key = ("secrets", source)
    if encoding == "yaml":
        if value.startswith("-"):
            raise SettingsError("a secret cannot be handed over", [Finding(
                "secret-begins-with-dash", Level.ERROR, f"the secret {source} begins with a dash: SGLang would take it "
                "for an argument", key, hint="choose another one")])
        return f"{name}: {_yaml(value)}"
    try:
        return quote.environment_file(name, value)
    except quote.QuotingError as error:
        raise SettingsError("a secret cannot be handed over", [Finding(
            error.code, Level.ERROR, f"the secret {source} cannot stand in an environment file ({error.code})",
            key)]) from None


def _yaml(value: str) -> str:
    """A double-quoted scalar in ASCII: every reader of YAML gives back exactly ``value``."""
    def escape(char: str) -> str:
        if char in '"\\':
            return "\\" + char
        if " " <= char <= "~":
            return char
        code = ord(char)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return '"' + "".join(map(escape, value)) + '"'


def _file(path: str, entries: Mapping[str, tuple[str, SecretRef]], encoding: str) -> File:
    text = SecretText(
        entries=tuple((name, ref) for name, (_, ref) in entries.items()), encoding=encoding,
        sources=tuple(source for source, _ in entries.values()),
    )
    return File(path, 0o600, "root:root", text)


def _conflicts(settings: UnitSettings) -> list[Finding]:
    """Names that stand in two places: which one would count is nothing to guess."""
    args = {dest(name): name for name in settings.args}
    findings = []
    for name in settings.secrets:
        key = ("secrets", name)
        if is_variable(name) and name in settings.env:
            findings.append(Finding("declared-twice", Level.ERROR, f"{name} stands under [env] and under [secrets]",
                                    key, hint="take it out of [env]: every user of the host could read it there"))
        elif not is_variable(name) and dest(name) in args:
            findings.append(Finding("declared-twice", Level.ERROR, f"{name} stands under [args] and under [secrets]",
                                    key, hint="take it out of [args]: every user of the host could read it there"))
    return findings


def _only_argv(settings: UnitSettings, name: str, release: str) -> Finding:
    what = "sglang-router reads" if settings.program == "router" else f"SGLang {release or 'of that release'} reads"
    table = "router" if settings.program == "router" else "sglang"
    later = "" if settings.program == "router" else f"; from {CONFIG_SINCE} on there is a way without"
    return Finding(
        "secret-only-in-argv", Level.ERROR, f"{what} {name} from its command line only, where every user of the host "
        "can see it", ("secrets", name), hint=f"say allow-secrets-in-argv = true under [{table}] if that is "
        f"acceptable{later}")
