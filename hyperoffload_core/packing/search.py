"""Exact search for a packing under a capacity: it finds one, or proves that there is none, if it is given the time.

Blocks are laid bottom up. In every slice of time the *floor* is the lowest address at which one of the blocks still to
come could lie; floor and bytes to come must not exceed the capacity. The lowest floor has to be settled next: either
one of the blocks that can lie on it does, or each of them rests on some block still to come, which lifts it. Pushing
every block of a packing down until it touches another loses nothing, so these alternatives are complete. The idea of
searching only such canonical packings, bounding them per slice, and solving stretches of time with nothing alive
across their border on their own is MiniMalloc's (Moffitt, ASPLOS 2023); the alternatives per slice, lifting, what is
remembered of failures and the restarts are our own.

Runs are short and start again with another sequence of blocks and another choice of the slice to settle. What failed is
remembered from run to run: a set of blocks still to come with their lowest addresses, which excuses every state with
the same blocks and no lower address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.packing.problem import Ints, Problem

Answer = Literal["found", "impossible", "stopped"]
_NEVER = 1 << 60
_ASK_EVERY = 32
_MOST_FAILURES = 100_000
_PER_SET = 16


@dataclass(frozen=True, slots=True)
class _Part:
    """Blocks still to come in slices [first, last), nothing of which reaches beyond. ``lowest[block]`` is the lowest
    address it can have, `_NEVER` once it lies; ``coming`` bytes per slice; ``across[k]`` counts blocks to come that
    exist on both sides of slice k's begin; ``floors`` is the least of ``lowest`` in each slice of the part. ``blocks``
    is the set as bits; failing takes the search back to ``back``.
    """

    lowest: Ints
    floors: Ints
    coming: Ints
    across: Ints
    blocks: int
    first: int
    last: int
    back: int


@dataclass(slots=True)
class _Choice:
    """A block was laid; the alternative is that it lies higher. ``entry`` is the state to remember if both fail."""

    part: _Part
    entry: _Part
    block: int
    lifted: int
    waiting: tuple[_Part, ...]


class Search:
    """Searches for packings of one problem under one capacity; `run` may be called again and goes on."""

    def __init__(self, problem: Problem, capacity_bytes: int) -> None:
        self.problem = problem
        self.capacity = capacity_bytes // problem.grain * problem.grain
        self.nodes = 0
        count, slices = problem.blocks, problem.slices
        self._first = np.full(count, slices, np.int64)
        self._last = np.zeros(count, np.int64)
        np.minimum.at(self._first, problem.owner, problem.start)
        np.maximum.at(self._last, problem.owner, problem.end)
        alive = np.zeros((slices, count), bool)
        for owner, start, end in zip(problem.owner, problem.start, problem.end, strict=True):
            alive[start:end, owner] = True
        self._table = _padded([np.flatnonzero(row) for row in alive], count)
        shared = (alive.T.astype(np.float32) @ alive.astype(np.float32)) > 0
        np.fill_diagonal(shared, False)
        self._near = [np.flatnonzero(row) for row in shared]
        self._near_table = _padded(self._near, count)
        self._slices_of = [np.flatnonzero(column) for column in alive.T]
        self._seen = np.array([problem.loads[s].max(initial=0) for s in self._slices_of], np.float64)
        self._starting = _bits_from(self._first, slices)
        self._ending = _bits_until(self._last, slices)
        self._size = np.append(problem.size, _NEVER)
        self._fixed = np.where(problem.fixed >= 0, problem.fixed, _NEVER)
        self._offsets = np.zeros(count, np.int64)
        self._blame = np.ones(slices)
        self._failed: dict[int, tuple[Ints, list[Ints]]] = {}
        self._failures = 0
        self._runs = 0

    def run(self, most_nodes: int, stop: Callable[[], bool]) -> tuple[Answer, Ints | None]:
        """Short runs until an answer, the number of nodes or ``stop`` ends them; the offsets if found."""
        until = self.nodes + most_nodes
        while self.nodes < until:
            self._rank, self._rule = self._tactics()
            length = 2 * self.problem.blocks * _luby(self._runs // 4 + 1)
            self._runs += 1
            self._blame = 1 + (self._blame - 1) * 0.9
            answer = self._one_run(min(until, self.nodes + length), stop)
            if answer == "found":
                return "found", self._offsets.copy()
            if answer == "impossible" or stop():
                return answer, None
        return "stopped", None

    def _tactics(self) -> tuple[Ints, int]:
        """Rank of the blocks where several can be laid, and how the slice to settle is chosen, for the next run."""
        problem, cycle = self.problem, self._runs // 4
        random = np.random.default_rng(self._runs)
        noise = np.exp(random.uniform(-0.3, 0.3, problem.blocks) * (cycle > 2))
        life, size = problem.durations.astype(np.float64), problem.size.astype(np.float64)
        keys: tuple[tuple[NDArray[np.float64], ...], ...] = (
            (-life * size, -life * noise),
            (-life, -life * size * noise),
            (-life, -size * noise),
            (-life * size, -life * noise, -self._seen),
        )
        rank = np.empty(problem.blocks, np.int64)
        rank[np.lexsort(keys[self._runs % 4])] = np.arange(problem.blocks)
        return rank, (0, 1, 2)[(cycle + self._runs) % 3]

    def _one_run(self, until: int, stop: Callable[[], bool]) -> Answer:
        choices: list[_Choice] = []
        waiting = self._start()
        part: _Part | None = None
        entry: _Part | None = None
        last_block = -1
        while True:
            if part is None:
                if not waiting:
                    return "found"
                part, waiting = waiting[0], waiting[1:]
                entry = part
            assert entry is not None
            if self.nodes >= until:
                return "stopped"
            self.nodes += 1
            if self.nodes % _ASK_EVERY == 0 and stop():
                return "stopped"
            settled = None if part is entry and self._known_to_fail(part) else self._settle(part, last_block)
            if settled is not None:
                block, lifted = settled
                choices.append(_Choice(part, entry, block, lifted, waiting))
                laid = self._lay(part, block, len(choices) - 1)
                last_block = block
                if laid is not None:
                    waiting, part = laid + waiting, None
                    continue
                back = len(choices) - 1
            else:
                back = part.back
            # Back to the last choice that can matter, and on with its alternative.
            while True:
                if back < 0:
                    return "impossible"
                choice = choices[back]
                del choices[back:]
                alone = not (choice.part.lowest[self._near[choice.block]] < _NEVER).any()
                if not alone and choice.lifted < min(_NEVER, self._fixed[choice.block]):
                    lowest = choice.part.lowest.copy()
                    lowest[choice.block] = choice.lifted
                    before = choice.part
                    floors = self._floors(before, lowest, choice.lifted, self._slices_of[choice.block])
                    part = replace(before, lowest=lowest, floors=floors)
                    entry, waiting, last_block = choice.entry, choice.waiting, choice.block
                    break
                self._remember(choice.entry)
                back = choice.part.back

    def _start(self) -> tuple[_Part, ...]:
        problem = self.problem
        lowest = np.append(np.maximum(problem.fixed, 0), _NEVER)
        across = np.zeros(problem.slices + 1, np.int64)
        inside = self._last > self._first
        np.add.at(across, self._first[inside] + 1, 1)
        np.add.at(across, self._last[inside], -1)
        if not inside.all():
            lowest[:-1][~inside] = _NEVER
        floors = lowest[self._table].min(axis=1)
        blocks = (1 << problem.blocks) - 1
        everything = _Part(lowest, floors, problem.loads.copy(), np.cumsum(across), blocks, 0, problem.slices, -1)
        return self._split(everything, -1)

    def _settle(self, part: _Part, last_block: int) -> tuple[int, int] | None:
        """The block to lay at its lowest address, and the address it rises to otherwise; None if the part fails."""
        first, last, lowest = part.first, part.last, part.lowest
        coming, floors = part.coming[first:last], part.floors[first:last]
        over = floors + coming > self.capacity
        over &= coming > 0
        if over.any():
            self._blame[first + int(over.argmax())] += 1
            return None
        floor = int(floors.min())
        rows = np.flatnonzero(floors == floor)
        near = self._table[first + rows]
        at = lowest[near]
        on_floor = at == floor
        laid_on = on_floor.sum(axis=1)
        if self._rule < 2:
            # There may be one way more than blocks that can lie on the floor, and the rule adds less than one to that.
            few = laid_on <= laid_on.min() + 1
            rows, near, at, on_floor, laid_on = rows[few], near[few], at[few], on_floor[few], laid_on[few]
        able = np.unique(near[on_floor])
        tops = lowest + self._size
        lifted = np.full(len(lowest), _NEVER)
        rise = tops[self._near_table[able]].min(axis=1)
        align = self.problem.alignment[able]
        lifted[able] = np.where(rise < _NEVER, -(-rise // align) * align, _NEVER)
        higher = np.where(on_floor, lifted[near], at).min(axis=1)
        ways = laid_on + (higher + coming[rows] <= self.capacity)
        row = int(self._preference(part, rows + first, ways, floor, last_block).argmin())
        blocks = near[row][on_floor[row]]
        block = int(blocks[self._rank[blocks].argmin()])
        return block, int(lifted[block])

    def _preference(self, part: _Part, slices: Ints, ways: Ints, floor: int, last_block: int) -> NDArray[np.float64]:
        """What to settle first has the least value: few ways, then by the rule of the run."""
        if self._rule == 0:
            slack = self.capacity - floor - part.coming[slices]
            return ways + slack / (self.capacity + 1)
        distance = np.zeros(len(slices))
        if last_block >= 0:
            begin, end = self._first[last_block], self._last[last_block]
            distance = np.maximum(0, np.maximum(begin - slices, slices - end + 1)) / (len(self._blame) + 1)
        if self._rule == 1:
            return ways + distance
        return np.where(ways <= 1, 0, ways / self._blame[slices]) + distance * 1e-6

    def _lay(self, part: _Part, block: int, choice: int) -> tuple[_Part, ...] | None:
        """The parts that are left once the block lies at its lowest address; None where a given offset is passed."""
        offset = int(part.lowest[block])
        if offset > self._fixed[block]:
            return None
        self._offsets[block] = offset
        top, near = offset + int(self.problem.size[block]), self._near[block]
        lowest = part.lowest.copy()
        raised = lowest[near]
        low = raised < top
        if low.any():
            align = self.problem.alignment[near]
            raised = np.where(low, -(-top // align) * align, raised)
            lowest[near] = raised
            if ((raised > self._fixed[near]) & (raised < _NEVER)).any():
                return None
        lowest[block] = _NEVER
        coming = part.coming.copy()
        coming[self._slices_of[block]] -= self.problem.size[block]
        across = part.across.copy()
        begin, end = int(self._first[block]), int(self._last[block])
        across[begin + 1 : end] -= 1
        floors = self._floors(part, lowest, top, np.arange(part.first, part.last))
        left = _Part(lowest, floors, coming, across, part.blocks ^ (1 << block), part.first, part.last, choice)
        if end - begin > 1 and (across[begin + 1 : end] == 0).any():
            return self._split(left, choice)
        return (left,) if left.blocks else ()

    def _floors(self, part: _Part, lowest: Ints, raised_to: int, slices: Ints) -> Ints:
        """Floors with these lowest addresses, of which some in these slices were raised to an address or from below it
        to another."""
        floors = part.floors.copy()
        rows = slices[floors[slices] < raised_to]
        floors[rows] = lowest[self._table[rows]].min(axis=1)
        return floors

    def _split(self, part: _Part, back: int) -> tuple[_Part, ...]:
        """The part cut where nothing to come exists on both sides; short ones first."""
        cuts = (np.flatnonzero(part.across[part.first + 1 : part.last] == 0) + part.first + 1).tolist()
        parts = []
        for first, last in zip([part.first, *cuts], [*cuts, part.last], strict=True):
            blocks = part.blocks & self._starting[first] & self._ending[last]
            if blocks:
                parts.append(_Part(part.lowest, part.floors, part.coming, part.across, blocks, first, last, back))
        return tuple(sorted(parts, key=lambda p: p.last - p.first))

    def _known_to_fail(self, part: _Part) -> bool:
        known = self._failed.get(part.blocks)
        if known is None:
            return False
        blocks, states = known
        lowest = part.lowest[blocks]
        return any((lowest >= state).all() for state in states)

    def _remember(self, part: _Part) -> None:
        if self._failures >= _MOST_FAILURES:
            return
        known = self._failed.get(part.blocks)
        if known is None:
            inside = (self._first >= part.first) & (self._last <= part.last) & (part.lowest[:-1] < _NEVER)
            known = self._failed[part.blocks] = (np.flatnonzero(inside), [])
        if len(known[1]) < _PER_SET:
            known[1].append(part.lowest[known[0]])
            self._failures += 1


def _padded(rows: list[Ints], filler: int) -> Ints:
    table = np.full((len(rows), max((len(row) for row in rows), default=0) or 1), filler, np.int64)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table


def _bits_from(first: Ints, slices: int) -> list[int]:
    """For each slice the blocks, as bits, that do not exist before it."""
    result = [0] * (slices + 1)
    for block, at in enumerate(first.tolist()):
        result[at] |= 1 << block
    for at in reversed(range(slices)):
        result[at] |= result[at + 1]
    return result


def _bits_until(last: Ints, slices: int) -> list[int]:
    """For each slice the blocks, as bits, that have ended when it begins."""
    result = [0] * (slices + 1)
    for block, at in enumerate(last.tolist()):
        result[at] |= 1 << block
    for at in range(slices):
        result[at + 1] |= result[at]
    return result


def _luby(index: int) -> int:
    """1 1 2 1 1 2 4 ...: lengths of runs that waste little, whatever length would have been best."""
    power = 1
    while (1 << power) - 1 < index:
        power += 1
    if (1 << power) - 1 == index:
        return 1 << (power - 1)
    return _luby(index - (1 << (power - 1)) + 1)
