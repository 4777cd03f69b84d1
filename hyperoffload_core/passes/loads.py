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

    Three arguments per link (a half-duplex one carries both directions), besides the work of the ops: a slot is reached
    no earlier than all transfers due ahead of it take; behind a slot the step lasts at least as long as all transfers
    that come behind it take; and what has to run between the slot where the latter binds and a later slot takes its
    time between the two. ``step_ns`` is the longest way through a slot, ``binding_slot``.
    """

    def __init__(self, problem: Problem) -> None:
        ends = np.cumsum(np.asarray(problem.durations_ns, np.float64))
        self.total_ns = float(ends[-1]) if len(ends) else 0.0
        self._ahead = np.concatenate(([0.0, 0.0], ends))
        self._done = np.append(self._ahead[1:], self.total_ns)
        self._links = 1 if problem.hardware.duplex == "half" else 2
        self._count = [0] * self._links
        self._time = [np.empty(64) for _ in range(self._links)]
        self._windows = [np.empty((2, 64), np.int64) for _ in range(self._links)]
        self.step_ns, self.binding_slot = self.total_ns, 0
        self.measure()

    def add(self, direction: int, time_ns: float, release: int, deadline: int) -> None:
        """Carry one more transfer; it counts from the next `measure` on."""
        link = min(direction, self._links - 1)
        count = self._count[link]
        if count == len(self._time[link]):
            self._append(link, np.array([time_ns]), np.array([release]), np.array([deadline]))
            return
        self._time[link][count] = time_ns
        self._windows[link][0, count], self._windows[link][1, count] = release, deadline
        self._count[link] += 1

    def replace(self, transfers: Sequence[tuple[Floats, Integers, Integers]]) -> None:
        """Carry exactly these transfers: per direction (OUT, IN) their times, releases and deadlines."""
        self._count = [0] * self._links
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
        self._count[link] += more

    def measure(self) -> None:
        """Work out ``step_ns`` and what `step_with` needs."""
        ahead, done, slots = self._ahead, self._done, len(self._ahead)
        due, coming, rows = [], [], []
        for link in range(self._links):
            count = self._count[link]
            time_ns, (release, deadline) = self._time[link][:count], self._windows[link][:, :count]
            rows.append((time_ns, release, deadline))
            due.append(np.cumsum(np.bincount(deadline, time_ns, slots)))
            coming.append(np.cumsum(np.bincount(release, time_ns, slots)[::-1])[::-1])
        latest = due[0] if self._links == 1 else np.maximum(due[0], due[1])
        reached = ahead + np.maximum.accumulate(np.maximum(latest - ahead, 0.0))
        passed = np.maximum(np.append(reached[1:], reached[-1]), reached + done - ahead)
        self._pivot, between = [], []
        for (time_ns, release, deadline), link_coming in zip(rows, coming, strict=True):
            pivot = int(np.argmax(link_coming + passed))
            inside = release >= pivot
            self._pivot.append(pivot)
            between.append(passed[pivot] + np.cumsum(np.bincount(deadline[inside], time_ns[inside], slots)))
            latest = np.maximum(latest, np.where(np.arange(slots) > pivot, between[-1], 0.0))
        reached = ahead + np.maximum.accumulate(np.maximum(latest - ahead, 0.0))
        passed = np.maximum(np.append(reached[1:], reached[-1]), reached + done - ahead)
        most = coming[0] if self._links == 1 else np.maximum(coming[0], coming[1])
        lasting = np.maximum.accumulate((most + done)[::-1])[::-1]
        rest = np.maximum(lasting, self.total_ns) - ahead
        through = reached + rest
        self.binding_slot = int(np.argmax(through))
        self.step_ns = max(self.total_ns, float(through[self.binding_slot]))
        self._ends_late = [np.maximum.accumulate((d + rest)[::-1])[::-1] for d in due]
        self._between_late = [np.maximum.accumulate((b + rest)[::-1])[::-1] for b in between]
        self._starts_late = [np.maximum.accumulate(c + passed) for c in coming]
