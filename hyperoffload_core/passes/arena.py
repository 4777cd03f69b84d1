"""Placement and addresses in one: the step is played with a real allocator, and what finds no hole waits.

`passes.placement` counts bytes; addresses assigned afterwards may not fit where memory is full all the time. Here every
op and every Prefetch takes its addresses when it begins, as a run-time allocator would, but with foresight: storages
with a home on the device keep their address for when they return, and what stays long does not lie between what does
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from hyperoffload_core.passes.addresses import alignment_bytes
from hyperoffload_core.passes.allocator import Allocator
from hyperoffload_core.passes.insertion import Inserted
from hyperoffload_core.passes.placement import to_plan
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import NoPlacementError, Play, Problem

_LONG = 100
"""A stay over more than this part (one in so many) of the ops lies at the low end."""
_LARGE = 8
"""Stays of so many times the size of the median transfer get their addresses before the step is played."""


class NoHoleError(NoPlacementError):
    """The step cannot go on: nothing more will be freed, and the holes are too small.

    ``position`` is the op that waits, ``wanted_bytes`` the largest block it waits for; ``held`` are (offset, stay) of
    what lies on the device, in the order of addresses.
    """

    def __init__(self, position: int, wanted_bytes: int, held: list[tuple[int, int]]) -> None:
        super().__init__()
        self.position, self.wanted_bytes, self.held = position, wanted_bytes, held


def place_with_addresses(
    problem: Problem, inserted: Inserted, bounds: tuple[int, ...], limit_bytes: int, spared_bytes: int
) -> Plan:
    """A plan whose offsets are within ``limit_bytes``, of which early Prefetches leave ``spared_bytes`` to the ops.

    ``bounds`` are earliest starts of the transfers, as of a `Placement`. Raises `NoPlacementError` where the stays do
    not fit whatever their addresses, `NoHoleError` where holes run out.
    """
    play = _ArenaPlay(problem, inserted, limit_bytes, list(bounds), spared_bytes)
    try:
        placement = play.run()
    except NoPlacementError:
        if play.position < play.count:
            raise NoHoleError(play.position, play.wanted_bytes(), play.held()) from None
        raise
    return replace(
        to_plan(problem, placement),
        offsets=tuple(play.offset),
        workspace_offsets=tuple(sorted(play.workspace_offset.items())),
    )


class _ArenaPlay(Play):
    def __init__(
        self, problem: Problem, inserted: Inserted, limit_bytes: int, bounds: list[int], spared_bytes: int
    ) -> None:
        super().__init__(problem, inserted, limit_bytes, bounds, spared_bytes)
        self.count = len(problem.order)
        stays = inserted.stays
        self.offset = [0] * len(stays)
        self.workspace_offset: dict[int, int] = {}
        self.free = Allocator(limit_bytes)
        self.on_device: set[int] = set()
        self.produced: list[list[int]] = [[] for _ in range(self.count + 1)]
        self.fixed: set[int] = set()
        homes: dict[int, list[int]] = {}
        for index, stay in enumerate(stays):
            persistent = problem.graph.storages[stay.storage].persistent and inserted.homes[stay.storage] == "device"
            if persistent and (stay.begin == -1 or stay.to_end):
                homes.setdefault(stay.storage, []).append(index)
            if stay.fetch is None and stay.begin >= 0:
                self.produced[stay.begin].append(index)
        moved = [problem.storage_bytes[t.storage] for t in inserted.transfers]
        self.large = _LARGE * median(moved) if moved else limit_bytes
        # (low, high, first position, last position) of stays whose address is settled before they begin.
        self.reserved: list[tuple[int, int, int, int]] = []
        present = [i for i, s in enumerate(stays) if s.begin == -1 and s.fetch is None]
        away = {i for i in present if self._is_large(i) and not stays[i].to_end}
        floor = 0
        for index in sorted(set(present) - away, key=lambda i: (not stays[i].to_end, self._by_alignment(i))):
            size, alignment = self._size(index), alignment_bytes(self._size(index))
            low = -(-floor // alignment) * alignment
            floor = low + size
            if not self.free.take_at(low, size):
                raise NoPlacementError
            self._fix(index, low)
            self.on_device.add(index)
            for member in homes.get(stays[index].storage, ()):
                if member != index:
                    self._fix(member, low)
        large = [i for i, s in enumerate(stays) if i not in self.fixed and self._is_large(i)]
        together = {i: homes.get(stays[i].storage, [i]) for i in large}
        for index in sorted(large, key=lambda i: (-self._size(i), stays[i].begin)):
            members = together[index] if index in away else [index]
            if index in self.fixed:
                continue
            found = self._hole(self._size(index), [(stays[m].begin, self._last(m)) for m in members], high_end=True)
            if found is not None:
                for member in members:
                    self._fix(member, found)
        for index in away:
            if index not in self.fixed or not self.free.take_at(self.offset[index], self._size(index)):
                raise NoPlacementError
            self.on_device.add(index)
        self.reserved = [r for r in self.reserved if r[2] >= 0]

    def wanted_bytes(self) -> int:
        """The largest block that the next op makes, works with or waits for."""
        made = [self._size(i) for i in self.produced[self.position]]
        stays = enumerate(self.inserted.stays)
        fetched = [self._size(i) for i, s in stays if s.begin == self.position and s.fetch is not None]
        return max([*made, *fetched, self.problem.workspace_bytes[self.position]])

    def held(self) -> list[tuple[int, int]]:
        """(offset, stay) of what lies on the device, in the order of addresses."""
        return sorted((self.offset[i], i) for i in self.on_device)

    def _fix(self, index: int, low: int) -> None:
        self.offset[index] = low
        self.fixed.add(index)
        self.reserved.append(self._reservation(index))

    def _reservation(self, index: int) -> tuple[int, int, int, int]:
        low = self.offset[index]
        return low, low + self._size(index), self.inserted.stays[index].begin, self._last(index)

    def _is_large(self, index: int) -> bool:
        return self._size(index) >= self.large

    def _last(self, index: int) -> int:
        stay = self.inserted.stays[index]
        return self.count if stay.to_end else max(stay.begin, stay.last)

    def _by_alignment(self, index: int) -> tuple[int, int]:
        return -alignment_bytes(self._size(index)), -self._size(index)

    def _size(self, index: int) -> int:
        return self.problem.storage_bytes[self.inserted.stays[index].storage]

    def _op_begins(self, position: int) -> bool:
        """Addresses for what the op creates and for its workspace; false where there is no hole for one of them."""
        made: list[int] = []
        for index in sorted(self.produced[position], key=lambda i: -self._size(i)):
            if not self._begin(index, position):
                self._take_back(made)
                return False
            made.append(index)
        workspace = self.problem.workspace_bytes[position]
        if workspace:
            low = self._hole(workspace, [(position, position)], high_end=True)
            if low is None:
                self._take_back(made)
                return False
            self.workspace_offset[position] = low
            self.free.take_at(low, workspace)
        return True

    def _take_back(self, begun: Sequence[int]) -> None:
        for index in begun:
            self._end(index)
            if index in self.fixed:
                self.reserved.append(self._reservation(index))

    def _fetch_begins(self, stay_index: int) -> bool:
        return self._begin(stay_index, self.position)

    def _op_ends(self, position: int) -> None:
        workspace = self.problem.workspace_bytes[position]
        if workspace:
            self.free.give_back(self.workspace_offset[position], workspace)

    def _release(self, stay_index: int, now: int) -> None:
        super()._release(stay_index, now)
        self._end(stay_index)

    def _begin(self, index: int, position: int) -> bool:
        size = self._size(index)
        if index in self.fixed:
            if not self.free.take_at(self.offset[index], size):
                return False
            self.reserved.remove(self._reservation(index))
            self.on_device.add(index)
            return True
        last = self._last(index)
        found = self._hole(size, [(position, last)], high_end=last - position <= self.count // _LONG)
        if found is None:
            return False
        self.offset[index] = found
        self.on_device.add(index)
        return self.free.take_at(found, size)

    def _end(self, index: int) -> None:
        self.on_device.remove(index)
        self.free.give_back(self.offset[index], self._size(index))

    def _hole(self, size: int, spans: Sequence[tuple[int, int]], *, high_end: bool) -> int | None:
        """The lowest (or highest) aligned hole that nothing takes now and nothing settled needs in the ``spans``, each
        from a first to a last position."""
        holes = [hole for hole in self.free.holes if hole[1] - hole[0] >= size]
        if not holes:
            return None
        # Sorted once for all holes; a span at a time, as most have one and there are very many calls.
        ahead = sorted(
            (low, high)
            for first, last in spans
            for low, high, begin, end in self.reserved
            if begin <= last and end >= first
        )
        alignment = alignment_bytes(size)
        for low, high in reversed(holes) if high_end else holes:
            pieces = _without(low, high, ahead) if ahead else [(low, high)]
            for bottom, top in reversed(pieces) if high_end else pieces:
                start = (top - size) // alignment * alignment if high_end else -(-bottom // alignment) * alignment
                if start >= bottom and start + size <= top:
                    return start
        return None


def _without(low: int, high: int, others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of [low, high) without the other intervals, in order; these are sorted."""
    pieces = []
    for bottom, top in others:
        if top <= low:
            continue
        if bottom >= high:
            break
        if bottom > low:
            pieces.append((low, bottom))
        low = max(low, top)
    if low < high:
        pieces.append((low, high))
    return pieces
