"""Strategy `mindspore-window`: MindSpore's run-time sliding window, which evicts what is used farthest in the future.

Source: mindspore-ai/mindspore, `mindspore/ccsrc/backend/ms_backend/runtime/actors/hyper_offload/` (mem_counted_cache,
mem_action_mgr, mem_use_analyzer; Apache-2.0), switched on by ENABLE_HYPER_OFFLOAD_SLIDE. The rule, for each op:

1. Ahead of it: where neither limit - pool nor what is idle in the pool holds its outputs, values are put out, farthest
   next use first and none that it reads, until as many bytes as all its outputs have been moved.
2. Behind it: values on the host that the next `horizon` ops use are loaded. Where neither limit - pool nor what is idle
   holds them and the buffer, that many bytes are put out first, of what is used behind the horizon; so it also
   evicts when nothing is to be loaded and the buffer is not free.

Compute waits for every copy-out at once, a load starts behind those issued with it, and its user waits for it. The
system knows exact next uses; durations, bandwidth, parameters, constants and inputs are nothing to it.

Assumed:

- The pool does not fragment: it grows by what is missing, and starts with parameters and inputs. `max_size` is what
  `runtime.set_memory(max_size=...)` sets.
- A value that is loaded and not yet used is "in copy" and not put out. Loading drops the host copy, so that every
  eviction is a copy-out. An output counts as used at the last op.
- A load that does not fit is tried again behind the next op. An input that is still on the host when its op is launched
  is an error in the original ("memory not enough"). Here it is loaded on demand, and a note counts how often.
- Where not enough can be put out, memory is taken beyond the limit (the original fails); the schedule says how much.

Rules: what is kept is never put out; `offload` rules change nothing. Nothing here has run on Ascend.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.ir import Op
from hyperoffload_core.passes.directives import with_spans
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.plan import Plan, PlannedTransfer, Stay
from hyperoffload_core.schedule import TransferKind
from hyperoffload_core.strategies.base import Option, Request, Strategy


def plan(request: Request) -> Plan:
    """Captured order; the plan may exceed the memory limit."""
    window = _Window(request)
    for op in request.graph.ops:
        window.ahead_of(op)
        window.behind(op)
    return window.finish()


@dataclass
class _Resident:
    """A value on the device since the op at ``begin``; ``last``: the op that used it last, -1 while it is in copy."""

    begin: int
    fetch: int | None
    last: int


class _Window:
    """What is where while the ops run one by one, and the stays and transfers that come of it."""

    def __init__(self, request: Request) -> None:
        self.request, graph = request, request.graph
        self.count = len(graph.ops)
        self.sizes = [s.bytes for s in graph.storages]
        self.uses = uses_in_order(graph, range(self.count))
        self.limit: int = request.options["max_size"] or request.limit_bytes
        self.buffer = self.limit * int(request.options["buffer_percent"]) // 100
        self.horizon = int(request.options["horizon"])
        self.used = sum(s.bytes for s in graph.storages if graph.exists_at_start(s.id))
        self.pool = min(self.used, self.limit)
        self.device: dict[int, _Resident] = {}
        self.host: set[int] = set()
        self.farthest: list[tuple[int, int]] = []
        self.nearest: list[tuple[int, int]] = []
        self.stays: list[Stay] = []
        self.transfers: list[PlannedTransfer] = []
        self.waits: list[tuple[int, int]] = []
        self.follows: list[tuple[int, int]] = []
        self.loaded_on_demand = 0

    def ahead_of(self, op: Op) -> None:
        for storage in op.reads:
            if storage in self.host:
                self._load(storage, op.id, op.id - 1)
                self.loaded_on_demand += 1
        touched = {s for s in (*op.reads, *op.writes) if not self.uses[s].exists_at_start}
        made = sorted(s for s in touched if s not in self.device)
        needed = sum(self.sizes[s] for s in made)
        if not self._has_room(needed):
            self._evict(needed, op.id + 1, op.id - 1, touched)
        for storage in made:
            self.host.discard(storage)
            self.device[storage] = _Resident(op.id, None, op.id)
        self._take(needed + op.workspace_bytes)
        for storage in touched:
            self.device[storage].last = op.id

    def behind(self, op: Op) -> None:
        self.used -= op.workspace_bytes
        for storage in dict.fromkeys((*op.reads, *op.writes)):
            use = self.uses[storage]
            if use.positions[-1] == op.id and not use.lives_to_end:
                self.used -= self.sizes[storage]
                if not use.exists_at_start:
                    self._close(storage, None)
            elif not use.exists_at_start:
                heapq.heappush(self.farthest, (-self._next_use(storage, op.id), storage))
        coming = self._on_host_until(op.id, op.id + self.horizon)
        needed = sum(self.sizes[s] for s in coming) + self.buffer
        stores = [] if self._has_room(needed) else self._evict(needed, op.id + self.horizon + 1, op.id, ())
        for storage in coming:
            next_use = self._next_use(storage, op.id)
            if not self._has_room(self.sizes[storage]):
                heapq.heappush(self.nearest, (next_use, storage))
                continue
            fetch = self._load(storage, next_use if next_use > op.id else self.count, op.id)
            self.follows += [(fetch, stores[-1])] if stores else []

    def finish(self) -> Plan:
        graph, hardware = self.request.graph, self.request.hardware
        for storage in sorted(self.host):
            self._load(storage, self.count, self.count - 1)
        for storage in list(self.device):
            self._close(storage, None, to_end=True)
        given = insert_cache_operators(graph, self.uses, [()] * len(self.sizes), ())
        stays = [s for s in given.stays if self.uses[s.storage].exists_at_start] + self.stays
        links: list[list[int]] = [[], []]
        for index, transfer in enumerate(self.transfers):
            links[0 if transfer.kind == "store" or hardware.duplex == "half" else 1].append(index)
        note = (
            f"loads on demand, for inputs on the host when their op was launched: {self.loaded_on_demand}; MindSpore "
            "stops at the first with the error 'memory not enough'"
        )
        found = Plan(
            order=tuple(range(self.count)),
            stays=tuple(sorted(stays, key=lambda s: s.storage)),
            transfers=tuple(self.transfers),
            links=tuple(tuple(link) for link in (links[:1] if hardware.duplex == "half" else links)),
            homes=given.homes,
            spans_ns=(),
            op_spans_ns=(),
            waits=tuple(self.waits),
            follows=tuple(self.follows),
            notes=(note,) if self.loaded_on_demand else (),
        )
        return with_spans(graph, found, self.request.durations_ns, hardware)

    def _next_use(self, storage: int, position: int) -> int:
        """The next op behind ``position`` that uses it; for an output at last the last op."""
        use = self.uses[storage]
        index = bisect_right(use.positions, position)
        return use.positions[index] if index < len(use.positions) else self.count - 1

    def _on_host_until(self, position: int, until: int) -> list[int]:
        """Values on the host that an op up to ``until`` uses, the next first."""
        found = []
        while self.nearest and self.nearest[0][0] <= until:
            next_use, storage = heapq.heappop(self.nearest)
            if storage in self.host and storage not in found and next_use == self._next_use(storage, position):
                found.append(storage)
        return found

    def _has_room(self, size: int) -> bool:
        return max(self.limit - self.pool, self.pool - self.used) >= size

    def _take(self, size: int) -> None:
        self.used += size
        self.pool = min(max(self.pool, self.used), self.limit)

    def _evict(self, needed: int, first_use: int, after: int, spared: Collection[int]) -> list[int]:
        """Put out at least ``needed`` bytes of values used at ``first_use`` or later; the Stores."""
        stores: list[int] = []
        put_back: list[tuple[int, int]] = []
        while needed > 0 and self.farthest and -self.farthest[0][0] >= first_use:
            entry = heapq.heappop(self.farthest)
            next_use, storage = -entry[0], entry[1]
            resident = self.device.get(storage)
            if resident is None or resident.last < 0 or self._next_use(storage, resident.last) != next_use:
                continue
            if storage in spared:
                put_back.append(entry)
                continue
            if self.request.actions[storage] == "keep":
                continue
            stores.append(self._transfer("store", storage, after))
            if after + 1 < self.count:
                self.waits.append((after + 1, stores[-1]))
            self._close(storage, stores[-1])
            self.host.add(storage)
            heapq.heappush(self.nearest, (next_use, storage))
            needed -= self.sizes[storage]
            self.used -= self.sizes[storage]
        for entry in put_back:
            heapq.heappush(self.farthest, entry)
        return stores

    def _load(self, storage: int, begin: int, after: int) -> int:
        self.host.discard(storage)
        fetch = self._transfer("prefetch", storage, after)
        self.device[storage] = _Resident(begin, fetch, -1)
        self._take(self.sizes[storage])
        return fetch

    def _transfer(self, kind: TransferKind, storage: int, after: int) -> int:
        self.transfers.append(PlannedTransfer(kind, storage, after))
        return len(self.transfers) - 1

    def _close(self, storage: int, store: int | None, *, to_end: bool = False) -> None:
        resident = self.device.pop(storage)
        self.stays.append(Stay(storage, resident.begin, resident.last, to_end, resident.fetch, store))


STRATEGY = Strategy(
    name="mindspore-window",
    title="MindSpore 2.10, sliding window",
    help="At run time the values used farthest in the future leave; compute waits for each copy-out.",
    source="mindspore-ai/mindspore, MemCountedCache of the run-time HyperOffload (mem_counted_cache, mem_action_mgr).",
    plan=plan,
    leaves="what the ops of the step make and use again",
    options=(
        Option("max_size", 0, "Limit in bytes, as runtime.set_memory sets it; 0: the policy's limit.", minimum=0),
        Option("horizon", 1, "How many ops ahead values are loaded.", minimum=1),
        Option("buffer_percent", 10, "Share of the limit that is kept free behind every op.", minimum=0, maximum=100),
    ),
)
