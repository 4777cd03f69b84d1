"""Strategy `lookahead`: a runtime that brings in what the next few ops need while the current one runs.

Source: our definition of what run-time prefetchers have in common; no single one is published as a rule. It is
`reactive` with one addition: when an op has been issued, copies-in start for what the next `lookahead_ops` ops use and
is not there, in their order, as long as memory suffices without putting out anything those ops use, and with at most
`copies_in_flight` copies-in on the way. Other storages leave for it, the least recently used first.

It knows the next ops, not how long they take: a copy longer than all of them together stalls, however long its
storage was out of use.

Assumed: both defaults. Victims inside the window are taken only when there are none outside; then the least recently
used, and at last what was brought in too early. A copy-in that is put out again before its use was in vain if it has
arrived by then, and counts as never issued if it has not. The window ends with the step.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.ir import storages_of
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.schedule import TransferKind
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.paging import Paging, PagingSetup, Resident, on_demand_setup
from hyperoffload_core.strategies.settling import settled_step


def plan(request: Request) -> Plan:
    """Captured order, under the limit. What is kept is never put out, `offload` rules change nothing.

    As in `reactive`, the step starts with what the step before left on the device, where that settles; otherwise
    storages start in the pool and are put back there. Raises `NoPlacementError`.
    """
    return settled(request).finish()


def settled(request: Request) -> _LookAhead:
    """The step once it leaves the device as it found it, played but not finished. Raises `NoPlacementError`."""
    setup = on_demand_setup(request)

    def step(setup: PagingSetup, start: dict[int, int]) -> _LookAhead:
        request.check_cancelled()
        return _LookAhead(setup, start, request)

    return settled_step(setup, step)


class _FreedBytes:
    """When each byte of the device was given back last, as disjoint ranges in address order."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._ranges: list[tuple[int, int, int]] = []

    def give_back(self, low: int, high: int, time_ns: int) -> None:
        first, last = self._overlapping(low, high)
        replaced, fresh = self._ranges[first:last], [(low, high, time_ns)]
        if replaced and replaced[0][0] < low:
            fresh.insert(0, (replaced[0][0], low, replaced[0][2]))
        if replaced and replaced[-1][1] > high:
            fresh.append((high, replaced[-1][1], replaced[-1][2]))
        self._ranges[first:last] = fresh
        self._lows[first:last] = [r[0] for r in fresh]

    def ready_ns(self, low: int, high: int) -> int:
        """When all bytes of [low, high) are free; 0 for those nobody had."""
        first, last = self._overlapping(low, high)
        return max((r[2] for r in self._ranges[first:last]), default=0)

    def _overlapping(self, low: int, high: int) -> tuple[int, int]:
        first = bisect_right(self._lows, low) - 1
        if first < 0 or self._ranges[first][1] <= low:
            first += 1
        return first, bisect_left(self._lows, high)


