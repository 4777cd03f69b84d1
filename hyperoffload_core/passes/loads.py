"""What each link has to carry when: how long a step takes at least with some transfers, and with one more.

Slots as in `selection`: 0 is the start of the step, slot p + 1 the op at position p, the last one the end of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.passes.play import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OUT, IN = 0, 1


class Loads:
    """Transfers with windows: each runs behind its release slot and ahead of its deadline slot.

    Three arguments per link (a half-duplex one carries both directions), besides the work of the ops: a slot is reached
    no earlier than all transfers due ahead of it take; behind a slot the step lasts at least as long as all transfers
    that come behind it take; and what has to run between the slot where the latter binds and a later slot takes its
    time between the two. ``step_ns`` is the longest way through a slot, ``binding_slot``.
    """

    def __init__(self, problem: Problem) -> None:
        ends = np.cumsum(np.asarray(problem.durations_ns, np.int64))
        self.total_ns = int(ends[-1]) if len(ends) else 0
        self._ahead = np.concatenate((np.zeros(2, np.int64), ends))
        self._done = np.append(self._ahead[1:], self.total_ns)
        self._own = self._done - self._ahead
        self._links, slots = 1 if problem.hardware.duplex == "half" else 2, len(self._ahead)
        self._count = [0] * self._links
        self._time = [np.empty(64) for _ in range(self._links)]
        self._windows = [np.empty((2, 64), np.int64) for _ in range(self._links)]
        # Transfer times by deadline and by release, a row per link; whole numbers, whose running maxima are quicker.
        self._due, self._coming = np.zeros((2, self._links, slots), np.int64)
        self.step_ns, self.binding_slot = float(self.total_ns), 0
        self.measure()

    def add(self, direction: int, time_ns: Floats, release: Integers, deadline: Integers) -> None:
        """Carry more transfers; they count from the next `measure` on."""
        if len(time_ns):
            self._append(min(direction, self._links - 1), time_ns, release, deadline)

    def replace(self, transfers: Sequence[tuple[Floats, Integers, Integers]]) -> None:
        """Carry exactly these transfers: per direction (OUT, IN) their times, releases and deadlines."""
        self._count = [0] * self._links
        self._due[:], self._coming[:] = 0, 0
        for direction, (time_ns, release, deadline) in enumerate(transfers):
            self._append(min(direction, self._links - 1), time_ns, release, deadline)
        self.measure()

    def step_with(self, direction: int, time_ns: Floats, release: Integers, deadline: Integers) -> Floats:
        """The least step time in ns with one more transfer, for each row."""
        link = min(direction, self._links - 1)
        longest = np.maximum(self._ends_late[link][deadline], self._starts_late[link][release])
        between = np.where(release >= self._pivot[link], self._between_late[link][deadline], 0.0)
        result: Floats = time_ns + np.maximum(longest, between)
        return result

    def _append(self, link: int, time_ns: Floats, release: Integers, deadline: Integers) -> None:
        count, more = self._count[link], len(time_ns)
        if count + more > len(self._time[link]):
            self._time[link] = np.resize(self._time[link], 2 * (count + more))
            grown = np.empty((2, 2 * (count + more)), np.int64)
            grown[:, :count] = self._windows[link][:, :count]
            self._windows[link] = grown
        self._time[link][count : count + more] = time_ns
        self._windows[link][:, count : count + more] = release, deadline
        self._due[link] += np.bincount(deadline, time_ns, len(self._ahead)).astype(np.int64)
        self._coming[link] += np.bincount(release, time_ns, len(self._ahead)).astype(np.int64)
        self._count[link] += more

    def measure(self) -> None:
        """Work out ``step_ns`` and what `step_with` needs."""
        due = np.cumsum(self._due, axis=1)
        coming = np.cumsum(self._coming[:, ::-1], axis=1)[:, ::-1]
        latest = due[0].copy() if self._links == 1 else np.maximum(due[0], due[1])
        passed = self._passed(self._reached(latest))
        self._pivot = [int(pivot) for pivot in np.argmax(coming + passed, axis=1)]
        between = np.empty_like(due)
        for link, pivot in enumerate(self._pivot):
            count = self._count[link]
            release, deadline = self._windows[link][:, :count]
            inside = release >= pivot
            between[link] = np.bincount(deadline[inside], self._time[link][:count][inside], len(self._ahead))
        between = np.cumsum(between, axis=1) + passed[self._pivot][:, None]
        for row, pivot in zip(between, self._pivot, strict=True):
            np.maximum(latest[pivot + 1 :], row[pivot + 1 :], out=latest[pivot + 1 :])
        reached = self._reached(latest)
        passed = self._passed(reached)
        most = coming[0] if self._links == 1 else np.maximum(coming[0], coming[1])
        lasting = np.maximum.accumulate((most + self._done)[::-1])[::-1]
        rest = np.maximum(lasting, self.total_ns) - self._ahead
        through = reached + rest
        self.binding_slot = int(through.argmax())
        self.step_ns = float(max(self.total_ns, int(through[self.binding_slot])))
        self._ends_late = np.maximum.accumulate((due + rest)[:, ::-1], axis=1)[:, ::-1]
        self._between_late = np.maximum.accumulate((between + rest)[:, ::-1], axis=1)[:, ::-1]
        self._starts_late = np.maximum.accumulate(coming + passed, axis=1)

    def _reached(self, latest: Integers) -> Integers:
        """When each slot is reached at the earliest, given when all that is due ahead of it has run."""
        waited = np.maximum.accumulate(np.maximum(latest - self._ahead, 0))
        result: Integers = self._ahead + waited
        return result

    def _passed(self, reached: Integers) -> Integers:
        """When what comes behind each slot can start at the earliest."""
        passed: Integers = reached + self._own
        np.maximum(passed[:-1], reached[1:], out=passed[:-1])
        return passed
