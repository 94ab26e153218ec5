"""The median, without ``statistics``, which loads fractions and decimals: 4 ms of CPU at every contact with a host."""

from __future__ import annotations

from typing import Iterable


def median(values: Iterable[float]) -> float:
    """Of at least one value; of an even number the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
