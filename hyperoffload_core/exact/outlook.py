"""What is still to come once a set of ops has started, and bounds that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from hyperoffload_core.exact.instance import Instance, bits
from hyperoffload_core.exact.states import State, Times


@dataclass(frozen=True, slots=True)
class Pending:
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
class Outlook:
    """Facts about one instance; each is worked out once."""

    instance: Instance
    accessors: list[list[tuple[int, bool, bool]]] = field(init=False)
    """Per storage, in captured order: (op, whether it reads, whether it writes)."""

    def __post_init__(self) -> None:
        x = self.instance
        self.accessors = [
            [
                (op, bool(x.reads[op] >> s & 1), bool(x.writes[op] >> s & 1))
                for op in range(len(x.before))
                if x.touched[op] >> s & 1
            ]
            for s in range(len(x.size_bytes))
        ]
        self.pending = lru_cache(maxsize=None)(self._work_out_pending)
        self.bytes_of = lru_cache(maxsize=None)(x.bytes_of)
        self._links = lru_cache(maxsize=None)(self._work_out_links)

    def _work_out_pending(self, started: int) -> Pending:
        x = self.instance
        needed = idle = 0
        tails, heads = [], []
        for s, accessors in enumerate(self.accessors):
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
        return Pending(needed, idle, x.ns_of(everything & ~started), tuple(tails), tuple(heads))

    def _work_out_links(
        self, started: int, device: int, remote: int, pool: int
    ) -> tuple[int, int, int, int, tuple[tuple[int, int], ...]]:
        """(Prefetch time to come, the same with the compute behind it, Store time to come, bytes of both, and
        (head, Store time) of the Stores to come)."""
        x, pending = self.instance, self.pending(started)
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
        moved = self.bytes_of(missing) + sum(
            x.size_bytes[s] for s in bits(pool) if pending.head_ns[s] >= 0 or not remote >> s & 1
        )
        return total_in, with_tail, sum(ns for _, ns in stores), moved, tuple(stores)

    def bound(self, state: State, times: Times) -> tuple[int, int]:
        """Lower bounds on the step's end and on the bytes still to move."""
        done, running, device, remote, storing, fetching, pool = state
        _, op_end, out_end, in_end = times
        started = done | (1 << running if running >= 0 else 0)
        pending = self.pending(started)
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
