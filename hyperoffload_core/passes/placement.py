"""Placement of every transfer on its link, in time, under a memory limit.

A forward pass plays the step (`passes.play`). A backward pass then moves every Prefetch as late as its consumer and its
link allow; the result is again a bound, the op after which it starts. Playing the step with the later bounds gives
memory back to the ops that stood waiting for it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from hyperoffload_core.passes.insertion import Inserted
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import NoPlacementError, Placement, Play, Problem

LEAD_DIVISOR = 4
"""A Prefetch is to arrive this fraction of its own duration early, so that small errors of prediction do not stall."""


def place(problem: Problem, inserted: Inserted, limit_bytes: int, spared_bytes: int = 0, rounds: int = 3) -> Placement:
    """The shortest step found in ``rounds`` forward and backward passes. Raises `NoPlacementError`.

    Prefetches that come early leave ``spared_bytes`` of the limit to the ops.
    """
    early = [t.after for t in inserted.transfers]
    best = Play(problem, inserted, limit_bytes, early, spared_bytes).run()
    for _ in range(rounds - 1):
        bounds = latest_bounds(problem, best)
        if tuple(bounds) == best.bounds:
            break
        try:
            placement = Play(problem, inserted, limit_bytes, bounds, spared_bytes).run()
        except NoPlacementError:
            break
        if placement.step_ns > best.step_ns:
            break
        best = placement
    return best


def latest_bounds(problem: Problem, placement: Placement) -> list[int]:
    """Per transfer the position after whose end it may start; for a Prefetch the latest that still arrives in time."""
    inserted, bounds = placement.inserted, list(placement.bounds)
    consumer = {s.fetch: s.begin for s in inserted.stays if s.fetch is not None}
    for link in placement.links:
        next_start = placement.step_ns
        for index in reversed(link):
            start, end = placement.transfer_start_ns[index], placement.transfer_end_ns[index]
            if index in consumer:
                position, duration = consumer[index], end - start
                deadline = placement.op_start_ns[position] if position < len(problem.order) else placement.step_ns
                latest = min(deadline - duration // LEAD_DIVISOR, next_start) - duration
                after = bisect_right(placement.op_end_ns, latest) - 1
                if after > bounds[index] and placement.op_end_ns[after] > start:
                    bounds[index], start = after, placement.op_end_ns[after]
            next_start = start
    return bounds


def to_plan(problem: Problem, placement: Placement) -> Plan:
    inserted = placement.inserted
    transfers = tuple(
        replace(t, after=max(t.after, bound)) for t, bound in zip(inserted.transfers, placement.bounds, strict=True)
    )
    return Plan(
        order=problem.order,
        stays=inserted.stays,
        transfers=transfers,
        links=placement.links,
        homes=inserted.homes,
        spans_ns=placement.spans_ns,
        op_spans_ns=tuple(zip(placement.op_start_ns, placement.op_end_ns, strict=True)),
    )
