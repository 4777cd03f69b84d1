"""The optimum of an instance: the shortest step that has addresses, then the fewest moved bytes among those.

Live bytes first: their optimum is a lower bound, and where its schedule has addresses within the limit it is the
optimum. Where it has none, the search with addresses decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hyperoffload_core.exact.addressed import AddressedSearch
from hyperoffload_core.exact.instance import Instance
from hyperoffload_core.exact.pack import packed_within
from hyperoffload_core.exact.plan import plan_of_found
from hyperoffload_core.exact.search import OutOfTime
from hyperoffload_core.exact.states import Found
from hyperoffload_core.passes.plan import Plan

MOST_OPS = 16
MOST_STORAGES = 24
"""Larger graphs than this are not searched."""

UNBOUNDED = 1 << 60
_WIDTHS = (10, 60)
"""Of the beams that look for a short step with addresses before all of them are searched."""
_QUICK_SHARE = 0.2
"""Of the time, for the beams together."""


@dataclass(frozen=True)
class Optimum:
    """``plan`` is None where nothing better than what was known was found. No schedule is faster than ``bound_ns``;
    ``fewest_bytes`` says whether none as fast moves less. ``expanded`` counts states of the searches."""

    plan: Plan | None
    step_ns: int
    moved_bytes: int
    bound_ns: int
    fewest_bytes: bool
    expanded: int

    @property
    def proved(self) -> bool:
        return self.bound_ns >= self.step_ns


def find_optimum(
    instance: Instance,
    known_ns: int = UNBOUNDED,
    known_bytes: int = UNBOUNDED,
    time_limit_s: float = float("inf"),
    check: Callable[[], None] = lambda: None,
) -> Optimum:
    """The best step, given that one of ``known_ns`` that moves ``known_bytes`` is known.

    Searches for at most ``time_limit_s`` of processor time; ``check`` is called now and then and may raise. The
    result's step is `UNBOUNDED` if no schedule meets the limit.
    """
    deadline = time.process_time() + time_limit_s
    addressed = AddressedSearch(instance, deadline, check)
    live = addressed.live
    plan: Plan | None = None
    step_ns, moved, bound_ns, fewest = known_ns, known_bytes, 0, False

    def take(found: Found | None) -> bool:
        """Whether it has addresses; it is then the best so far."""
        nonlocal plan, step_ns, moved
        if found is None:
            return False
        packed = packed_within(instance.graph, plan_of_found(instance, found), instance.limit_bytes)
        if packed is not None:
            plan, step_ns, moved = packed, found.step_ns, found.moved_bytes
        return packed is not None

    try:
        found = live.run(step_ns)
        bound_ns = step_ns if found is None else found.step_ns
        if found is not None and not take(found):
            take(live.run(found.step_ns, found.moved_bytes))
            quickly = time.process_time() + _QUICK_SHARE * time_limit_s
            for width in _WIDTHS:
                if step_ns > bound_ns:
                    take(addressed.beam(step_ns, width, quickly))
            if step_ns > bound_ns:
                take(addressed.run(step_ns))
            if addressed.all_decided:
                bound_ns = step_ns
        if step_ns < UNBOUNDED:
            found = live.run(step_ns, moved)
            if found is not None and not take(found):
                take(addressed.run(step_ns, moved))
        fewest = addressed.all_decided
    except OutOfTime as stopped:
        if bound_ns < step_ns:
            bound_ns = min(step_ns, max(bound_ns, stopped.bound))
    return Optimum(plan, step_ns, moved, bound_ns, fewest, live.expanded + addressed.expanded)
