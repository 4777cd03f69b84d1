"""Which reuse gaps to leave so that memory stays under a limit: a greedy choice.

At the slot most over the limit the greedy choice takes the gap that relieves most per price. The price is what the gap
adds to the least step time (`passes.loads`) and a little of its own link time: while links have time to spare it is
bytes that count, and where they do not, gaps are preferred whose transfers fit where the links still idle.
`passes.improving` and `passes.exchange` make a choice better.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.packing.firstfit import range_maxima
from hyperoffload_core.passes.loads import IN, OUT, Loads
from hyperoffload_core.passes.play import Problem
from hyperoffload_core.passes.selection import WRAP, Candidates, Choice, Floats, Integers, resident_slots
from hyperoffload_core.policy import Action

Flags = NDArray[np.bool_]
_Windows = tuple[tuple[Integers, Integers], tuple[Integers, Integers]]

LINK_WEIGHT = 0.03
"""What a gap's own link time counts beside what it adds to the least step time."""
_SMALLEST_SHARE = 16
"""Homes in the pool are tried for half of the storages that could have one, down to one in so many."""
_TOGETHER = 12
"""So many gaps may be taken before loads are measured again, until one in so many of the bytes missing are away."""
_ROUNDS = 1000
"""Of very many candidates, one in so many is taken at once, so that the time does not grow with their square."""
_NOISE = 0.3
"""Standard deviation of the logarithm of the factors that a round of the search puts on scores."""
_WHOLE = 0.99
"""A gap that a solution in parts leaves by so much counts as left."""


@dataclass(frozen=True)
class Chosen:
    """Gaps to leave. ``step_ns``: with them the step takes at least so long by link time; ``link_ns``: the time all
    their transfers take."""

    choices: frozenset[Choice]
    step_ns: float
    link_ns: float

    @property
    def cost(self) -> tuple[float, float]:
        return self.step_ns, self.link_ns


