"""Sizes, rates and times as people write and read them. Inside the program all are integers (bytes, bytes/s, ns)."""

from __future__ import annotations

import re
from decimal import Decimal

from hyperoffload_core.errors import UserError

_UNITS = {"B": 1}
for _power, _letter in enumerate("KMGTP", start=1):
    _UNITS[f"{_letter}B"] = 1000**_power
    _UNITS[f"{_letter}iB"] = 1024**_power
_BY_LOWER = {unit.lower(): factor for unit, factor in _UNITS.items()}
_NANOSECONDS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][0-9]+)?|\.[0-9]+)\s*([A-Za-z/%]*)\s*")

UNLIMITED_BYTES_PER_S = 10**15
"""The rate that stands for ``unlimited``: a petabyte a second, where a transfer costs its latency only."""


class SizeError(UserError):
    """A text that is no size, rate or share."""


class OutOfRangeError(SizeError):
    """A size, rate, share or time that is written well and is too small or too large."""


def parse_bytes(text: str, whole_bytes: int | None = None) -> int:
    """``"48GiB"``, ``"500 MB"``, ``"1024"`` (bytes); with ``whole_bytes`` also a share of it: ``"60%"``.

    Units are B, KB ... PB (powers of 1000) and KiB ... PiB (powers of 1024), in any case. Raises `SizeError`.
    """
    share = parse_percent(text)
    if share is not None:
        if whole_bytes is None:
            raise SizeError(f"{text!r} is a share, but a size is needed here, such as 48GiB")
        return int(whole_bytes * share)
    match = _NUMBER.fullmatch(text)
    factor = _BY_LOWER.get((match[2] or "B").lower()) if match else None
    if match is None or factor is None:
        raise SizeError(f"{text!r} is not a size; write a number with a unit, such as 48GiB or 500MB")
    size = int(Decimal(match[1]) * factor)
    if not 1 <= size < 2**62:
        raise OutOfRangeError(f"{text!r} is out of range; a size lies between 1 byte and 4096 PiB")
    return size


def parse_percent(text: str) -> float | None:
    """``"60%"`` as 0.6; None when the text has no percent sign. Raises `SizeError` when the number is not above 0."""
    if not text.rstrip().endswith("%"):
        return None
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] != "%":
        raise SizeError(f"{text!r} is not a share; write a percentage above 0, such as 60%")
    if not 0 < float(match[1]) <= 1000:
        raise OutOfRangeError(f"{text!r} is out of range; a share lies above 0% and is at most 1000%")
    return float(match[1]) / 100


def parse_rate(text: str) -> int | None:
    """``"2GB/s"``, ``"16 GiB/s"`` as bytes per second; ``"unlimited"`` as None. Raises `SizeError`."""
    stripped = text.strip()
    if stripped.lower() == "unlimited":
        return None
    if not stripped.endswith("/s"):
        raise SizeError(f"{text!r} is not a rate; write a size per second, such as 2GB/s, or unlimited")
    try:
        return parse_bytes(stripped.removesuffix("/s"))
    except OutOfRangeError as error:
        raise OutOfRangeError(f"{text!r} is out of range; a rate lies between 1 B/s and 4096 PiB/s") from error
    except SizeError as error:
        raise SizeError(f"{text!r} is not a rate; write a size per second, such as 2GB/s, or unlimited") from error


def parse_ns(text: str) -> int:
    """``"5ms"``, ``"200 us"``, ``"1.5s"`` as nanoseconds. Raises `SizeError`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s)", text.strip())
    value = round(Decimal(match[1]) * _NANOSECONDS[match[2]]) if match else 0
    if value <= 0:
        raise SizeError(f"{text!r} is no time; write a number above 0 with ns, us, ms or s, such as 5ms")
    if value >= 2**62:
        raise OutOfRangeError(f"{text!r} is out of range; a time is at most a hundred years")
    return value


def format_bytes(size_bytes: int) -> str:
    """With a binary unit and three or four significant digits: ``"512 B"``, ``"1.50 KiB"``, ``"61.2 GiB"``."""
    sign, size = ("-", -size_bytes) if size_bytes < 0 else ("", size_bytes)
    if size < 1024:
        return f"{sign}{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        value /= 1024
        if value < 1023.5 or unit == "PiB":
            break
    return f"{sign}{value:.{_decimals(value)}f} {unit}"


def format_rate(bytes_per_s: int | None) -> str:
    """With a decimal unit, as links are quoted: ``"16.0 GB/s"``; ``"unlimited"`` for None."""
    if bytes_per_s is None or bytes_per_s >= UNLIMITED_BYTES_PER_S:
        return "unlimited"
    value, unit = float(bytes_per_s), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.{_decimals(value)}f} {unit}/s"


def format_ns(time_ns: int) -> str:
    """In the unit people read: ``"850 ns"``, ``"12.3 µs"``, ``"4.20 ms"``, ``"5.20 s"``."""
    sign, time = ("-", -time_ns) if time_ns < 0 else ("", time_ns)
    if time < 1000:
        return f"{sign}{time} ns"
    value, unit = float(time), "ns"
    for unit in ("µs", "ms", "s"):
        value /= 1000
        if value < 999.5 or unit == "s":
            break
    return f"{sign}{value:.{_decimals(value)}f} {unit}"


def _decimals(value: float) -> int:
    return 2 if value < 9.995 else 1 if value < 99.95 else 0
