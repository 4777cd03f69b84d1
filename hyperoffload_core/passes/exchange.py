"""Neighbours of a choice of gaps: a few given up and others taken that make the room instead, or one more taken and
what it makes superfluous given up.

All of them keep memory under the limit by what lies strictly inside gaps; whether they are better, a placement says.
"""

from __future__ import annotations

from random import Random

import numpy as np

from hyperoffload_core.passes.choice import Choosing
from hyperoffload_core.passes.selection import Choice

_TAKEN_FIRST = 0.3
"""The part of the neighbours that take a gap first and then give up what that makes superfluous."""
_TWO = 0.3
"""The part of the others that give up two gaps; the rest gives up one."""
_FITTING = 0.8
"""How often a gap is taken that makes all the room at the fullest slot, where there is one."""
_MOST_TAKEN, _MOST_GIVEN_UP = 4, 3
"""Gaps taken to make room, and given up because they are superfluous, at the most."""
_SMALLEST_PART = 1000
"""Gaps of less than one in so many bytes of the limit are left as they are."""
_TRIES = 8
"""Draws of a gap that is not taken yet."""


class Exchange:
    """What ``choosing`` holds, a choice that keeps the limit, and its neighbours."""

    def __init__(self, choosing: Choosing, rng: Random) -> None:
        self.choosing, self.rng = choosing, rng
        self._large = (choosing.c.bytes * _SMALLEST_PART > choosing.limit) & ~choosing.barred
        self._rows = np.flatnonzero(self._large).tolist()
        self._saved = choosing.save()

    def neighbour(self) -> frozenset[Choice] | None:
        """Go to a neighbour; None (and no step is made) where what was drawn makes none."""
        self._saved = self.choosing.save()
        found = self._take_first() if self.rng.random() < _TAKEN_FIRST else self._give_up_first()
        if not found:
            self.back()
            return None
        return self.choosing.choices()

    def back(self) -> None:
        """Back to where the last neighbour was asked for."""
        self.choosing.restore(self._saved)

    def _give_up_first(self) -> bool:
        choosing, rng = self.choosing, self.rng
        taken = list(choosing.taken)[choosing.forced :]
        for row in rng.sample(taken, min(2 if rng.random() < _TWO else 1, len(taken))):
            choosing.give_up(row)
        for _ in range(_MOST_TAKEN):
            slot = int(choosing.occupied.argmax())
            over = int(choosing.occupied[slot]) - choosing.limit
            if over <= 0:
                return bool(taken)
            rows = choosing.covering(slot)
            rows = rows[self._large[rows]]
            if not len(rows):
                return False
            fitting = rows[choosing.c.bytes[rows] >= over]
            pool = fitting if len(fitting) and rng.random() < _FITTING else rows
            choosing.take(int(pool[rng.randrange(len(pool))]))
        return int(choosing.occupied.max()) <= choosing.limit

    def _take_first(self) -> bool:
        choosing, rng = self.choosing, self.rng
        drawn = (rng.choice(self._rows) for _ in range(_TRIES if self._rows else 0))
        row = next((r for r in drawn if choosing.available[r]), None)
        if row is None:
            return False
        superfluous = list(choosing.taken)[choosing.forced :]
        rng.shuffle(superfluous)
        choosing.take(row)
        given_up = 0
        for other in superfluous:
            if choosing.is_superfluous(other):
                choosing.give_up(other)
                given_up += 1
                if given_up == _MOST_GIVEN_UP:
                    break
        return True
