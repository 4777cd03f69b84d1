"""What can be asked of a schedule in words: keep a storage, start a transfer earlier, another link, another limit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hyperoffload_core import sizes
from hyperoffload_core.errors import UserError
from hyperoffload_core.schedule import TransferKind
from hyperoffload_core.sizes import SizeError, parse_bytes, parse_percent, parse_rate

FORMS = (
    "keep NAME",
    "prefetch ID earlier by 5ms",
    "store ID earlier by 5ms",
    "link x2",
    "link in x2",
    "link out 50GB/s",
    "limit 80%",
)


class QuestionError(UserError):
    """Words that are no question; the message lists what can be asked."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the storages of a name (or shell-style pattern) on the device for the whole step."""

    name: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """Start the move that transfer ``id`` belongs to ``by_ns`` earlier."""

    kind: TransferKind
    id: int
    by_ns: int


@dataclass(frozen=True, slots=True)
class OtherLink:
    """``factor`` times the bandwidth, or a bandwidth, in one direction (``out``, ``in``) or both."""

    direction: Literal["out", "in", "both"]
    factor: float | None
    bytes_per_s: int | None


@dataclass(frozen=True, slots=True)
class OtherLimit:
    """A memory limit: a size, or a share of the no-offload peak."""

    limit: str


Question = Keep | Earlier | OtherLink | OtherLimit


def parse_question(text: str) -> Question:
    """One of `FORMS`, in any case, spaces at will. Raises `QuestionError` in one sentence."""
    words = text.strip()
    if match := re.fullmatch(r"keep\s+(\S.*)", words, re.IGNORECASE):
        return Keep(match[1].strip().strip("'\""))
    if match := re.fullmatch(r"(prefetch|store)\s+(\d+)\s+earlier\s+by\s+(\S.*)", words, re.IGNORECASE):
        kind: TransferKind = "prefetch" if match[1].lower() == "prefetch" else "store"
        return Earlier(kind, int(match[2]), parse_ns(match[3]))
    if match := re.fullmatch(r"link(?:\s+(in|out))?\s+(\S.*)", words, re.IGNORECASE):
        return _link((match[1] or "both").lower(), match[2])
    if match := re.fullmatch(r"limit\s+(\S.*)", words, re.IGNORECASE):
        try:
            if parse_percent(match[1]) is None:
                parse_bytes(match[1])
        except SizeError as error:
            raise QuestionError(f"{text!r}: {error}") from error
        return OtherLimit(match[1])
    raise QuestionError(f"{text!r} is no question; ask for instance {'; '.join(FORMS)}")


def parse_ns(text: str) -> int:
    """``5ms``, ``1.5 s``, ``250us`` in ns. Raises `QuestionError`."""
    try:
        return sizes.parse_ns(text)
    except SizeError as error:
        raise QuestionError(str(error)) from error


def _link(direction: str, text: str) -> OtherLink:
    way: Literal["out", "in", "both"] = "out" if direction == "out" else "in" if direction == "in" else "both"
    if match := re.fullmatch(r"x\s*([0-9]+(?:\.[0-9]+)?)", text.strip(), re.IGNORECASE):
        factor = float(match[1])
        if not 0.001 <= factor <= 1000:
            raise QuestionError(f"a link {match[1]} times as fast is out of range; write x0.001 to x1000")
        return OtherLink(way, factor, None)
    try:
        rate = parse_rate(text)
    except SizeError as error:
        raise QuestionError(f"link {text!r}: write a factor such as x2 or a rate such as 50GB/s") from error
    if rate is None:
        raise QuestionError("an unlimited link is none there is; write a factor such as x2 or a rate such as 50GB/s")
    return OtherLink(way, None, rate)
