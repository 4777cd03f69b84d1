"""Paging: storages are brought in when an op needs them and put out when memory runs short, op by op.

The shared machinery of `reactive` and `lookahead` (victims by past use, copies on demand) and of the last resort of
`hyperoffload` (victims by past or next use, copies as early as memory allows). A real allocator assigns addresses on
the way. Because every storage of an op can be put out and brought back to a packed layout before the op, any limit
down to the smallest feasible one (`analysis.bounds.smallest_feasible_limit`) is met. What is kept and comes into being
in the step may break that layout up; then its addresses are chosen ahead (`strategies.kept_places`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.ir import Graph, Op, storages_of
from hyperoffload_core.passes.addresses import alignment_bytes
from hyperoffload_core.passes.allocator import Allocator
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.plan import Plan, PlannedTransfer, Stay
from hyperoffload_core.passes.play import NoPlacementError
from hyperoffload_core.schedule import Home, TransferKind
from hyperoffload_core.strategies.base import Request
from hyperoffload_core.strategies.kept_places import WORKSPACE, KeptPlaces

VictimKey = Callable[[int, int], int]
"""(position of the last use, position of the next use) -> sort key; the storage with the smallest is put out first."""


def least_recently_used(last_use: int, next_use: int) -> int:  # noqa: ARG001
    return last_use


def farthest_next_use(last_use: int, next_use: int) -> int:  # noqa: ARG001
    return -next_use


@dataclass
class Resident:
    """A storage on the device: since which tick, brought by which transfer, last used and written at which positions
    (-1: not in this step)."""

    offset: int
    begin: int
    fetch: int | None
    since: int
    last: int = -1
    last_write: int = -1


@dataclass(frozen=True)
class PagingSetup:
    """``kept`` storages never leave. With ``on_demand`` a copy starts when the op that needs it, or its memory, is
    next; otherwise as soon as data and memory allow. ``places`` are addresses chosen ahead, if any."""

    graph: Graph
    order: tuple[int, ...]
    limit_bytes: int
    kept: frozenset[int]
    victim_key: VictimKey
    on_demand: bool
    half_duplex: bool
    places: KeptPlaces | None = None


def on_demand_setup(request: Request) -> PagingSetup:
    """What a runtime without foresight does: captured order, least recently used first, copies when an op needs them.

    What is kept is never a victim; rules that say offload are not followed.
    """
    graph = request.graph
    return PagingSetup(
        graph=graph,
        order=captured_order(graph),
        limit_bytes=request.limit_bytes,
        kept=frozenset(s for s, action in enumerate(request.actions) if action == "keep"),
        victim_key=least_recently_used,
        on_demand=True,
        half_duplex=request.hardware.duplex == "half",
    )


class Paging:
    """One step: which storages are where, op by op, and the stays and transfers that come of it."""

    def __init__(self, setup: PagingSetup, start: dict[int, int]) -> None:
        self.setup, self.start = setup, start
        graph = setup.graph
        self.sizes = [s.bytes for s in graph.storages]
        self.uses = uses_in_order(graph, setup.order)
        self.allocator = Allocator(setup.limit_bytes)
        self.resident: dict[int, Resident] = {}
        self.exists = {s.id for s in graph.storages if graph.exists_at_start(s.id)}
        self.remote_valid = {s for s in self.exists if s not in start}
        self.stays: list[Stay] = []
        self.offsets: list[int] = []
        self.spans: list[tuple[int, int]] = []
        self.workspaces: list[tuple[int, int]] = []
        self.transfers: list[PlannedTransfer] = []
        self.links: list[list[int]] = [[], []]
        self.left_at: dict[int, int] = {}
        self.op_spans: list[tuple[int, int]] = []
        self.victims: list[tuple[int, int, int]] = []
        self.clock = 0
        for storage, offset in start.items():
            if not self.allocator.take_at(offset, self.sizes[storage]):
                raise NoPlacementError
            self.resident[storage] = Resident(offset, -1, None, self._tick())
            self._rank(storage, -1)

    def play(self) -> None:
        for position, op_id in enumerate(self.setup.order):
            self._run(position, self.setup.graph.ops[op_id])
        outputs = [s.id for s in self.setup.graph.storages if s.tensor_class == "output" and self.uses[s.id].positions]
        self._bring(len(self.setup.order), outputs, 0)

    def resting(self) -> dict[int, int]:
        """Addresses of the persistent storages that are on the device now."""
        return {s: r.offset for s, r in self.resident.items() if self.setup.graph.storages[s].persistent}

    def write_back(self) -> None:
        """Put out every persistent storage that did not start on the device. Raises `NoPlacementError`."""
        persistent = self.resting()
        for storage in persistent.keys() - self.start.keys():
            self._put_out(storage, len(self.setup.order))
        began = {s: o for s, o in self.start.items() if self.setup.graph.storages[s].persistent}
        if {s: o for s, o in persistent.items() if s in self.start} != began:
            raise NoPlacementError

    def finish(self) -> Plan:
        for storage in list(self.resident):
            self._close(storage, to_end=True, store=None)
        graph = self.setup.graph
        homes: tuple[Home, ...] = tuple(
            "pool" if graph.exists_at_start(s.id) and s.id not in self.start else "device" for s in graph.storages
        )
        by_storage = sorted(range(len(self.stays)), key=lambda i: (self.stays[i].storage, i))
        return Plan(
            order=self.setup.order,
            stays=tuple(self.stays[i] for i in by_storage),
            transfers=tuple(self.transfers),
            links=tuple(tuple(link) for link in (self.links[:1] if self.setup.half_duplex else self.links)),
            homes=homes,
            spans_ns=tuple(self.spans[i] for i in by_storage),
            op_spans_ns=tuple(self.op_spans),
            offsets=tuple(self.offsets[i] for i in by_storage),
            workspace_offsets=tuple(self.workspaces),
        )

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    def _rank(self, storage: int, position: int) -> None:
        uses = self.uses[storage].positions
        at = bisect_right(uses, position)
        next_use = uses[at] if at < len(uses) else len(self.setup.order)
        last_use = uses[at - 1] if at else -1
        heapq.heappush(self.victims, (self.setup.victim_key(last_use, next_use), storage, self.resident[storage].since))

    def _run(self, position: int, op: Op) -> None:
        touched = list(storages_of(op))
        workspace = self._bring(position, touched, op.workspace_bytes)
        for storage in touched:
            resident = self.resident[storage]
            resident.last = position
            if storage in op.writes:
                resident.last_write = position
                self.remote_valid.discard(storage)
                self.exists.add(storage)
        if workspace is not None:
            self.allocator.give_back(workspace, op.workspace_bytes)
            self.workspaces.append((position, workspace))
        self.op_spans.append((self._tick(), self._tick()))
        for storage in touched:
            use = self.uses[storage]
            if use.positions[-1] == position and not use.lives_to_end:
                self._close(storage, to_end=False, store=None)
            else:
                self._rank(storage, position)

    def _bring(self, position: int, wanted: Sequence[int], workspace_bytes: int) -> int | None:
        """Make room for, and fetch, what is wanted and not there; returns the address of the workspace, if any."""
        missing = [s for s in wanted if s not in self.resident]
        placed = self._allocate(missing, workspace_bytes, set(wanted), position)
        if placed is None:
            for storage in list(self.resident):
                if storage not in self.setup.kept:
                    self._put_out(storage, position)
            missing = [s for s in wanted if s not in self.resident]
            placed = self._lay(missing, workspace_bytes, position)
            if placed is None:
                raise NoPlacementError
        for storage in missing:
            fetch = None
            if storage in self.exists:
                after = position - 1 if self.setup.on_demand else self.left_at.get(storage, -1)
                fetch = self._transfer("prefetch", storage, after)
            self.resident[storage] = Resident(placed[storage], position, fetch, self._tick())
        return placed.get(WORKSPACE)

    def _allocate(
        self, storages: Iterable[int], workspace_bytes: int, wanted: set[int], position: int
    ) -> dict[int, int] | None:
        """Addresses for all (of the workspace too), putting out victims as needed; None where that is not enough."""
        sizes = self._sizes_of(storages, workspace_bytes)
        fixed = {} if self.setup.places is None else self.setup.places.kept
        placed: dict[int, int] = {}
        for storage in sorted(sizes, key=lambda s: (s not in fixed, -alignment_bytes(sizes[s]), -sizes[s], s)):
            offset = self._take(sizes[storage], fixed.get(storage), wanted, position)
            if offset is None:
                for other, low in placed.items():
                    self.allocator.give_back(low, sizes[other])
                return None
            placed[storage] = offset
        return placed

    def _take(self, size: int, at: int | None, wanted: set[int], position: int) -> int | None:
        """An address for so many bytes, ``at`` it where that is given, putting out victims as needed."""
        if at is not None:
            for storage, resident in list(self.resident.items()):
                overlaps = resident.offset < at + size and at < resident.offset + self.sizes[storage]
                if overlaps and storage not in wanted and storage not in self.setup.kept:
                    self._put_out(storage, position)
            return at if self.allocator.take_at(at, size) else None
        while (offset := self.allocator.take(size)) is None:
            victim = self._victim(wanted)
            if victim is None:
                return None
            self._put_out(victim, position)
        return offset

    def _lay(self, storages: Sequence[int], workspace_bytes: int, position: int) -> dict[int, int] | None:
        """Addresses for all beside nothing but what is kept: those chosen ahead, if any."""
        places = self.setup.places
        if places is None:
            return self._allocate(storages, workspace_bytes, set(storages), position)
        sizes, at = self._sizes_of(storages, workspace_bytes), places.kept | places.of_op[position]
        return {s: at[s] for s in sizes} if all(self.allocator.take_at(at[s], sizes[s]) for s in sizes) else None

    def _sizes_of(self, storages: Iterable[int], workspace_bytes: int) -> dict[int, int]:
        return {s: self.sizes[s] for s in storages} | ({WORKSPACE: workspace_bytes} if workspace_bytes else {})

    def _victim(self, wanted: set[int]) -> int | None:
        passed_over = []
        victim = None
        while self.victims:
            entry = heapq.heappop(self.victims)
            storage, since = entry[1], entry[2]
            resident = self.resident.get(storage)
            if resident is None or resident.since != since or storage in self.setup.kept:
                continue
            if entry[0] != self._current_key(storage, resident):
                continue
            if storage in wanted:
                passed_over.append(entry)
                continue
            victim = storage
            break
        for entry in passed_over:
            heapq.heappush(self.victims, entry)
        return victim

    def _current_key(self, storage: int, resident: Resident) -> int:
        uses = self.uses[storage].positions
        at = bisect_right(uses, resident.last)
        next_use = uses[at] if at < len(uses) else len(self.setup.order)
        return self.setup.victim_key(uses[at - 1] if at else -1, next_use)

    def _put_out(self, storage: int, position: int) -> None:
        resident, store = self.resident[storage], None
        if storage not in self.remote_valid:
            store = self._transfer("store", storage, position - 1 if self.setup.on_demand else resident.last_write)
            self.remote_valid.add(storage)
        self._close(storage, to_end=False, store=store)

    def _transfer(self, kind: TransferKind, storage: int, after: int) -> int:
        self.transfers.append(PlannedTransfer(kind, storage, after))
        index = len(self.transfers) - 1
        self.links[0 if kind == "store" or self.setup.half_duplex else 1].append(index)
        return index

    def _close(self, storage: int, *, to_end: bool, store: int | None) -> None:
        resident = self.resident.pop(storage)
        self.stays.append(Stay(storage, resident.begin, resident.last, to_end, resident.fetch, store))
        self.offsets.append(resident.offset)
        self.spans.append((resident.since, self._tick()))
        self.left_at[storage] = resident.last
        self.allocator.give_back(resident.offset, self.sizes[storage])
