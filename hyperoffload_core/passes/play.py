"""One forward pass over a step: every transfer gets its time on its link, under a memory limit.

Ops are played one at a time, Stores as soon as link and data allow, Prefetches in the order of their consumers as soon
as memory allows, never before their bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.insertion import Inserted
from hyperoffload_core.passes.plan import Stay

_NEVER = 1 << 62
_LOOKAHEAD = 6
"""How many Prefetches, in the order of their consumers, are tried when the first one cannot start yet."""


class NoPlacementError(Exception):
    """These stays cannot be placed under the limit."""


@dataclass(frozen=True)
class Problem:
    """One order of a graph on a hardware: what every placement of it needs. Lists are indexed by position.

    ``idle`` are storages that nothing uses and that stay on the device all the same.
    """

    graph: Graph
    order: tuple[int, ...]
    durations_ns: list[int]
    workspace_bytes: list[int]
    storage_bytes: list[int]
    hardware: Hardware
    idle: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Placement:
    """Times in ns: ops by position, transfers and stays by their index. ``bounds`` are those it was played with.

    ``data_wait_ns`` says how long the op at each position stood waiting for its Prefetches.
    """

    inserted: Inserted
    bounds: tuple[int, ...]
    step_ns: int
    op_start_ns: list[int]
    op_end_ns: list[int]
    transfer_start_ns: list[int]
    transfer_end_ns: list[int]
    links: tuple[tuple[int, ...], ...]
    spans_ns: tuple[tuple[int, int], ...]
    data_wait_ns: list[int]


def make_problem(
    graph: Graph,
    order: Sequence[int],
    durations_ns: Sequence[int],
    hardware: Hardware,
    idle: Collection[int] = (),
) -> Problem:
    return Problem(
        graph,
        tuple(order),
        [durations_ns[op] for op in order],
        [graph.ops[op].workspace_bytes for op in order],
        [s.bytes for s in graph.storages],
        hardware,
        frozenset(idle),
    )


def occupancy(problem: Problem, stays: Sequence[Stay]) -> NDArray[np.int64]:
    """Bytes that must be on the device while the op at each position runs, workspace included; shape (ops + 1,).

    The last element is what must be there when the step ends.
    """
    count, sizes = len(problem.order), problem.storage_bytes
    # Lists: one number at a time is what arrays are slow at.
    change = [0] * (count + 2)
    for stay in stays:
        first, end = max(stay.begin, 0), count + 1 if stay.to_end else stay.last + 1
        if first < end:
            size = sizes[stay.storage]
            change[first] += size
            change[end] -= size
    result = np.cumsum(np.array(change[: count + 1], np.int64))
    result[:count] += np.array(problem.workspace_bytes, np.int64)
    return result


def _returns(stays: Sequence[Stay]) -> dict[int, int]:
    """For each stay, by index, that another one of its storage follows: the position that needs it back."""
    result: dict[int, int] = {}
    latest: dict[int, int] = {}
    for index, stay in enumerate(stays):
        if stay.storage in latest:
            result[latest[stay.storage]] = stay.begin
        latest[stay.storage] = index
    return result


class Play:
    """One forward pass: a discrete-event play of the step with memory as a resource.

    A subclass may refuse an op or a Prefetch its start, and hears when bytes are given back.
    """

    def __init__(
        self, problem: Problem, inserted: Inserted, limit_bytes: int, bounds: list[int], spared_bytes: int = 0
    ) -> None:
        self.problem, self.inserted, self.limit, self.bounds = problem, inserted, limit_bytes, bounds
        self.early_limit = limit_bytes - spared_bytes
        count, sizes, stays = len(problem.order), problem.storage_bytes, inserted.stays
        self.planned = occupancy(problem, stays)
        if int(self.planned.max(initial=0)) > limit_bytes:
            raise NoPlacementError
        self.need = list(problem.workspace_bytes)
        self.missing = [0] * (count + 1)
        self.missing_bytes = [0] * (count + 1)
        self.ending: list[list[int]] = [[] for _ in range(count)]
        self.stores_after: list[list[tuple[int, int, int]]] = [[] for _ in range(count + 1)]
        self.stay_of = [0] * len(inserted.transfers)
        self.valid_after: list[int | None] = [None] * len(inserted.transfers)
        self.used = 0
        fetches: list[tuple[int, int]] = []
        last_store: dict[int, int] = {}
        returns = _returns(stays)
        for index, stay in enumerate(stays):
            begin, last, size = stay.begin, stay.last, sizes[stay.storage]
            if stay.fetch is not None:
                self.stay_of[stay.fetch] = index
                self.valid_after[stay.fetch] = last_store.get(stay.storage)
                self.missing[begin] += 1
                self.missing_bytes[begin] += size
                fetches.append((begin, stay.fetch))
            elif begin == -1:
                self.used += size
            else:
                self.need[begin] += size
            if stay.store is not None:
                self.stay_of[stay.store] = index
                last_store[stay.storage] = stay.store
                back = returns.get(index, count + 1)
                self.stores_after[bounds[stay.store]].append((last, -back, stay.store))
            if last >= 0 and not stay.to_end:
                self.ending[last].append(index)
        if self.used > limit_bytes:
            raise NoPlacementError
        self.fetches = [index for _, index in sorted(fetches)]
        self.sizes = [sizes[t.storage] for t in inserted.transfers]
        self.consumers = [stays[stay].begin for stay in self.stay_of]
        hardware = problem.hardware
        self.durations = [
            transfer_ns(size, hardware.link_out if t.kind == "store" else hardware.link_in)
            for size, t in zip(self.sizes, inserted.transfers, strict=True)
        ]
        self.half = hardware.duplex == "half"
        self.ready_stores: list[tuple[int, int, int]] = []
        self.transfer_start = [-1] * len(inserted.transfers)
        self.transfer_end = [-1] * len(inserted.transfers)
        self.span_start = [0] * len(stays)
        self.span_end = [-1] * len(stays)
        self.ended = -1
        self.position, self.running = 0, False
        self.full_until = [-1] * len(inserted.transfers)
        self.busy: list[int | None] = [None, None]
        self.runs: tuple[list[int], list[int]] = ([], [])

    def run(self) -> Placement:
        problem, count = self.problem, len(self.problem.order)
        op_start, op_end = [0] * count, [0] * count
        data_wait = [0] * count
        now, compute_end, data_ready = 0, _NEVER, 0
        link_end = [_NEVER, _NEVER]
        self._ready_stores(-1)
        while True:
            # Once for each is enough: what starts gives no bytes back, so nothing else can start because of it.
            position = self.position
            has_data = not self.running and position < count and self.missing[position] == 0
            if has_data and self.used + self.need[position] <= self.limit and self._op_begins(position):
                self.used += self.need[position]
                self.running = True
                op_start[position] = now
                compute_end = op_end[position] = now + problem.durations_ns[position]
                previous = op_end[position - 1] if position else 0
                if data_ready > previous:
                    data_wait[position] = data_ready - previous
            if self.ready_stores and self.busy[0] is None:
                link_end[0] = self._start(heapq.heappop(self.ready_stores)[2], 0, now)
            slot = 0 if self.half else 1
            if self.fetches and self.busy[slot] is None:
                index = self._next_fetch(now)
                if index is not None:
                    link_end[slot] = self._start(index, 1, now)
            now = link_end[0] if link_end[0] < link_end[1] else link_end[1]
            if compute_end <= now:
                now = compute_end
                if now == _NEVER:
                    break
                compute_end = _NEVER
                self._end_op(now)
            for slot in (0, 1):
                if link_end[slot] == now:
                    link_end[slot] = _NEVER
                    self._end_transfer(slot, now)
                    if self.position < count and not self.running and self.missing[self.position] == 0:
                        data_ready = max(data_ready, now)
        step_ns = max([op_end[-1] if count else 0, *self.transfer_end])
        if self.position < count or min(self.transfer_end, default=0) < 0:
            raise NoPlacementError
        for index, stay in enumerate(self.inserted.stays):
            if stay.to_end:
                self.span_end[index] = step_ns
            if stay.begin >= 0 and stay.fetch is None:
                self.span_start[index] = op_start[stay.begin]
        return Placement(
            self.inserted,
            tuple(self.bounds),
            step_ns,
            op_start,
            op_end,
            self.transfer_start,
            self.transfer_end,
            (tuple(self.runs[0]),) if self.half else (tuple(self.runs[0]), tuple(self.runs[1])),
            tuple(zip(self.span_start, self.span_end, strict=True)),
            data_wait,
        )

    def _op_begins(self, position: int) -> bool:  # noqa: ARG002
        return True

    def _fetch_begins(self, stay_index: int) -> bool:  # noqa: ARG002
        return True

    def _op_ends(self, position: int) -> None:
        """Its workspace is free again."""

    def _ready_stores(self, position: int) -> None:
        for store in self.stores_after[position]:
            heapq.heappush(self.ready_stores, store)

    def _next_fetch(self, now: int) -> int | None:
        """The Prefetch that starts now, taken off the queue; None if none can."""
        for place_in_queue, index in enumerate(self.fetches[:_LOOKAHEAD]):
            if (
                self.bounds[index] <= self.ended
                and self._may_fetch(index, now)
                and self._fetch_begins(self.stay_of[index])
            ):
                return self.fetches.pop(place_in_queue)
        return None

    def _may_fetch(self, index: int, now: int) -> bool:
        valid_after = self.valid_after[index]
        if valid_after is not None and not 0 <= self.transfer_end[valid_after] <= now:
            return False
        size, consumer, position = self.sizes[index], self.consumers[index], self.position
        if consumer <= position:
            return self.used + size <= self.limit
        if self.used + size > self.early_limit:
            return False
        if not self.running and self.used + size + self.need[position] + self.missing_bytes[position] > self.limit:
            return False
        first = position + 1 if self.running else position
        if first <= self.full_until[index]:
            return False
        full = (self.planned[first:consumer] > self.early_limit - size).tobytes().rfind(1)
        if full >= 0:
            # Nothing planned is ever taken back: it waits at least until the last such op has ended.
            self.full_until[index] = first + full
            return False
        return True

    def _start(self, index: int, link: int, now: int) -> int:
        slot = 0 if self.half else link
        self.busy[slot] = index
        self.runs[slot].append(index)
        self.transfer_start[index] = now
        self.transfer_end[index] = now + self.durations[index]
        if link == 1:
            size, consumer = self.sizes[index], self.consumers[index]
            self.used += size
            self.planned[self.position : consumer] += size
            self.missing_bytes[consumer] -= size
            self.span_start[self.stay_of[index]] = now
        return self.transfer_end[index]

    def _end_op(self, now: int) -> None:
        position = self.position
        self.ended, self.position, self.running = position, position + 1, False
        self.used -= self.problem.workspace_bytes[position]
        self._op_ends(position)
        for index in self.ending[position]:
            store = self.inserted.stays[index].store
            if store is None or 0 <= self.transfer_end[store] <= now:
                self._release(index, now)
        self._ready_stores(position)

    def _end_transfer(self, slot: int, now: int) -> None:
        index = self.busy[slot]
        assert index is not None
        self.busy[slot] = None
        stay_index = self.stay_of[index]
        stay = self.inserted.stays[stay_index]
        if stay.fetch == index:
            self.missing[stay.begin] -= 1
        elif stay.last <= self.ended and self.span_end[stay_index] < 0:
            self._release(stay_index, now)

    def _release(self, stay_index: int, now: int) -> None:
        self.used -= self.problem.storage_bytes[self.inserted.stays[stay_index].storage]
        self.span_end[stay_index] = now
