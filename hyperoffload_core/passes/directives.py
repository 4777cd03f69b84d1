"""Plans of static planners that say where copies are issued and where compute waits, and do not look at memory.

Most published planners end in such a list: which reuse gaps to leave, and for each the op behind which the copy-out is
issued, the op that waits for its end, and the op behind which the copy-in is issued. Copies of one link run in the
order in which they are issued, like on a stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.plan import Plan, PlannedTransfer, Stay
from hyperoffload_core.passes.selection import WRAP, gap_sets
from hyperoffload_core.passes.timing import stay_spans, time_plan


@dataclass(frozen=True, slots=True)
class Leave:
    """One reuse gap in which a storage leaves the device. Positions count ops of the order; -1 is the step's start.

    ``gap`` is an index as in `analysis.lifetimes.Gap`, or `WRAP` (home in the pool: away before the first and behind
    the last access). ``store_after``: the op behind which the copy-out is issued, at the earliest behind the last
    write and at the latest ahead of the next use; without effect where the remote copy is still valid.
    ``wait_before``: the op that waits for the copy-out's end, and ahead of which the device copy is not given back
    (n and more: the end of the step); None if no op waits and the copy-out's end alone gives the bytes back.
    ``fetch_after``: the op behind which the copy-in is issued, at the latest just ahead of the op that needs it.
    ``fetch_wait_before``: an earlier op that waits for the copy-in's end as well, as systems do that read several
    storages as one.
    """

    storage: int
    gap: int
    store_after: int = -1
    wait_before: int | None = None
    fetch_after: int | None = None
    fetch_wait_before: int | None = None


def plan_of_leaves(
    graph: Graph,
    order: Sequence[int],
    durations_ns: Sequence[int],
    hardware: Hardware,
    leaves: Sequence[Leave],
    *,
    one_stream: bool = False,
) -> Plan:
    """Stays, transfers, link orders and predicted spans; `pack_plan` gives it addresses, whatever height they reach.

    ``durations_ns`` is indexed by op id. Of several leaves of one gap the last counts. With ``one_stream`` copies of
    both directions follow one another even where the link is full duplex. What nothing uses stays where it is unless
    its gap `WRAP` is left.
    """
    uses = uses_in_order(graph, order)
    wanted = {(leave.storage, leave.gap): leave for leave in leaves}
    idle = [use.storage for use in uses if not use.positions]
    inserted = insert_cache_operators(graph, uses, *gap_sets(wanted, uses, idle))
    directed = _Directed(uses, wanted, len(order), list(inserted.stays), list(inserted.transfers))
    held: _Held | None = None
    for index, stay in enumerate(inserted.stays):
        before = held if held is not None and inserted.stays[held.stay].storage == stay.storage else None
        if held is not None and before is None:
            directed.hold(held, len(order))
        if stay.fetch is not None:
            directed.issue_fetch(stay, stay.fetch, before)
        held = directed.issue_store(index, stay, stay.store) if stay.store is not None else None
    if held is not None:
        directed.hold(held, len(order))
    stays, transfers = directed.stays, directed.transfers
    sequence = _issue_sequence(stays, transfers)
    links = (tuple(sequence),) if hardware.duplex == "half" else _by_direction(sequence, transfers)
    plan = Plan(
        order=tuple(order),
        stays=tuple(stays),
        transfers=tuple(transfers),
        links=links,
        homes=inserted.homes,
        spans_ns=(),
        op_spans_ns=(),
        waits=tuple(directed.waits),
        follows=tuple((later, earlier) for earlier, later in pairwise(sequence)) if one_stream else (),
    )
    return with_spans(graph, plan, durations_ns, hardware)


@dataclass(frozen=True, slots=True)
class _Held:
    """A stay whose Store is issued behind the op at ``issued`` and whose bytes are kept until that at ``until``."""

    stay: int
    issued: int
    until: int


@dataclass(frozen=True)
class _Directed:
    """Stays and transfers as inserted, moved to where the directives (by storage and gap) want them."""

    uses: Sequence[Uses]
    wanted: Mapping[tuple[int, int], Leave]
    count: int
    stays: list[Stay]
    transfers: list[PlannedTransfer]
    waits: list[tuple[int, int]] = field(default_factory=list)

    def issue_fetch(self, stay: Stay, fetch: int, before: _Held | None) -> None:
        """``before`` is the same storage's stay ahead of the gap, if a Store ends it."""
        positions = self.uses[stay.storage].positions
        if stay.begin == self.count:
            leave = self._leave_behind(stay.storage, positions[-1])
        else:
            access = positions.index(stay.begin)
            leave = self._leave_behind(stay.storage, positions[access - 1] if access else -1)
        issued = min(stay.begin, self.count) - 1
        if leave is not None and leave.fetch_after is not None:
            issued = min(issued, leave.fetch_after)
        issued = max(self.transfers[fetch].after, before.issued if before else -1, issued)
        self.transfers[fetch] = replace(self.transfers[fetch], after=issued)
        if leave is not None and leave.fetch_wait_before is not None:
            position = max(leave.fetch_wait_before, issued + 1)
            if position < min(stay.begin, self.count):
                self.waits.append((position, fetch))
        if before is not None:
            self.hold(before, issued)

    def issue_store(self, index: int, stay: Stay, store: int) -> _Held:
        positions = self.uses[stay.storage].positions
        leave = self._leave_behind(stay.storage, stay.last)
        issued = until = self.transfers[store].after
        if leave is not None:
            following = bisect_right(positions, stay.last)
            latest = positions[following] - 1 if following < len(positions) else self.count - 1
            issued = max(issued, min(leave.store_after, latest))
            self.transfers[store] = replace(self.transfers[store], after=issued)
            if leave.wait_before is not None:
                position = max(leave.wait_before, issued + 1)
                until = min(position, self.count) - 1
                if position < self.count:
                    self.waits.append((position, store))
        return _Held(index, issued, until)

    def hold(self, held: _Held, latest: int) -> None:
        """Keep the bytes of a stay as long as wanted, at most until the op at ``latest`` has ended."""
        until, stay = min(held.until, latest), self.stays[held.stay]
        if until > stay.last:
            self.stays[held.stay] = replace(stay, last=until)

    def _leave_behind(self, storage: int, last: int) -> Leave | None:
        """The directive of the gap behind the access at ``last`` (-1: ahead of the first access)."""
        index = self.uses[storage].positions.index(last) if last >= 0 else -1
        return self.wanted.get((storage, index)) or self.wanted.get((storage, WRAP))


def _issue_sequence(stays: Sequence[Stay], transfers: Sequence[PlannedTransfer]) -> list[int]:
    """Transfers by the op behind which they are issued: Stores before Prefetches, these by the op that needs them."""
    needed_at = {stay.fetch: stay.begin for stay in stays if stay.fetch is not None}
    return sorted(range(len(transfers)), key=lambda i: (transfers[i].after, needed_at.get(i, -1), i))


def _by_direction(
    sequence: Sequence[int], transfers: Sequence[PlannedTransfer]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (
        tuple(i for i in sequence if transfers[i].kind == "store"),
        tuple(i for i in sequence if transfers[i].kind == "prefetch"),
    )


def with_spans(graph: Graph, plan: Plan, durations_ns: Sequence[int], hardware: Hardware) -> Plan:
    """The plan, which has no offsets yet, with the times it would have if every stay had memory of its own."""
    _, times, step_ns = time_plan(graph, plan, durations_ns, hardware)
    op_spans = tuple((int(times.op_start[op]), int(times.op_end[op])) for op in plan.order)
    return replace(plan, spans_ns=stay_spans(plan, times, step_ns), op_spans_ns=op_spans)
