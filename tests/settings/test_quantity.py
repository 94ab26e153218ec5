"""Durations and sizes: what is written is what is counted, and the schema's pattern takes the same texts."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployer.settings import quantity

UNITS = {
    "us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": 1, "sec": 1, "seconds": 1, "m": 60, "min": 60,
    "h": 3600, "hr": 3600, "hours": 3600, "d": 86400, "days": 86400, "w": 604800, "weeks": 604800,
}  # fmt: skip
SIZES = {"KiB": Fraction(1, 1024), "MiB": 1, "GiB": 1024, "TiB": 1024**2}

numbers = st.builds(
    lambda whole, decimals: f"{whole}.{decimals}" if decimals else str(whole),
    st.integers(0, 10**6), st.text("0123456789", max_size=4),
)  # fmt: skip


@given(st.lists(st.tuples(numbers, st.sampled_from(list(UNITS))), min_size=1, max_size=4), st.sampled_from(["", " "]))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[str, str]], gap: str) -> None:
    text = " ".join(number + gap + unit for number, unit in parts)
    exact = sum((Fraction(number) * UNITS[unit] for number, unit in parts), Fraction(0))
    assert quantity.duration(text) == float(exact)


@given(numbers, st.sampled_from(list(SIZES)), st.sampled_from(["", " "]))
def test_a_size_is_in_whole_mebibytes_rounded_up(number: str, unit: str, gap: str) -> None:
    exact = Fraction(number) * SIZES[unit]
    assert 0 <= quantity.size(number + gap + unit) - exact < 1


@given(st.integers(0, 10**9) | st.floats(0, 1e9))
def test_a_bare_number_counts_seconds(number: float) -> None:
    assert quantity.duration(number) == number


@given(st.text("0123456789. smhinGKMTiBdw+-", max_size=12))
def test_schema_and_reader_take_the_same_texts(text: str) -> None:
    for pattern, convert in ((quantity.DURATION_PATTERN, quantity.duration), (quantity.SIZE_PATTERN, quantity.size)):
        try:
            assert convert(text) >= 0
            taken = True
        except quantity.QuantityError as error:
            assert error.hint
            taken = False
        assert taken == bool(re.search(pattern, text))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20min", 1200), ("1h 30min", 5400), ("1h30min", 5400), ("90", 90), ("1.5h", 5400), ("500ms", 0.5), ("0.1s", 0.1)],
)
def test_durations(text: str, seconds: float) -> None:
    assert quantity.duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("20 Min", '"20 min"'), ("1:30", '"1min 30s"'), ("1:02:03", '"1h 02min 03s"'), ("infinity", '"2h"'),
        ("twenty", '"90s"'), ("", '"90s"'), ("5 5s", '"90s"'), ("-5s", '"90s"'),
    ],
)  # fmt: skip
def test_what_is_no_duration_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(quantity.QuantityError) as caught:
        quantity.duration(text)
    assert hint in caught.value.hint


@pytest.mark.parametrize("number", [-1, float("inf"), float("nan")])
def test_numbers_that_are_no_durations(number: float) -> None:
    with pytest.raises(quantity.QuantityError):
        quantity.duration(number)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("4GB", '"4GiB"'), ("4G", '"4GiB"'), ("1.5 gb", '"1.5GiB"'), ("512m", '"512MiB"'), ("4", '"4MiB"'), ("b", "GiB")],
)
def test_what_is_no_size_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(quantity.QuantityError) as caught:
        quantity.size(text)
    assert hint in caught.value.hint
