import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperoffload_core.sizes import (
    OutOfRangeError,
    SizeError,
    format_bytes,
    format_ns,
    format_rate,
    parse_bytes,
    parse_ns,
    parse_percent,
    parse_rate,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("48GiB", 48 << 30), ("1.5 kib", 1536), ("500 MB", 500_000_000), ("1024", 1024), ("137.2GB", 137_200_000_000)],
)
def test_a_size_is_a_number_with_a_unit(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_a_share_is_of_the_whole() -> None:
    assert parse_bytes("60%", 1000) == 600
    assert parse_percent("12.5 %") == 0.125
    assert parse_percent("12GiB") is None


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "0", "4 gigs", "1e30GB", "60%", "0.1", "nan", "1GB/s"])
def test_what_is_no_size_is_quoted_in_the_error(text: str) -> None:
    with pytest.raises(SizeError) as error:
        parse_bytes(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("text", ["0%", "-5%", "x%", "5 GiB%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(SizeError):
        parse_bytes(text, 1000)


def test_a_rate_is_a_size_per_second() -> None:
    assert parse_rate("2GB/s") == 2_000_000_000
    assert parse_rate("Unlimited") is None
    with pytest.raises(SizeError, match="2GB/s"):
        parse_rate("2GB")
    with pytest.raises(SizeError, match="'fast/s'"):
        parse_rate("fast/s")


@pytest.mark.parametrize(
    ("read", "text", "range_of"),
    [
        (parse_bytes, "99999999999999TiB", "a size lies between 1 byte and 4096 PiB"),
        (parse_bytes, "0", "a size lies between"),
        (parse_percent, "5000%", "a share lies above 0% and is at most 1000%"),
        (parse_rate, "9e30GB/s", "a rate lies between 1 B/s and 4096 PiB/s"),
        (parse_ns, "99999999999s", "a time is at most a hundred years"),
    ],
)
def test_what_is_too_small_or_too_large_says_the_range(read: Callable[[str], object], text: str, range_of: str) -> None:
    with pytest.raises(OutOfRangeError, match=f"^'{re.escape(text)}' is out of range; {range_of}"):
        read(text)


@given(st.integers(1, 2**61))
def test_a_formatted_size_reads_back_within_its_digits(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == pytest.approx(size, rel=0.006)


@given(st.integers(1000, 10**15))
def test_a_formatted_rate_reads_back_within_its_digits(rate: int) -> None:
    text = format_rate(rate)
    assert text == "unlimited" or parse_rate(text) == pytest.approx(rate, rel=0.006)


@pytest.mark.parametrize(
    ("time", "text"),
    [(850, "850 ns"), (12_300, "12.3 µs"), (4_200_000, "4.20 ms"), (5_200_000_000, "5.20 s"), (-999_900, "-1.00 ms")],
)
def test_times_have_the_unit_people_read(time: int, text: str) -> None:
    assert format_ns(time) == text