class Choosing:
    """What has been taken so far, what is then on the device at each slot, and what the links carry.

    ``offload`` rules are followed first; None of the methods gives such a choice up. ``rounds`` counts how often the
    loads were worked out, which is what takes the time.
    """

    def __init__(
        self,
        problem: Problem,
        uses: Sequence[Uses],
        actions: Sequence[Action],
        candidates: Candidates,
        limit_bytes: int,
        largest_bytes: int | None = None,
    ) -> None:
        self.c, self.uses, self.limit = candidates, uses, limit_bytes
        self.occupied = resident_slots(problem, uses)
        self.slots = len(self.occupied)
        self.loads = Loads(problem)
        self.available = np.ones(len(candidates.storage), np.bool_)
        self.low, self.out_ns = candidates.low.copy(), candidates.out_ns.copy()
        self.high = np.minimum(candidates.high, self.slots - 1)
        self.written = candidates.last_write + 1
        self.link_weight, self.barred = LINK_WEIGHT, np.zeros(len(candidates.storage), np.bool_)
        self.preference = np.ones(len(candidates.storage))
        self.rows_of = candidates.rows_of
        self.taken: dict[int, None] = {}
        self.rounds = 0
        for storage, action in enumerate(actions):
            if action == "offload":
                for row in sorted(self.rows_of.get(storage, ()), key=lambda r: not candidates.wrap[r]):
                    if self.available[row] and (candidates.wrap[row] or self.low[row] <= candidates.high[row]):
                        self.take(row)
        self.forced = len(self.taken)
        if self.forced:
            self.load()
        if largest_bytes is not None:
            self.barred = candidates.bytes > largest_bytes

    def bar(self, choices: Collection[Choice]) -> None:
        """These gaps are not to be left any more."""
        for storage, index in choices:
            for row in self.rows_of.get(storage, ()):
                if int(self.c.index[row]) == index:
                    self.barred[row] = True

    def greedy(self, link_weight: float = LINK_WEIGHT, home_weight: float = 1.0) -> Chosen | None:
        """Fill from nothing; None if the candidates do not suffice. A home in the pool counts ``home_weight`` times."""
        self.link_weight = link_weight
        self.preference = np.where(self.c.wrap, home_weight, 1.0)
        return self._with_homes_in_pool(self.settled()) if self.fill(None) else None

    def round_off(self, parts: Floats) -> Chosen | None:
        """Take the gaps that a solution in parts leaves as a whole (`covering.cover`) and fill in, rather with those it
        leaves in part."""
        for row in np.argsort(-parts, kind="stable").tolist():
            if parts[row] < _WHOLE:
                break
            if self.available[row]:
                self.take(row)
        self.load()
        self.preference = 1 + 2 * parts
        return self.settled() if self.fill(None) else None

    def start_from(self, choices: Collection[Choice], *, settle: bool = True) -> Chosen | None:
        """Take these choices (of the candidates) and fill in what is missing; ``settle``: undo what is not needed."""
        rows = {c: row for row, c in enumerate(zip(self.c.storage.tolist(), self.c.index.tolist(), strict=True))}
        for choice in sorted(choices, key=lambda choice: (choice[1] != WRAP, choice)):
            row = rows.get(choice)
            if row is not None and self.available[row] and not self.barred[row]:
                self.take(row)
        self.load()
        filled = self.fill(None)
        return (self.settled() if settle else self.measured()) if filled else None

    def fill(self, rng: Random | None) -> bool:
        """Take gaps until nothing is over the limit; False if they do not suffice.

        Several are taken at once while much is missing, the best ones of those that relieve the worst slot.
        """
        noise = None
        together = max(_TOGETHER, len(self.available) // _ROUNDS)
        while True:
            over = self.occupied - self.limit
            worst = int(np.argmax(over))
            if over[worst] <= 0:
                return True
            rows = self.covering(worst)
            if not len(rows):
                return False
            windows = self._windows(rows, over > 0)
            scores = self._relief(rows, over) / self._price(rows, windows) * self.preference[rows]
            if rng is not None:
                if noise is None:
                    noise = np.random.default_rng(rng.getrandbits(32)).normal(0.0, _NOISE, len(self.available))
                scores = scores * np.exp(noise[rows])
            if len(rows) <= together:
                ranked = np.argsort(-scores, kind="stable")
            else:
                best = np.argpartition(-scores, together)[:together]
                ranked = best[np.lexsort((best, -scores[best]))]
            wanted, bytes_of, taken = int(over[worst]) // _TOGETHER, self.c.bytes, []
            for place in ranked.tolist():
                row = int(rows[place])
                if self.available[row]:
                    taken.append((place, row, self.out_ns[row]))
                    self.take(row)
                    wanted -= int(bytes_of[row])
                if wanted <= 0:
                    break
            self._carry(taken, windows)
            self.loads.measure()
            self.rounds += 1

    def _carry(self, taken: Sequence[tuple[int, int, float]], windows: _Windows) -> None:
        """Add the transfers of gaps to the loads: (place in the windows, row, time of the Store)."""
        places, rows = np.array([t[0] for t in taken], np.int64), np.array([t[1] for t in taken], np.int64)
        out_ns = np.array([t[2] for t in taken])
        (in_release, in_deadline), (out_release, out_deadline) = windows
        self.loads.add(IN, self.c.in_ns[rows], in_release[places], in_deadline[places])
        stored = out_ns > 0
        self.loads.add(OUT, out_ns[stored], out_release[places[stored]], out_deadline[places[stored]])

    def settled(self) -> Chosen:
        """Undo what is not needed, dearest first, and measure what is left."""
        c = self.c
        rows = np.array(list(self.taken)[self.forced :], np.int64)
        # What is given up only adds to what is on the device, so a gap that was too full once stays so.
        rows = rows[self._fullest(rows) <= self.limit - c.bytes[rows]]
        for row in rows[np.argsort(-(c.in_ns[rows] + self.out_ns[rows]), kind="stable")].tolist():
            if self.is_superfluous(row):
                self.give_up(row)
        return self.measured()

    def measured(self) -> Chosen:
        self.load()
        c, rows = self.c, np.array(list(self.taken), np.int64)
        return Chosen(self.choices(), self.loads.step_ns, float((c.in_ns[rows] + self.out_ns[rows]).sum()))

    def _fullest(self, rows: Integers) -> Integers:
        """The most bytes on the device in the slots that each gap frees."""
        low, high, wrap = self.low[rows], self.high[rows] + 1, self.c.wrap[rows]
        head = range_maxima(self.occupied, np.where(wrap, 0, low), high)
        tail = range_maxima(self.occupied, low[wrap], np.full(int(wrap.sum()), self.slots))
        head[wrap] = np.maximum(head[wrap], tail)
        return head

    def choices(self) -> frozenset[Choice]:
        rows = np.array(list(self.taken), np.int64)
        return frozenset(zip(self.c.storage[rows].tolist(), self.c.index[rows].tolist(), strict=True))

    def is_superfluous(self, row: int) -> bool:
        """Whether the storage of a gap that was taken may stay without anything being over the limit."""
        most = self.limit - int(self.c.bytes[row])
        fits = all(self.occupied[part].max(initial=0) <= most for part in self._parts(row))
        return fits and not self._spares_a_store(row)

    def _with_homes_in_pool(self, current: Chosen) -> Chosen:
        """Give storages that leave between two reads a home in the pool as well, a share of them at a time, where the
        Store this spares is worth more than the Prefetch it costs."""
        share = 2
        while (rows := self.poolable()) and share <= _SMALLEST_SHARE:
            saved = self.save()
            for row in rows[: -(-len(rows) // share)]:
                self.take(row)
            found = self.settled()
            if found.cost < current.cost:
                current = found
            else:
                self.restore(saved)
                share *= 2
        self.load()
        return current

    def poolable(self) -> list[int]:
        """Homes in the pool not taken yet, of storages whose value of the step's start is stored for another gap."""
        c, rows = self.c, []
        for row in self.taken:
            if c.last_write[row] < 0 and not c.wrap[row] and self.out_ns[row]:
                rows += [r for r in self.rows_of[int(c.storage[row])] if c.wrap[r] and self.available[r]]
        return list(dict.fromkeys(r for r in rows if not self.barred[r]))

    def _spares_a_store(self, row: int) -> bool:
        """Whether a home in the pool makes another gap of the storage need no Store."""
        c = self.c
        return bool(c.wrap[row]) and any(
            r != row and r in self.taken and c.last_write[r] < 0 for r in self.rows_of[int(c.storage[row])]
        )

    def covering(self, slot: int) -> Integers:
        c = self.c
        inside = np.where(c.wrap, (slot <= c.high) | (slot >= self.low), (self.low <= slot) & (slot <= c.high))
        return np.flatnonzero(inside & self.available & ~self.barred)

    def take(self, row: int) -> None:
        """The caller works the loads out again, or adds to them."""
        self.taken[row] = None
        self._occupy(row, -1)
        self._refresh(int(self.c.storage[row]))

    def give_up(self, row: int) -> None:
        del self.taken[row]
        self._occupy(row, 1)
        self._refresh(int(self.c.storage[row]))

    def _refresh(self, storage: int) -> None:
        """Which other gaps of the storage may still be left, and which of them need no Store."""
        c, rows = self.c, self.rows_of[storage]
        if len(rows) == 1:
            self.available[rows[0]] = rows[0] not in self.taken
            return
        taken = [row for row in rows if row in self.taken]
        index, last = c.index_of_row, len(self.uses[storage].positions) - 1
        for row in rows:
            if row in self.taken:
                self.available[row] = False
                continue
            self.available[row] = not any(_exclude_each_other(index[t], index[row], last) for t in taken)
            clean = any(c.cleans(t, row) for t in taken)
            self.low[row] = c.clean_low[row] if clean else c.low[row]
            self.out_ns[row] = 0.0 if clean else c.out_ns[row]

    def _relief(self, rows: Integers, over: Integers) -> Floats:
        """Bytes x slots over the limit that each gap relieves; larger storages win ties."""
        c = self.c
        excess = np.maximum(over, 0)
        slots = np.concatenate(([0], np.cumsum(excess > 0)))
        total = np.concatenate(([0], np.cumsum(excess)))
        lows, highs, wrap = np.minimum(self.low[rows], self.slots), self.high[rows], c.wrap[rows]

        def between(prefix: Integers) -> Integers:
            upper, lower = prefix[np.maximum(highs + 1, 0)], prefix[lows]
            return np.where(wrap, upper + prefix[-1] - lower, upper - lower)

        relieved = np.minimum(c.bytes[rows] * between(slots).astype(np.float64), between(total).astype(np.float64))
        return relieved * c.first_of_ties[rows]

    def _price(self, rows: Integers, windows: _Windows) -> Floats:
        """What each gap adds to the least step time, and a little of the time its transfers take; ns."""
        loads = self.loads
        (in_release, in_deadline), (out_release, out_deadline) = windows
        in_ns, out_ns = self.c.in_ns[rows], self.out_ns[rows]
        fetched = loads.step_with(IN, in_ns, in_release, in_deadline)
        stored = loads.step_with(OUT, out_ns, out_release, out_deadline)
        step_ns = np.maximum(fetched, np.where(out_ns > 0, stored, 0.0))
        return np.maximum(step_ns - loads.step_ns, 0.0) + self.link_weight * (in_ns + out_ns)

    def _windows(self, rows: Integers, needed: Flags) -> _Windows:
        """(release, deadline) slots of the Prefetch and of the Store of each row, where the slots ``needed`` need the
        storage away."""
        places = np.arange(self.slots)
        before = np.maximum.accumulate(np.where(needed, places, 0))
        after = np.minimum.accumulate(np.where(needed, places, self.slots - 1)[::-1])[::-1]
        highs, lows = self.high[rows], np.minimum(self.low[rows], self.slots - 1)
        in_deadline, out_release = self.c.need[rows], self.written[rows]
        in_release = np.minimum(np.where(highs >= 0, before[np.maximum(highs, 0)], 0), in_deadline - 1)
        out_deadline = np.maximum(after[lows], np.minimum(out_release + 1, self.slots - 1))
        return (np.maximum(in_release, 0), in_deadline), (out_release, out_deadline)

    def load(self) -> None:
        """Work the loads out again, with windows by what would be over the limit if a storage stayed."""
        c = self.c
        self.rounds += 1
        rows = np.array(list(self.taken), np.int64)
        windows = np.zeros((4, len(rows)), np.int64)
        for size in np.unique(c.bytes[rows]):
            same = np.flatnonzero(c.bytes[rows] == size)
            (a, b), (d, e) = self._windows(rows[same], self.occupied + size > self.limit)
            windows[:, same] = a, b, d, e
        stored = self.out_ns[rows] > 0
        copied_out = self.out_ns[rows][stored], windows[2][stored], windows[3][stored]
        self.loads.replace([copied_out, (c.in_ns[rows], windows[0], windows[1])])

    def save(self) -> tuple[object, ...]:
        return (dict(self.taken), self.occupied.copy(), self.available.copy(), self.low.copy(), self.out_ns.copy())

    def restore(self, saved: tuple[object, ...]) -> None:
        self.taken, self.occupied, self.available, self.low, self.out_ns = saved  # type: ignore[assignment]

    def _parts(self, row: int) -> list[slice]:
        low, high = int(self.low[row]), int(self.high[row])
        if self.c.wrap[row]:
            return [slice(0, max(0, high + 1)), slice(min(low, self.slots), self.slots)]
        return [slice(low, high + 1)]

    def _occupy(self, row: int, sign: int) -> None:
        size = sign * self.c.bytes[row]
        for part in self._parts(row):
            self.occupied[part] += size


def _exclude_each_other(one: int, other: int, last: int) -> bool:
    """A wrap already leaves the gaps at the start and at the end of the step."""
    return WRAP in (one, other) and bool({-1, last} & {one, other})
