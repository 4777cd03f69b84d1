"""Plans of static planners that say where copies are issued and where compute waits, and do not look at memory.

Most published planners end in such a list: which reuse gaps to leave, and for each the op behind which the copy-out is
issued, the op that waits for its end, and the op behind which the copy-in is issued. Copies of one link run in the
order in which they are issued, like on a stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.events import bind_events
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.plan import Plan, PlannedTransfer
from hyperoffload_core.passes.selection import WRAP, gap_sets
from hyperoffload_core.simulator import event_times


@dataclass(frozen=True, slots=True)
class Leave:
    """One reuse gap in which a storage leaves the device. Positions count ops of the order; -1 is the step's start.

    ``gap`` is an index as in `analysis.lifetimes.Gap`, or `WRAP` (home in the pool: away before the first and behind
    the last access). ``store_after``: the op behind which the copy-out is issued, at the earliest behind the last
    write and at the latest ahead of the next use; without effect where the remote copy is still valid.
    ``wait_before``: the op that waits for the copy-out's end, None if no op is made to. ``fetch_after``: the op
    behind which the copy-in is issued, at the latest just ahead of the op that needs it.
    """

    storage: int
    gap: int
    store_after: int = -1
    wait_before: int | None = None
    fetch_after: int | None = None


def plan_of_leaves(
    graph: Graph, order: Sequence[int], durations_ns: Sequence[int], hardware: Hardware, leaves: Sequence[Leave]
) -> Plan:
    """Stays, transfers, link orders and predicted spans; `pack_plan` gives it addresses, whatever height they reach.

    ``durations_ns`` is indexed by op id. Of several leaves of one gap the last counts.
    """
    uses = uses_in_order(graph, order)
    wanted = {(leave.storage, leave.gap): leave for leave in leaves}
    inserted = insert_cache_operators(graph, uses, *gap_sets(wanted, uses))
    transfers = list(inserted.transfers)
    waits: list[tuple[int, int]] = []
    count = len(order)
    issued_after: dict[int, int] = {}
    for stay in inserted.stays:
        use, issued_before = uses[stay.storage], issued_after.get(stay.storage, -1)
        if stay.store is not None:
            leave = _leave_of(wanted, use, stay.last)
            if leave is not None:
                following = bisect_right(use.positions, stay.last)
                latest = use.positions[following] - 1 if following < len(use.positions) else count - 1
                issued = max(transfers[stay.store].after, min(leave.store_after, latest))
                transfers[stay.store] = replace(transfers[stay.store], after=issued)
                issued_after[stay.storage] = issued
                if leave.wait_before is not None and leave.wait_before < count:
                    waits.append((max(leave.wait_before, transfers[stay.store].after + 1), stay.store))
        if stay.fetch is not None:
            before = use.positions[use.positions.index(stay.begin) - 1] if stay.begin in use.positions[1:] else -1
            leave = _leave_of(wanted, use, use.positions[-1] if stay.begin == count else before)
            latest = min(stay.begin, count) - 1
            issued = latest if leave is None or leave.fetch_after is None else min(leave.fetch_after, latest)
            issued = max(transfers[stay.fetch].after, issued_before, issued)
            transfers[stay.fetch] = replace(transfers[stay.fetch], after=issued)
    plan = Plan(
        order=tuple(order),
        stays=inserted.stays,
        transfers=tuple(transfers),
        links=_issue_order(transfers, half_duplex=hardware.duplex == "half"),
        homes=inserted.homes,
        spans_ns=(),
        op_spans_ns=(),
        waits=tuple((position, store) for position, store in waits if position < count),
    )
    return _with_spans(graph, plan, durations_ns, hardware)


def _leave_of(wanted: dict[tuple[int, int], Leave], use: Uses, last: int) -> Leave | None:
    """The directive of the gap behind the access at ``last`` (-1: ahead of the first access)."""
    index = use.positions.index(last) if last >= 0 else -1
    found = wanted.get((use.storage, index))
    return found if found is not None else wanted.get((use.storage, WRAP))


def _issue_order(transfers: Sequence[PlannedTransfer], *, half_duplex: bool) -> tuple[tuple[int, ...], ...]:
    """Transfers per link by the op behind which they are issued; a Store before a Prefetch issued at the same op."""
    by_issue = sorted(range(len(transfers)), key=lambda i: (transfers[i].after, transfers[i].kind != "store", i))
    if half_duplex:
        return (tuple(by_issue),)
    return (
        tuple(i for i in by_issue if transfers[i].kind == "store"),
        tuple(i for i in by_issue if transfers[i].kind == "prefetch"),
    )


def _with_spans(graph: Graph, plan: Plan, durations_ns: Sequence[int], hardware: Hardware) -> Plan:
    """The plan with the times it would have if every storage had memory of its own."""
    edges = bind_events(plan, ())
    times = event_times(
        plan.order,
        edges.op_waits,
        plan.links,
        edges.after_ops,
        edges.after_transfers,
        durations_ns,
        [
            transfer_ns(graph.storages[t.storage].bytes, hardware.link_out if t.kind == "store" else hardware.link_in)
            for t in plan.transfers
        ],
    )
    step_ns = max(int(times.op_end.max(initial=0)), int(times.transfer_end.max(initial=0)))
    spans = []
    for stay in plan.stays:
        if stay.fetch is not None:
            start = int(times.transfer_start[stay.fetch])
        else:
            start = int(times.op_start[plan.order[stay.begin]]) if stay.begin >= 0 else 0
        end = int(times.op_end[plan.order[stay.last]]) if stay.last >= 0 else 0
        if stay.store is not None:
            end = max(end, int(times.transfer_end[stay.store]))
        spans.append((start, step_ns if stay.to_end else end))
    op_spans = tuple((int(times.op_start[op]), int(times.op_end[op])) for op in plan.order)
    return replace(plan, spans_ns=tuple(spans), op_spans_ns=op_spans)
