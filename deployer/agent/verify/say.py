"""Verdicts in few words, and amounts as people read them."""

from __future__ import annotations

from typing import Any

from deployer.protocol.verdict import GateState, Verdict


def waits(gate: str, text: str, **figures: Any) -> Verdict:
    return Verdict(gate, GateState.WAITING, text, figures)


def passes(gate: str, text: str = "", **figures: Any) -> Verdict:
    return Verdict(gate, GateState.PASSED, text, figures)


def fails(gate: str, text: str, **figures: Any) -> Verdict:
    return Verdict(gate, GateState.FAILED, text, figures)


def skips(gate: str, text: str, **figures: Any) -> Verdict:
    return Verdict(gate, GateState.SKIPPED, text, figures)


def gib(mib: float) -> str:
    """MiB as GiB with one decimal."""
    return "{:.1f} GiB".format(mib / 1024.0)


def duration(seconds: float) -> str:
    """``75.2`` as "75 s", ``190`` as "3 min 10 s", ``7300`` as "2 h 1 min"."""
    if seconds < 10:
        return "{:.1f} s".format(seconds)
    whole = int(seconds + 0.5)
    if whole < 120:
        return "{} s".format(whole)
    if whole < 7200:
        minutes, rest = divmod(whole, 60)
        return "{} min {} s".format(minutes, rest) if rest else "{} min".format(minutes)
    hours, rest = divmod(whole // 60, 60)
    return "{} h {} min".format(hours, rest)


def count(number: float) -> str:
    """``159277`` as "159,277"."""
    return "{:,}".format(int(number))
