"""What nodes of one state are compared by: their times, and which blocks were together on the way to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Signature(NamedTuple):
    """Pairs of blocks as bits: those that were together, and with them those that may come to have been."""

    firm: int
    all: int

    def within(self, other: Signature) -> bool:
        """Whether all that can follow the other can follow this one."""
        return not (self.firm & ~other.firm or self.all & ~other.all)


Label = tuple[tuple[int, ...], Signature | None]
"""(times, with the moved bytes behind them where these count; blocks that were together, None where nobody asks)."""


def covered(label: Label, known: Sequence[Label]) -> bool:
    """Whether one of those known is nowhere later, and whatever follows the label can follow it.

    Said at length, here and below: it is what the searches do most.
    """
    times, signature = label
    now, op, out, into, last = times[0], times[1], times[2], times[3], times[-1]
    for other, mark in known:
        if other[0] > now or other[1] > op or other[2] > out or other[3] > into or other[-1] > last:
            continue
        if signature is None or mark is None or mark.within(signature):
            return True
    return False


def not_covered(known: Sequence[Label], label: Label) -> list[Label]:
    """Those known that the label does not cover."""
    times, signature = label
    now, op, out, into, last = times[0], times[1], times[2], times[3], times[-1]
    left = []
    for one in known:
        other, mark = one
        later = now > other[0] or op > other[1] or out > other[2] or into > other[3] or last > other[-1]
        if later or not (signature is None or mark is None or signature.within(mark)):
            left.append(one)
    return left
