"""Lists of algorithms: those of ssh_config over the library's own, with ``+``, ``-``, ``^`` and patterns."""

from __future__ import annotations

from collections.abc import Sequence

from deployer.remote.hostkeys import CERTIFICATE
from deployer.remote.sshconfig import matches, matches_list

RSA = ("rsa-sha2-512", "rsa-sha2-256")


def choose(spec: str | None, available: Sequence[str]) -> list[str]:
    """What is offered of ``available`` under an ssh_config list; an unusable list leaves nothing."""
    if not spec:
        return list(available)
    sign, patterns = (spec[0], spec[1:].split(",")) if spec[0] in "+-^" else ("", spec.split(","))
    if sign == "+":
        return list(available)
    if sign == "-":
        return [name for name in available if not matches_list(patterns, name)]
    first = [name for pattern in patterns for name in available if matches(pattern, name)]
    rest = list(available) if sign == "^" else []
    return list(dict.fromkeys([*first, *rest]))


def host_key_order(available: Sequence[str], known: Sequence[str], by_authority: bool) -> list[str]:
    """``available`` host key algorithms in the order to ask for: certificates where an authority is known, then the
    kinds that the host is known by. Without an authority no certificate is asked for."""
    certified = [name for name in available if name.endswith(CERTIFICATE)]
    plain = [name for name in available if not name.endswith(CERTIFICATE)]
    kinds = [name for kind in known for name in plain if name in signatures(kind)]
    return list(dict.fromkeys([*(certified if by_authority else []), *kinds, *plain]))


def signatures(kind: str) -> tuple[str, ...]:
    """The signature algorithms of a kind of key: RSA keys sign with SHA-2 only."""
    if kind == "ssh-rsa":
        return RSA
    if kind == "ssh-rsa" + CERTIFICATE:
        return tuple(name + CERTIFICATE for name in RSA)
    return (kind,)
