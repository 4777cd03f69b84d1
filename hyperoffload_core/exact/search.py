"""Best-first search for the shortest step of a small graph, then for the fewest moved bytes among shortest steps.

A state is what is on the device and in the pool, which ops have run, and what runs now until when. From a state any
idle stream (compute and each link) may start something or wait, and time then passes to the next end. That is enough:

1. In some optimal schedule every op and transfer starts with the step or at the moment another one ends. Take an
   optimal schedule and let every start move to the latest end that lies at or before it, in this order. No start moves
   later; two holds of memory that did not overlap still do not, so whatever overlaps now (intervals that overlap in
   pairs share a moment) was alive at one moment before and fits.
2. A valid copy on the device is given up only when something that starts needs its bytes, and then no more copies than
   needed: giving up costs nothing and can always wait.
3. Of two states that differ in time only, the one that is nowhere later can copy whatever follows the other.

The search expands states in the order of a bound that never exceeds the true step, so the first finished one is
optimal.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from hyperoffload_core.exact.instance import Instance, bits

Places = tuple[int, ...]
"""Offsets by storage, -1 for none; empty in a search that assigns no addresses."""
State = tuple[int, int, int, int, int, int, int, Places, Places]
"""(ops that have run, running op, storages on the device, storages with a valid remote copy, storage being stored,
storage being fetched, persistent storages at home in the pool, places on the device with that of the running op's
workspace behind them, places to return to before the step ends); -1 where nothing runs."""
Times = tuple[int, int, int, int]
"""(now, end of the running op, of the running Store, of the running Prefetch); now where nothing runs."""


WORKSPACE = -1
"""Stands for the workspace of an op where blocks are placed."""


class OutOfTime(Exception):  # noqa: N818 - not a fault
    """The search was stopped; ``bound`` is a lower bound on what it was to minimise."""

    def __init__(self, bound: int) -> None:
        super().__init__(bound)
        self.bound = bound


@dataclass(frozen=True, slots=True)
class Start:
    """What starts at ``ns``: an op, a Store and a Prefetch of a storage (-1: none); ``evicted`` storages leave just
    before. ``placed``: (storage or `WORKSPACE`, offset) of what takes room, where the search assigns addresses."""

    ns: int
    op: int
    store: int
    prefetch: int
    evicted: int
    placed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Found:
    """A finished step: its duration, bytes moved, starts in order of time, and homes in the pool (mask)."""

    step_ns: int
    moved_bytes: int
    starts: tuple[Start, ...]
    device_at_start: int
    pool_home: int
    offsets_at_start: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Pending:
    """What holds once a set of ops has started, whatever is where. Indexed lists are by storage id.

    ``needed``: storages whose present value something still reads, or the step's end asks for; ``idle``: storages that
    no op touches any more; ``tail_ns[s]``: compute that must follow a Prefetch of s; ``head_ns[s]``: compute before the
    last write of s (-1 if no write is to come).
    """

    needed: int
    idle: int
    compute_ns: int
    tail_ns: tuple[int, ...]
    head_ns: tuple[int, ...]


@dataclass
class Search:
    """One instance. ``expanded`` counts states, over both searches."""

    instance: Instance
    deadline: float = float("inf")
    check: Callable[[], None] = lambda: None
    expanded: int = 0
    _accessors: list[list[tuple[int, bool, bool]]] = field(init=False)

    def __post_init__(self) -> None:
        x = self.instance
        self._accessors = [
            [
                (op, bool(x.reads[op] >> s & 1), bool(x.writes[op] >> s & 1))
                for op in range(len(x.before))
                if x.touched[op] >> s & 1
            ]
            for s in range(len(x.size_bytes))
        ]
        self._pending = lru_cache(maxsize=None)(self._work_out_pending)
        self._bytes = lru_cache(maxsize=None)(x.bytes_of)
        self._evictions = lru_cache(maxsize=None)(self._work_out_evictions)
        self._links = lru_cache(maxsize=None)(self._work_out_links)

    # -- facts about sets of started ops -------------------------------------------------------------------------

    def _work_out_pending(self, started: int) -> _Pending:
        x = self.instance
        needed = idle = 0
        tails, heads = [], []
        for s, accessors in enumerate(self._accessors):
            pending = [a for a in accessors if not started >> a[0] & 1]
            tail, head = 0, -1
            if pending:
                if pending[0][1]:
                    needed |= 1 << s
                    after = 0
                    for op, _, writes in pending:
                        after |= x.descendants[op]
                        if writes:
                            break
                    tail = x.ns_of(after & ~started)
                writers = [op for op, _, writes in pending if writes]
                if writers:
                    up_to = 0
                    for op in writers:
                        up_to |= x.ancestors[op]
                    head = x.ns_of(up_to & ~started)
            else:
                idle |= 1 << s
                if x.lasting >> s & 1:
                    needed |= 1 << s
            tails.append(tail)
            heads.append(head)
        everything = (1 << len(x.before)) - 1
        return _Pending(needed, idle, x.ns_of(everything & ~started), tuple(tails), tuple(heads))

    def _work_out_links(
        self, started: int, device: int, remote: int, pool: int
    ) -> tuple[int, int, int, int, tuple[tuple[int, int], ...]]:
        """(Prefetch time to come, the same with the compute behind it, Store time to come, bytes of both, and
        (head, Store time) of the Stores to come)."""
        x, pending = self.instance, self._pending(started)
        missing = pending.needed & x.used & ~device & ~(pending.idle & pool)
        absent = sorted(((pending.tail_ns[s], x.in_ns[s]) for s in bits(missing)), reverse=True)
        total_in = with_tail = 0
        for tail, ns in absent:
            total_in += ns
            with_tail = max(with_tail, total_in + tail)
        stores = sorted(
            (max(pending.head_ns[s], 0), x.out_ns[s])
            for s in bits(pool)
            if pending.head_ns[s] >= 0 or not remote >> s & 1
        )
        moved = self._bytes(missing) + sum(
            x.size_bytes[s] for s in bits(pool) if pending.head_ns[s] >= 0 or not remote >> s & 1
        )
        return total_in, with_tail, sum(ns for _, ns in stores), moved, tuple(stores)

    def _work_out_evictions(self, clean: int, wanted_bytes: int) -> tuple[int, ...]:
        """Every inclusion-minimal set of clean storages that gives at least ``wanted_bytes``."""
        if wanted_bytes <= 0:
            return (0,)
        found: list[int] = []
        items = sorted(bits(clean), key=lambda s: -self.instance.size_bytes[s])
        sizes = self.instance.size_bytes

        def extend(at: int, chosen: int, total: int, smallest: int) -> None:
            if total >= wanted_bytes:
                if total - smallest < wanted_bytes:
                    found.append(chosen)
                return
            for k in range(at, len(items)):
                s = items[k]
                extend(k + 1, chosen | 1 << s, total + sizes[s], min(smallest, sizes[s]))

        extend(0, 0, 0, 1 << 62)
        return tuple(found)

    # -- bounds ----------------------------------------------------------------------------------------------------

    def _bound(self, state: State, times: Times) -> tuple[int, int]:
        """Lower bounds on the step's end and on the bytes still to move."""
        done, running, device, remote, storing, fetching, pool, _, _ = state
        _, op_end, out_end, in_end = times
        started = done | (1 << running if running >= 0 else 0)
        pending = self._pending(started)
        in_ns, with_tail, out_ns, moved, stores = self._links(
            started, device, remote | (1 << storing if storing >= 0 else 0), pool
        )
        compute = op_end + pending.compute_ns
        bound = max(compute, out_end, in_end)
        if fetching >= 0:
            bound = max(bound, in_end + pending.tail_ns[fetching])
        if self.instance.half_duplex:
            link = max(out_end, in_end)
            bound = max(bound, link + in_ns + out_ns, link + with_tail)
        else:
            bound = max(bound, in_end + with_tail)
            link = out_end
        left = out_ns
        for head, ns in stores:
            bound = max(bound, max(link, op_end + head if head else 0) + left)
            left -= ns
        return bound, moved

    # -- states ----------------------------------------------------------------------------------------------------

    def initial(self) -> list[tuple[State, Times]]:
        x = self.instance
        free = x.given & x.used & x.movable
        overwritten = sum(1 << s for s in bits(free & ~x.persistent) if not self._accessors[s][0][1])
        must_pool = (free & x.offloaded) | overwritten
        choices = bits(free & ~must_pool)
        fixed_device = x.given & (x.used | x.persistent) & ~x.movable
        outputs = x.lasting & ~x.persistent
        result: list[tuple[State, Times]] = []
        for choice in range(1 << len(choices)):
            on_device = fixed_device | sum(1 << s for k, s in enumerate(choices) if choice >> k & 1)
            ends = (on_device & x.persistent) | outputs
            if self._bytes(on_device) > x.limit_bytes or self._bytes(ends) > x.limit_bytes:
                continue
            pool = free & ~on_device
            result.append(((0, -1, on_device, pool, -1, -1, pool & x.persistent, (), ()), (0, 0, 0, 0)))
        return result

    def _successors(self, state: State, times: Times) -> list[tuple[State, Times, Start, int]]:
        """(next state, its times, what started, bytes of what started) at the next end."""
        x = self.instance
        done, running, device, remote, storing, fetching, pool, _, _ = state
        now, op_end, out_end, in_end = times
        started = done | (1 << running if running >= 0 else 0)
        sizes, limit = x.size_bytes, x.limit_bytes
        held = self._bytes(device) + (x.workspace_bytes[running] if running >= 0 else 0)
        arrived = device & ~(1 << fetching if fetching >= 0 else 0)
        stored_bit = 1 << storing if storing >= 0 else 0
        ops = [-1]
        if running < 0:
            for op in range(len(x.before)):
                if (
                    not done >> op & 1
                    and not x.before[op] & ~done
                    and not x.reads[op] & ~arrived
                    and not x.writes[op] & stored_bit
                ):
                    ops.append(op)
        half_busy = x.half_duplex and (storing >= 0 or fetching >= 0)
        result: list[tuple[State, Times, Start, int]] = []
        for op in ops:
            now_running = running if op < 0 else op
            now_started = started if op < 0 else started | 1 << op
            pending = self._pending(now_started)
            being_written = x.writes[now_running] if now_running >= 0 else 0
            busy = x.touched[now_running] if now_running >= 0 else 0
            device_op, remote_op, held_op = device, remote, held
            if op >= 0:
                fresh = x.touched[op] & ~device
                device_op |= fresh
                held_op += self._bytes(fresh) + x.workspace_bytes[op]
                remote_op &= ~x.writes[op]
            stores, fetches = [-1], [-1]
            if storing < 0 and not half_busy:
                stores += bits(arrived & device_op & ~remote_op & ~being_written & pending.needed & x.movable)
            if fetching < 0 and not half_busy:
                wanted = remote_op & ~device_op & pending.needed & x.movable & ~(pending.idle & pool)
                fetches += bits(wanted & ~stored_bit)
            for store in stores:
                for fetch in fetches:
                    if x.half_duplex and store >= 0 and fetch >= 0:
                        continue
                    over = held_op + (sizes[fetch] if fetch >= 0 else 0) - limit
                    evictions: tuple[int, ...] = (0,)
                    dropped = 0
                    if over > 0:
                        if op < 0 and fetch < 0:
                            continue
                        kept = busy | stored_bit | (1 << store if store >= 0 else 0)
                        loose = arrived & x.movable & ~kept
                        dropped = loose & ~pending.needed
                        over -= self._bytes(dropped)
                        evictions = self._evictions(loose & remote_op & pending.needed, over)
                    if now_running < 0 and storing < 0 and fetching < 0 and store < 0 and fetch < 0:
                        continue
                    for eviction in evictions:
                        evicted = eviction | dropped
                        next_device = device_op & ~evicted | (1 << fetch if fetch >= 0 else 0)
                        ends = (
                            now + x.durations_ns[op] if op >= 0 else op_end,
                            now + x.out_ns[store] if store >= 0 else out_end,
                            now + x.in_ns[fetch] if fetch >= 0 else in_end,
                        )
                        state_then = (
                            done,
                            now_running,
                            next_device,
                            remote_op,
                            store if store >= 0 else storing,
                            fetch if fetch >= 0 else fetching,
                            pool,
                            (),
                            (),
                        )
                        moved = (sizes[store] if store >= 0 else 0) + (sizes[fetch] if fetch >= 0 else 0)
                        state_next, times_next = self._advance(state_then, ends)
                        result.append((state_next, times_next, Start(now, op, store, fetch, evicted), moved))
        return result

    def _advance(self, state: State, ends: tuple[int, int, int]) -> tuple[State, Times]:
        """Let time pass to the next end and settle what it means."""
        x = self.instance
        done, running, device, remote, storing, fetching, pool, places, home = state
        op_end, out_end, in_end = ends
        now = min(
            op_end if running >= 0 else 1 << 62,
            out_end if storing >= 0 else 1 << 62,
            in_end if fetching >= 0 else 1 << 62,
        )
        if running >= 0 and op_end == now:
            done |= 1 << running
            running = -1
        if storing >= 0 and out_end == now:
            remote |= 1 << storing
            storing = -1
        if fetching >= 0 and in_end == now:
            fetching = -1
        started = done | (1 << running if running >= 0 else 0)
        pending = self._pending(started)
        busy = (x.touched[running] if running >= 0 else 0) | (1 << storing if storing >= 0 else 0)
        over = pending.idle & ~busy & device
        device &= ~(over & (~x.lasting | pool & remote))
        remote &= pending.needed
        return (done, running, device, remote, storing, fetching, pool, places, home), (
            now,
            op_end if running >= 0 else now,
            out_end if storing >= 0 else now,
            in_end if fetching >= 0 else now,
        )

    def _finished(self, state: State) -> bool:
        x = self.instance
        done, running, device, remote, storing, fetching, pool, _, _ = state
        if done != (1 << len(x.before)) - 1 or running >= 0 or storing >= 0 or fetching >= 0:
            return False
        return not pool & ~remote and not x.lasting & x.used & ~pool & ~device

    # -- the searches ----------------------------------------------------------------------------------------------

    def run(self, best_ns: int, best_bytes: int = -1, start: tuple[State, Times] | None = None) -> Found | None:
        """Without ``best_bytes``: the shortest step, None if it is not below ``best_ns``. With it: of the steps of at
        most ``best_ns`` the one that moves the fewest bytes, None if none moves less than ``best_bytes``.
        Raises `OutOfTime`."""
        count_bytes = best_bytes >= 0
        nodes: list[tuple[State, Times, int, int, Start | None]] = []
        labels: dict[State, list[tuple[int, ...]]] = {}
        queue: list[tuple[int, int, int, int, int]] = []

        def push(state: State, times: Times, moved: int, parent: int, begun: Start | None) -> None:
            bound, more = self._bound(state, times)
            if count_bytes:
                if bound > best_ns or moved + more >= best_bytes:
                    return
                label: tuple[int, ...] = (*times, moved)
                key = (moved + more, bound)
            else:
                if bound >= best_ns:
                    return
                label = times
                key = (bound, moved + more)
            known = labels.get(state)
            if known is None:
                labels[state] = [label]
            else:
                for other in known:
                    if all(a <= b for a, b in zip(other, label, strict=True)):
                        return
                known[:] = [o for o in known if not all(a <= b for a, b in zip(label, o, strict=True))]
                known.append(label)
            nodes.append((state, times, moved, parent, begun))
            heapq.heappush(queue, (*key, -state[0].bit_count(), -times[0], len(nodes) - 1))

        for state, times in self.initial() if start is None else [start]:
            push(state, times, 0, -1, None)
        while queue:
            first, _, _, _, index = heapq.heappop(queue)
            state, times, moved, _, _ = nodes[index]
            label = (*times, moved) if count_bytes else times
            if label not in labels[state]:
                continue
            if self._finished(state):
                return self._found(nodes, index)
            self.expanded += 1
            if self.expanded & 255 == 0:
                self.check()
                if time.monotonic() > self.deadline:
                    raise OutOfTime(first)
            for next_state, next_times, begun, bytes_started in self._successors(state, times):
                push(next_state, next_times, moved + bytes_started, index, begun)
        return None

    def _found(self, nodes: list[tuple[State, Times, int, int, Start | None]], index: int) -> Found:
        state, times, moved, parent, start = nodes[index]
        step_ns, total = times[0], moved
        starts: list[Start] = []
        while start is not None:
            starts.append(start)
            state, _, _, parent, start = nodes[parent]
        return Found(step_ns, total, tuple(reversed(starts)), state[2], state[6], self.offsets(state))

    def offsets(self, state: State) -> tuple[tuple[int, int], ...]:  # noqa: ARG002
        return ()
