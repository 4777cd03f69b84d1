"""What each link has to carry when: how long a step takes at least with some transfers, and with one more.

Slots as in `selection`: 0 is the start of the step, slot p + 1 the op at position p, the last one the end of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.passes.placement import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OUT, IN = 0, 1


class Loads:
    """Transfers with windows: each runs behind its release slot and ahead of its deadline slot.

    ``due[link, s]`` is the time of all transfers that end ahead of slot s, ``coming[link, s]`` of all that start behind
    it. So slot s is reached no earlier than ``due``, and behind it the step lasts at least ``coming``; both also count
    the work of the ops there. A half-duplex link carries both directions.
    """

    def __init__(self, problem: Problem) -> None:
        ends = np.cumsum(np.asarray(problem.durations_ns, np.float64))
        self.total_ns = float(ends[-1]) if len(ends) else 0.0
        self._ahead = np.concatenate(([0.0, 0.0], ends))
        self._done = np.append(self._ahead[1:], self.total_ns)
        self._links = 1 if problem.hardware.duplex == "half" else 2
        self._due = np.zeros((self._links, len(self._ahead)))
        self._coming = np.zeros((self._links, len(self._ahead)))
        self.step_ns = self.total_ns
        self._measure()

    def add(self, direction: int, time_ns: float, release: int, deadline: int) -> None:
        link = min(direction, self._links - 1)
        self._due[link, deadline:] += time_ns
        self._coming[link, : release + 1] += time_ns
        self._measure()

    def replace(self, direction_rows: Sequence[tuple[Floats, Integers, Integers]]) -> None:
        """Carry exactly these transfers: per direction (OUT, IN) their times, releases and deadlines."""
        slots = len(self._ahead)
        self._due = np.zeros((self._links, slots))
        self._coming = np.zeros((self._links, slots))
        for direction, (time_ns, release, deadline) in enumerate(direction_rows):
            link = min(direction, self._links - 1)
            self._due[link] += np.cumsum(np.bincount(deadline, time_ns, slots))
            self._coming[link] += np.cumsum(np.bincount(release, time_ns, slots)[::-1])[::-1]
        self._measure()

    def step_with(self, direction: int, time_ns: Floats, release: Integers, deadline: Integers) -> Floats:
        """The least step time in ns with one more transfer, for each row."""
        link = min(direction, self._links - 1)
        longest: Floats = time_ns + np.maximum(self._ends_late[link, deadline], self._starts_late[link, release])
        return longest

    def _measure(self) -> None:
        ahead, done = self._ahead, self._done
        reached = ahead + np.maximum.accumulate(np.maximum(self._due.max(axis=0) - ahead, 0.0))
        lasting = np.maximum.accumulate((self._coming.max(axis=0) + done)[::-1])[::-1]
        rest = np.maximum(lasting, self.total_ns) - ahead
        self.step_ns = max(self.total_ns, float((reached + rest).max()))
        passed = np.maximum(np.append(reached[1:], reached[-1]), reached + done - ahead)
        self._ends_late = np.maximum.accumulate((self._due + rest)[:, ::-1], axis=1)[:, ::-1]
        self._starts_late = np.maximum.accumulate(self._coming + passed, axis=1)
