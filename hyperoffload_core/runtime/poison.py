"""Fill a stay's bytes with NaN when it begins and when it ends, so that a wrong plan shows in the numbers (tests)."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hyperoffload_core.runtime.arena import Arena
from hyperoffload_core.runtime.stays import Stay


class Poison:
    """Counts, per stay, the ops and transfers that still use it in this step."""

    def __init__(self, arena: Arena, stays: Sequence[Stay]) -> None:
        self._arena = arena
        self._stays = stays
        self._lock = threading.Lock()
        self._left: list[int] = []

    def restart(self) -> None:
        """Begin a step."""
        self._left = [len(s.ops) + len(s.transfers) for s in self._stays]

    def begin(self, index: int) -> None:
        stay = self._stays[index]
        self._arena.poison(stay.residency.offset, stay.bytes)

    def used(self, index: int) -> None:
        """One op or transfer that uses the stay has ended."""
        with self._lock:
            self._left[index] -= 1
            ended = self._left[index] == 0
        if ended and not self._stays[index].to_end:
            self.begin(index)
