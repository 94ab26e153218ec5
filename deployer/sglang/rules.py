"""Judges declared arguments together: what a release rejects by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from deployer.protocol.finding import Finding
from deployer.sglang import releases
from deployer.sglang.catalogue import Catalogue, catalogue
from deployer.sglang.combinations import RULES
from deployer.sglang.given import Given
from deployer.sglang.wording import TITLES, runs


def judge(args: Mapping[str, Any], declared: str, *, secrets: Collection[str] = ()) -> list[Finding]:
    """Findings about SGLang's arguments together, with the key ``("args", NAME)`` of one of them.

    Nothing for a ``declared`` release that cannot be told: ``flags.judge`` says that.
    """
    known = catalogue("sglang")
    meant = releases.meant(known, declared)[0]
    given = Given(known, args, secrets)
    return list(_findings(known, meant, given)) if meant else []


def _findings(known: Catalogue, meant: list[str], given: Given) -> Iterator[Finding]:
    order = known.order
    for rule in RULES:
        broken = rule.broken(given)
        found = [release for release in meant
                 if (rule.since is None or order(release) >= order(rule.since))
                 and (rule.until is None or order(release) < order(rule.until))] if broken else []
        if broken and found:
            name = given.names.get(broken.dest, broken.dest.replace("_", "-"))
            table = "secrets" if broken.dest in given.secret else "args"
            does = f"; {TITLES['sglang']} {runs(found, known.releases)} {rule.verb}" if rule.since else ""
            yield Finding(rule.code, rule.level, broken.said + does, (table, name), hint=broken.hint)
