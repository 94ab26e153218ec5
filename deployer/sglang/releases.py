"""Which releases a declared one or a specifier means, and what is wrong with it."""

from __future__ import annotations

from deployer.protocol.finding import Finding, Level
from deployer.sglang import version
from deployer.sglang.catalogue import Catalogue
from deployer.sglang.wording import TITLES


def meant(known: Catalogue, declared: str) -> tuple[list[str], list[Finding]]:
    """The known releases to judge by, oldest first, and findings with the key ``(program, "version")``.

    A release that is newer than the catalogue, older, or a pre-release is judged by the nearest known one, with a
    warning. One that was never published is an error, and so is a specifier that nothing matches.
    """
    if declared in known.releases:
        return [declared], []
    key, title = (known.program, "version"), TITLES[known.program]
    try:
        if version.is_release(declared):
            return _single(known, declared, key, title)
        found = known.matching(declared)
    except version.Unreadable as error:
        return [], [Finding("bad-version", Level.ERROR, str(error), key,
                            hint="write a release such as \"0.5.9\", or a specifier such as \">=0.5.4,<0.6\"")]
    if found:
        return found, []
    beyond = version.specifier(declared).contains("999", prereleases=True)
    if beyond:
        return [known.newest], [_newer(known, declared, key, title)]
    return [], [Finding("no-release", Level.ERROR, f"no release of {title} is in \"{declared}\"", key,
                        hint=f"published are {known.releases[0]} to {known.newest}")]


def _single(known: Catalogue, declared: str, key: tuple[str, ...], title: str) -> tuple[list[str], list[Finding]]:
    wanted = version.parsed(declared)
    alike = next((release for release in known.releases if version.parsed(release) == version.parsed(wanted.public)),
                 None)
    if alike:
        return [alike], []
    if wanted > version.parsed(known.newest):
        return [known.newest], [_newer(known, declared, key, title)]
    nearest = known.standing(declared)
    if wanted < version.parsed(known.releases[0]):
        return [nearest], [Finding("unknown-release", Level.WARNING, f"{title} {declared} is older than what is known "
                                   f"here; arguments are judged by {nearest}", key)]
    if wanted.is_prerelease:
        return [nearest], [Finding("unknown-release", Level.WARNING, f"{title} {declared} is a pre-release; arguments "
                                   f"are judged by {nearest}", key)]
    after = known.releases[known.order(nearest) + 1]
    return [], [Finding("no-release", Level.ERROR, f"{title} {declared} was never published", key,
                        hint=f"the nearest are {nearest} and {after}")]


def _newer(known: Catalogue, declared: str, key: tuple[str, ...], title: str) -> Finding:
    return Finding("unknown-release", Level.WARNING, f"{title} {declared} is newer than what is known here; arguments "
                   f"are judged by {known.newest}", key, hint="a newer deployer may know it")
