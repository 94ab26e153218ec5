"""Judges declared arguments against every release that the settings allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from deployer.protocol.finding import Finding, Level
from deployer.protocol.records import dataclass
from deployer.sglang import releases
from deployer.sglang.catalogue import Catalogue, catalogue
from deployer.sglang.flag import Flag, dashed, flag_in, strip
from deployer.sglang.values import Fault, fault, toml
from deployer.sglang.wording import HERE, TITLES, came, gone, near, runs, setting

Key = tuple[str, ...]



@dataclass(frozen=True)
class Verdict:
    """What one release makes of one argument. ``said`` is a sentence in which ``HERE`` stands for the releases."""

    code: str
    level: Level
    said: str
    hint: str = ""


def judge(
    args: Mapping[str, Any],
    declared: str,
    program: str = "sglang",
    *,
    secrets: Iterable[str] = (),
    key: Callable[[str], Key] = lambda name: ("args", name),
    known: Catalogue | None = None,
) -> list[Finding]:
    """All findings about ``args`` (names as declared) for the release or specifier ``declared``.

    ``secrets`` are names of arguments whose values come from elsewhere: their names alone are judged, under
    ``("secrets", NAME)``. ``key`` gives an argument's path in the settings. Findings about the release have the key
    ``(program, "version")``. ``known`` stands in for the packaged catalogue. Where ``declared`` is "" (the settings do
    not say it, which is an error by itself), the findings are those that hold for every release.
    """
    known = known or catalogue(program)
    if not declared:
        return _of_every_release(_Judged(known, known.releases, ""), args, key)
    meant, findings = releases.meant(known, declared)
    if not meant:
        return findings
    judged = _Judged(known, meant, declared)
    for name, value in args.items():
        findings += judged.argument(name, value, key(name))
    hidden = list(secrets)
    for name in hidden:
        findings += judged.argument(name, "", ("secrets", name), value_known=False)
    findings += judged.together([*args, *hidden], lambda name: key(name) if name in args else ("secrets", name))
    if not isinstance(args.get("config"), str):
        findings += judged.missing([*args, *hidden])
    return findings


def _of_every_release(judged: _Judged, args: Mapping[str, Any], key: Callable[[str], Key]) -> list[Finding]:
    return [finding for name, value in args.items() for finding in judged.argument(name, value, key(name), every=True)]


class _Judged:
    """``meant`` are the releases to judge by, oldest first; never empty."""

    def __init__(self, known: Catalogue, meant: Sequence[str], declared: str) -> None:
        self.known = known
        self.meant = meant
        self.declared = declared
        self.title = TITLES[known.program]

    def argument(
        self, name: str, value: Any, key: Key, value_known: bool = True, every: bool = False
    ) -> list[Finding]:
        """One argument in every release; releases that say the same share a finding. ``every``: what all of them say.
        """
        by_words: dict[tuple[str, Level, str], tuple[Verdict, list[str]]] = {}
        of_flag: dict[int, list[Verdict]] = {}                           # releases that register it alike agree
        for release in self.meant:
            flag = self.known.find(release, name)
            if flag is None or id(flag) not in of_flag:
                verdicts = list(self._verdicts(release, name, value, value_known))
                of_flag[id(flag)] = verdicts
            for verdict in of_flag[id(flag)]:
                words = (verdict.code, verdict.level, verdict.said)
                found = by_words[words][1] if words in by_words else []
                by_words[words] = (verdict, [*found, release])           # the newest release's hint counts
        return [self._finding(verdict, found, key) for verdict, found in by_words.values()
                if not every or len(found) == len(self.meant)]

    def _finding(self, verdict: Verdict, found: list[str], key: Key) -> Finding:
        words = runs(found, self.known.releases)
        message = verdict.said.replace(HERE, f"{self.title} {words}")
        if len(found) < len(self.meant):
            message += f" ({len(found)} of the {len(self.meant)} releases in \"{self.declared}\")"
        return Finding(verdict.code, verdict.level, message, key, hint=verdict.hint)

    def _verdicts(self, release: str, name: str, value: Any, value_known: bool) -> Iterable[Verdict]:
        flag = self.known.find(release, name)
        if flag is None:
            found = self.known.abbreviated(release, name)
            if len(found) != 1:
                verdict = self._unknown(release, name, value, found)
                yield verdict if value is not False else _left_out(verdict)
                return
            flag = self.known.spellings(release)[found[0]]
            yield Verdict("abbreviated-argument", Level.WARNING,
                          f"`{name}` is short for `{strip(found[0])}` in {HERE}", f"write {strip(found[0])}")
        if flag.deprecated and value is not False:
            yield self._retired(flag, name, value)
        wrong = fault(flag, strip(name), value) if value_known and not flag.refused else None
        if wrong:
            yield self._wrong(wrong, flag, value)

    def _unknown(self, release: str, name: str, value: Any, abbreviated: list[str]) -> Verdict:
        first, last = came(self.known, name), gone(self.known, name)
        order = self.known.order
        if first and order(release) < order(first):
            return self._not_yet(release, name, first)
        if first and last and order(release) >= order(last):
            instead = self.known.instead(name)
            now = f", now {instead}" if instead and instead.startswith("--") else ""
            hint = self._write(instead, value)
            taken = f"takes it for an ambiguous abbreviation of {_listed(abbreviated)}" if abbreviated else "refuses it"
            said = f"`{name}` was removed in {last}{now}; {HERE} {taken}"
            return Verdict("removed-argument", Level.ERROR, said, hint)
        if len(abbreviated) > 1:
            return Verdict("ambiguous-argument", Level.ERROR,
                           f"`{name}` is ambiguous in {HERE}: it could be {_listed(abbreviated)}",
                           "write the whole name")
        stripped = self._prefixed(release, name)
        if stripped:
            return Verdict("router-prefix", Level.ERROR, f"`{name}` is no argument of {HERE}: the prefix router- "
                           "belongs to sglang_router.launch_server alone", f"write {stripped}")
        alike = near(self.known, self.meant[-1], name)
        hint = f"did you mean {_listed(alike)}?" if alike else "`deployer flags` lists what there is"
        return Verdict("unknown-argument", Level.ERROR, f"`{name}` is no argument of {HERE}", hint)

    def _not_yet(self, release: str, name: str, first: str) -> Verdict:
        others = self.known.history(name)[0].flag.spellings
        older = next((s for s in others if self.known.find(release, s)), None)
        before = self._predecessor(release, name)
        if older:
            hint = f"write {strip(older)}, which is the same"
        elif before:
            hint = f"write {before}, its name before {first}"
        else:
            hint = f"it needs version = \">={first}\"; else take it out"
        return Verdict("argument-too-new", Level.ERROR, f"`{name}` came in {first}; {HERE} does not have it", hint)

    def _predecessor(self, release: str, name: str) -> str | None:
        """An argument of the release in whose place ``name`` stands later."""
        return next((strip(flag.name) for flag in self.known.flags(release).values()
                     if self.known.instead(flag.name) == dashed(name)), None)

    def _prefixed(self, release: str, name: str) -> str | None:
        bare = strip(dashed(name))
        if self.known.program == "router" and bare.startswith("router-"):
            rest = bare.removeprefix("router-")
            return rest if self.known.find(release, rest) else None
        return None

    def _retired(self, flag: Flag, name: str, value: Any) -> Verdict:
        hint = self._write(self.known.instead(flag.name) or flag.instead, value)
        if flag.refused:
            return Verdict("refused-argument", Level.ERROR, f"`{name}` is retired: {HERE} stops with a message", hint)
        return Verdict("deprecated-argument", Level.WARNING, f"`{name}` is deprecated in {HERE}", hint)

    def _write(self, instead: str | None, value: Any) -> str:
        """The hint that names what stands in place of a retired argument, with the value where it can be kept."""
        if not instead:
            return "take it out"
        spans = self.known.history(flag_in(instead) or "")
        if spans and not spans[-1].flag.takes_value:
            return f"write {setting(instead, 'true')}"
        return f"write {setting(instead, toml(value) if not isinstance(value, bool) and value != '' else '…')}"

    def _wrong(self, wrong: Fault, flag: Flag, value: Any) -> Verdict:
        said = wrong.text
        if wrong.code == "value-form":
            since = next((span.first for span in self.known.history(flag.name)
                          if span.flag.type == "human_readable_int"), None)
            said += f"; such sizes are read from {since} on" if since else ""
        elif wrong.code == "unknown-choice":
            said += self._elsewhere(flag, str(value))
        if wrong.doubtful:
            said += "; a plugin may add it"
        return Verdict(wrong.code, Level.WARNING if wrong.doubtful else Level.ERROR, said, wrong.hint)

    def _elsewhere(self, flag: Flag, choice: str) -> str:
        """Which other releases take a choice."""
        spans = self.known.history(flag.name)
        having = [span for span in spans if span.flag.choices and choice in map(str, span.flag.choices)]
        if not having:
            return ""
        last = having[-1].until
        return f"; it came in {having[0].first}" + (f" and went in {last}" if last else "")

    def together(self, names: Sequence[str], key: Callable[[str], Key]) -> list[Finding]:
        """Arguments that are one and the same in the newest release that is meant."""
        seen: dict[str, str] = {}
        findings = []
        for name in names:
            flag = self.known.find(self.meant[-1], self.known.spelling(self.meant[-1], name) or name)
            other = seen.setdefault(flag.dest, name) if flag else name
            if flag and other != name and dashed(other) != dashed(name):
                findings.append(Finding(
                    "same-argument", Level.ERROR,
                    f"`{name}` and `{other}` set the same: only the later one would count", key(name),
                    hint="keep one of the two"))
        return findings

    def missing(self, names: Sequence[str]) -> list[Finding]:
        """Arguments that a release insists on."""
        release = self.meant[-1]
        given = [self.known.find(release, self.known.spelling(release, name) or name) for name in names]
        return [
            Finding("missing-argument", Level.ERROR, f"{self.title} needs `{strip(flag.name)}`", ("args",),
                    hint=f"write {strip(flag.name)} = \"…\" under [args]")
            for flag in self.known.required(release) if flag not in given
        ]


def _left_out(verdict: Verdict) -> Verdict:
    """Of an argument that is declared ``false``: it is left out and does no harm, but its name means nothing."""
    said = verdict.said.split("; ")[0] + "; being false it is left out"
    return Verdict(verdict.code, Level.WARNING, said, verdict.hint)


def _listed(names: Sequence[str]) -> str:
    shown = [strip(name) for name in names[:4]] + ([f"{len(names) - 4} more"] if len(names) > 4 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