class _LookAhead(Paging):
    """Paging with a clock, and with copies-in for the ops behind the current one."""

    def __init__(self, setup: PagingSetup, start: dict[int, int], request: Request) -> None:
        self.request = request
        self.ahead, self.most_in_flight = request.options["lookahead_ops"], request.options["copies_in_flight"]
        self.position = 0
        self.early: set[int] = set()
        self.withdrawn: set[int] = set()
        self.op_start_ns: list[int] = []
        self.op_end_ns: list[int] = []
        self.transfer_end_ns: dict[int, int] = {}
        self.stored_ns: dict[int, int] = {}
        self.link_free_ns = [0, 0]
        self.freed = _FreedBytes()
        super().__init__(setup, start)

    def _window(self) -> set[int]:
        """What the current op and those ahead use."""
        ops = self.setup.order[self.position : self.position + self.ahead + 1]
        return {s for op in ops for s in storages_of(self.setup.graph.ops[op])}

    def _bring(self, position: int, wanted: Sequence[int], workspace_bytes: int) -> int | None:
        self.position = position
        workspace = super()._bring(position, wanted, workspace_bytes)
        start = self._op_end(position - 1)
        for storage in wanted:
            self.early.discard(storage)
            resident = self.resident[storage]
            if resident.fetch is None:
                if resident.begin == position:
                    start = max(start, self.freed.ready_ns(*self._bytes_of(storage)))
                continue
            if resident.fetch not in self.transfer_end_ns:
                self._time_fetch(storage)
            start = max(start, self.transfer_end_ns[resident.fetch])
        if workspace is not None:
            start = max(start, self.freed.ready_ns(workspace, workspace + workspace_bytes))
        if position < len(self.setup.order):
            self.op_start_ns.append(start)
            self.op_end_ns.append(start + self.request.durations_ns[self.setup.order[position]])
            if workspace is not None:
                self.freed.give_back(workspace, workspace + workspace_bytes, self.op_end_ns[-1])
            self._bring_early(position)
        return workspace

    def _bring_early(self, position: int) -> None:
        now = self.op_start_ns[position]
        in_flight = sum(self.transfer_end_ns[self._fetch_of(s)] > now for s in self.early)
        window = self._window() if self.ahead else set()
        for op in range(position + 1, min(position + self.ahead + 1, len(self.setup.order))):
            for storage in storages_of(self.setup.graph.ops[self.setup.order[op]]):
                if storage in self.resident or storage not in self.exists:
                    continue
                offset = self._room_for(storage, window) if in_flight < self.most_in_flight else None
                if offset is None:
                    return
                fetch = self._transfer("prefetch", storage, position - 1)
                self.resident[storage] = Resident(offset, op, fetch, self._tick())
                self.early.add(storage)
                self._time_fetch(storage)
                in_flight += 1

    def _room_for(self, storage: int, window: set[int]) -> int | None:
        """An address, after putting out what is not in the window as needed; None where that is not enough."""
        while (offset := self.allocator.take(self.sizes[storage])) is None:
            victim = super()._victim(window)
            if victim is None:
                return None
            self._put_out(victim, self.position)
        return offset

    def _victim(self, wanted: set[int]) -> int | None:
        victim = super()._victim(self._window() | wanted) if self.ahead else None
        if victim is None:
            victim = super()._victim(wanted)
        if victim is None:
            early = [(self.resident[s].begin, s) for s in self.early - wanted - self.setup.kept]
            victim = max(early)[1] if early else None
        return victim

    def _put_out(self, storage: int, position: int) -> None:
        if storage not in self.early:
            super()._put_out(storage, position)
            return
        self.early.discard(storage)
        resident, fetch = self.resident[storage], self._fetch_of(storage)
        if self.transfer_end_ns[fetch] <= self.op_start_ns[position - 1]:
            resident.begin = resident.last = position - 1
            super()._put_out(storage, position)
        else:
            self.withdrawn.add(fetch)
            del self.resident[storage]
            self.allocator.give_back(resident.offset, self.sizes[storage])

    def _transfer(self, kind: TransferKind, storage: int, after: int) -> int:
        index = super()._transfer(kind, storage, after)
        if kind == "store":
            end = max(self.link_free_ns[0], self._op_end(after))
            end += transfer_ns(self.sizes[storage], self.request.hardware.link_out)
            self.transfer_end_ns[index] = self.stored_ns[storage] = self.link_free_ns[0] = end
        return index

    def _time_fetch(self, storage: int) -> None:
        """The clock of the copy-in issued last for the storage."""
        index, link = self._fetch_of(storage), 0 if self.setup.half_duplex else 1
        start = max(
            self.link_free_ns[link],
            self._op_end(self.transfers[index].after),
            self.stored_ns.get(storage, 0),
            self.freed.ready_ns(*self._bytes_of(storage)),
        )
        end = start + transfer_ns(self.sizes[storage], self.request.hardware.link_in)
        self.transfer_end_ns[index] = self.link_free_ns[link] = end

    def _close(self, storage: int, *, to_end: bool, store: int | None) -> None:
        resident, (low, high) = self.resident[storage], self._bytes_of(storage)
        end = max(self._op_end(resident.last), self.transfer_end_ns[store] if store is not None else 0)
        super()._close(storage, to_end=to_end, store=store)
        self.freed.give_back(low, high, end)

    def finish(self) -> Plan:
        found = super().finish()
        if not self.withdrawn:
            return found
        made = [i for i in range(len(found.transfers)) if i not in self.withdrawn]
        number = {old: new for new, old in enumerate(made)}
        return replace(
            found,
            transfers=tuple(found.transfers[i] for i in made),
            links=tuple(tuple(number[i] for i in link if i in number) for link in found.links),
            stays=tuple(
                replace(
                    stay,
                    fetch=None if stay.fetch is None else number[stay.fetch],
                    store=None if stay.store is None else number[stay.store],
                )
                for stay in found.stays
            ),
        )

    def _op_end(self, position: int) -> int:
        return self.op_end_ns[position] if position >= 0 else 0

    def _fetch_of(self, storage: int) -> int:
        fetch = self.resident[storage].fetch
        assert fetch is not None
        return fetch

    def _bytes_of(self, storage: int) -> tuple[int, int]:
        offset = self.resident[storage].offset
        return offset, offset + self.sizes[storage]


STRATEGY = Strategy(
    name="lookahead",
    title="Look-ahead (LRU, a few ops ahead)",
    help="As reactive, and while an op runs the next few ops' storages are copied in.",
    source="Our definition of run-time prefetch with a limited window; with lookahead_ops = 0 it is reactive.",
    plan=plan,
    options=(
        Option("lookahead_ops", 20, "How many ops ahead copies-in are started; 0: none, as in reactive.", minimum=0),
        Option("copies_in_flight", 8, "The most copies-in started ahead that are on the way at once.", minimum=1),
    ),
    keeps_limit=True,
)
