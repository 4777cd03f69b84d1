"""The step played with an address for everything: what shares bytes waits for each other, and nothing else for memory.

Ops run in order; Stores start at once, Prefetches in the order of their consumers as soon as what lay at their address
has left. Nothing can get stuck: a row waits only for rows that ops need earlier, and these leave without it. One play
costs a fraction of one that counts bytes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.passes.insertion import Inserted
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import Problem
from hyperoffload_core.passes.tenants import Layout, Tenants, tenants_of

_NEVER = 1 << 62


@dataclass(frozen=True)
class Times:
    """In ns: ops by position, transfers and rows by index. ``links`` as in `Plan`."""

    step_ns: int
    op_start: list[int]
    op_end: list[int]
    start: list[int]
    end: list[int]
    row_start: list[int]
    row_end: list[int]
    links: tuple[tuple[int, ...], ...]


@dataclass
class AddressedStep:
    """What plays of one choice have in common, whatever the addresses."""

    problem: Problem
    inserted: Inserted
    tenants: Tenants = field(init=False)

    def __post_init__(self) -> None:
        problem, stays, moves = self.problem, self.inserted.stays, self.inserted.transfers
        self.tenants = tenants_of(problem, self.inserted)
        count, rows = len(problem.order), len(self.tenants.begin)
        self.count, self.half = count, problem.hardware.duplex == "half"
        sizes, hardware = problem.storage_bytes, problem.hardware
        self.is_store = [t.kind == "store" for t in moves]
        self.transfer_ns = [
            transfer_ns(sizes[t.storage], hardware.link_out if t.kind == "store" else hardware.link_in) for t in moves
        ]
        self.after = [t.after for t in moves]
        self.row_of, self.consumer, self.valid_after = ([-1] * len(moves) for _ in range(3))
        self.store_of, self.fetch_of = [-1] * rows, [-1] * rows
        self.begin, self.last = self.tenants.begin.tolist(), self.tenants.last.tolist()
        # what an op waits for besides addresses, and a transfer
        self.op_waits, self.waits = [0] * (count + 1), [int(t.after >= 0) for t in moves]
        self.valid_for: list[list[int]] = [[] for _ in moves]
        self.ending: list[list[int]] = [[] for _ in range(count)]
        self.released: list[list[int]] = [[] for _ in range(count)]
        self.last_use = [*(s.last for s in stays), *self.tenants.workspaces]
        self.stays_to_end = [s.to_end for s in stays] + [False] * len(self.tenants.workspaces)
        stored: dict[int, int] = {}
        latest: dict[int, int] = {}
        back = [count + 1] * rows
        for row, stay in enumerate(stays):
            if stay.storage in latest:
                back[latest[stay.storage]] = stay.begin
            latest[stay.storage] = row
            if stay.fetch is not None:
                self.fetch_of[row], self.row_of[stay.fetch], self.consumer[stay.fetch] = stay.fetch, row, stay.begin
                self.op_waits[stay.begin] += 1
                if stay.storage in stored:
                    self.valid_after[stay.fetch] = stored[stay.storage]
                    self.valid_for[stored[stay.storage]].append(stay.fetch)
                    self.waits[stay.fetch] += 1
            if stay.store is not None:
                self.store_of[row], self.row_of[stay.store] = stay.store, row
                stored[stay.storage] = stay.store
        for row, position in enumerate(self.last_use):
            if position >= 0 and not self.stays_to_end[row]:
                self.ending[position].append(row)
        for index, position in enumerate(self.after):
            if position >= 0:
                self.released[position].append(index)
        fetches = [i for i, store in enumerate(self.is_store) if not store]
        stores = [i for i, store in enumerate(self.is_store) if store]
        self.by_rank = (
            sorted(stores, key=lambda i: (self.last_use[self.row_of[i]], -back[self.row_of[i]], i)),
            sorted(fetches, key=lambda i: (self.consumer[i], i)),
        )
        self.rank = [0] * len(moves)
        for ranked in self.by_rank:
            for rank, index in enumerate(ranked):
                self.rank[index] = rank

    def play(self, layout: Layout) -> Times:
        """The times that the addresses of a layout lead to."""
        count, op_waits, waits = self.count, self.op_waits[:], self.waits[:]
        behind, fetch_of, store_of, begin, row_of = layout.behind, self.fetch_of, self.store_of, self.begin, self.row_of
        for row, before in enumerate(layout.before):
            if before:
                if fetch_of[row] >= 0:
                    waits[fetch_of[row]] += len(before)
                else:
                    op_waits[begin[row]] += len(before)
        is_store, rank, durations, transfers_ns = self.is_store, self.rank, self.problem.durations_ns, self.transfer_ns
        ready: tuple[list[int], list[int]] = ([], [])
        for index, missing in enumerate(waits):
            if not missing:
                ready[0 if is_store[index] else 1].append(rank[index])
        heapq.heapify(ready[0])
        heapq.heapify(ready[1])
        op_start, op_end = [0] * count, [0] * count
        start, end, stored = [-1] * len(waits), [-1] * len(waits), [False] * len(waits)
        row_start, row_end = [0] * len(begin), [-1] * len(begin)
        runs: tuple[list[int], list[int]] = ([], [])
        busy, link_end, queues = [-1, -1], [_NEVER, _NEVER], (((0, 1), ()) if self.half else ((0,), (1,)))
        links = (0,) if self.half else (0, 1)
        now, position, op_ends = 0, 0, _NEVER
        while True:
            if op_ends == _NEVER and position < count and not op_waits[position]:
                op_start[position] = now
                op_end[position] = op_ends = now + durations[position]
            for link in links:
                if busy[link] < 0:
                    for queue in queues[link]:
                        if ready[queue]:
                            index = self.by_rank[queue][heapq.heappop(ready[queue])]
                            busy[link], start[index] = index, now
                            end[index] = link_end[link] = now + transfers_ns[index]
                            runs[link].append(index)
                            break
            now = min(op_ends, link_end[0], link_end[1])
            if now == _NEVER:
                break
            leaving: list[int] = []
            if op_ends == now:
                op_ends = _NEVER
                for row in self.ending[position]:
                    if store_of[row] < 0 or stored[store_of[row]]:
                        leaving.append(row)
                for index in self.released[position]:
                    waits[index] -= 1
                    if not waits[index]:
                        heapq.heappush(ready[0 if is_store[index] else 1], rank[index])
                position += 1
            for link in links:
                if link_end[link] != now:
                    continue
                index, busy[link], link_end[link] = busy[link], -1, _NEVER
                if is_store[index]:
                    stored[index] = True
                    for fetch in self.valid_for[index]:
                        waits[fetch] -= 1
                        if not waits[fetch]:
                            heapq.heappush(ready[1], rank[fetch])
                    row = row_of[index]
                    if self.last_use[row] < position and not self.stays_to_end[row]:
                        leaving.append(row)
                else:
                    op_waits[self.consumer[index]] -= 1
            for row in leaving:
                row_end[row] = now
                for other in behind[row]:
                    fetch = fetch_of[other]
                    if fetch < 0:
                        op_waits[begin[other]] -= 1
                        continue
                    waits[fetch] -= 1
                    if not waits[fetch]:
                        heapq.heappush(ready[1], rank[fetch])
        step_ns = max(op_end[-1] if count else 0, max(end, default=0))
        for row, ends in enumerate(row_end):
            if ends < 0:
                row_end[row] = step_ns
            if fetch_of[row] >= 0:
                row_start[row] = start[fetch_of[row]]
            elif begin[row] >= 0:
                row_start[row] = op_start[begin[row]]
        return Times(
            step_ns, op_start, op_end, start, end, row_start, row_end, tuple(tuple(runs[link]) for link in links)
        )

    def plan(self, layout: Layout, times: Times) -> Plan:
        inserted, stays = self.inserted, len(self.inserted.stays)
        offsets = layout.offset[self.tenants.block].tolist()
        return Plan(
            order=self.problem.order,
            stays=inserted.stays,
            transfers=inserted.transfers,
            links=times.links,
            homes=inserted.homes,
            spans_ns=tuple(zip(times.row_start[:stays], times.row_end[:stays], strict=True)),
            op_spans_ns=tuple(zip(times.op_start, times.op_end, strict=True)),
            offsets=tuple(offsets[:stays]),
            workspace_offsets=tuple(zip(self.tenants.workspaces, offsets[stays:], strict=True)),
        )
