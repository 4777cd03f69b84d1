"""What a search has done so far, in seconds it takes on the machine the benchmarks ran on: the same on every machine.

Searches end after so many of these, so that the schedule does not depend on how fast a machine is or what else it does.
"""

from __future__ import annotations

import time

_PLAY_NS, _PLAYED_NS = 300_000, 1_300
"""A forward pass over a step: once, and per op and access of a link (a transfer is two: it starts and ends)."""
_CHANGED_NS = 500
"""What is to be played made from a choice of gaps, per op."""
_FILL_NS, _FILLED_NS = 250_000, 52
"""A round of `passes.choice.Choosing.fill`: once, and per slot and candidate."""
_COVER_NS, _COVER_WHOLE_NS = 20_000, 300_000
"""A choice of all gaps at once: per candidate in parts, and what the answer in whole numbers adds."""
_PACKED_NS = 80_000
"""Addresses, per block."""


class Work:
    """Work since it was made. Where it takes more than ``slowest`` times as long as it says, processor time counts."""

    def __init__(self, slowest: float) -> None:
        self._slowest = slowest
        self._began = time.process_time()
        self._done_ns = 0

    @property
    def seconds(self) -> float:
        return max(self._done_ns * 1e-9, (time.process_time() - self._began) / self._slowest)

    def place(self, ops: int, transfers: int, rounds: int) -> None:
        self._done_ns += ops * _CHANGED_NS
        self.play(ops, transfers, rounds)

    def play(self, ops: int, transfers: int, rounds: int) -> None:
        self._done_ns += rounds * (_PLAY_NS + _PLAYED_NS * (ops + 2 * transfers))

    def fill(self, rounds: int, slots: int, candidates: int) -> None:
        self._done_ns += rounds * (_FILL_NS + _FILLED_NS * (slots + candidates))

    def cover(self, candidates: int, *, whole: bool) -> None:
        self._done_ns += candidates * (_COVER_NS + _COVER_WHOLE_NS * whole)

    def pack(self, blocks: int) -> None:
        self._done_ns += blocks * _PACKED_NS
