"""Strategy `reactive`: what a runtime without foresight does."""

from __future__ import annotations

from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.strategies.base import Request, Strategy
from hyperoffload_core.strategies.paging import on_demand_setup
from hyperoffload_core.strategies.settling import paged_plan


def plan(request: Request) -> Plan:
    """Least recently used storages leave when an op's memory does not fit; missing ones are copied in at the op.

    Every copy starts only when the op that needs it (or the memory it frees) is the next to run. A clean storage (valid
    remote copy) is dropped without a copy. Rules that say offload are not followed: such a runtime knows no policy,
    except that what is kept is never a victim. Raises `NoPlacementError`.
    """
    return paged_plan(on_demand_setup(request))


STRATEGY = Strategy(
    name="reactive",
    title="Reactive (LRU, on demand)",
    help="Least recently used storages leave when memory runs short; copies are made when an op needs them.",
    source="The behaviour of CUDA unified memory and of the warm-up executor of hyper-parallel (LRU as victim order).",
    plan=plan,
    keeps_limit=True,
)
