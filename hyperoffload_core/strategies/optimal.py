"""Strategy `optimal`: the shortest step there is, with its proof, for small graphs.

Over every legal order of the ops, every choice of reuse gaps (Store and Prefetch, or Detach and Prefetch where the
remote copy is valid), every home of persistent storages, every order of the transfers on their links and every timing
that memory and addresses allow; of the shortest steps one that moves the fewest bytes. Transfers are whole and nothing
is computed twice: with parts of transfers or recomputation a step may be shorter still.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from hyperoffload_core.exact.instance import Instance, bits, make_instance
from hyperoffload_core.exact.optimum import MOST_OPS, MOST_STORAGES, UNBOUNDED, find_optimum
from hyperoffload_core.passes.addresses import pack_plan
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import NoPlacementError
from hyperoffload_core.passes.timing import time_plan
from hyperoffload_core.strategies import hyperoffload, reactive
from hyperoffload_core.strategies.base import Option, Request, Strategy, StrategyError


def plan(request: Request) -> Plan:
    """The optimum, or after ``time_limit_s`` the best plan known, with a note on how far from optimal it may be.

    Raises `StrategyError` for a graph that is too large, `NoPlacementError` where no schedule keeps the rules. A rule
    that says offload puts a persistent or handed-in storage at home in the pool; other storages leave where it pays.
    """
    ops, storages = len(request.graph.ops), len(request.graph.storages)
    if ops > MOST_OPS or storages > MOST_STORAGES:
        raise StrategyError(
            f"strategy 'optimal' takes graphs of at most {MOST_OPS} ops and {MOST_STORAGES} storages, this one has "
            f"{ops:,} ops and {storages:,} storages; strategy 'hyperoffload' takes graphs of any size"
        )
    instance = make_instance(
        request.graph, request.durations_ns, request.hardware, request.limit_bytes, request.actions
    )
    known = _known(request, instance)
    known_ns, known_bytes = (UNBOUNDED, UNBOUNDED) if known is None else known[1:]
    request.progress(0.2, "searching for the shortest step")
    optimum = find_optimum(
        instance, known_ns, known_bytes, float(request.options.get("time_limit_s", 60.0)), request.check_cancelled
    )
    best = optimum.plan if optimum.plan is not None else (known[0] if known is not None else None)
    if best is None:
        raise NoPlacementError
    return replace(best, notes=(*best.notes, *_notes(optimum.step_ns, optimum.bound_ns, optimum.fewest_bytes)))


def _notes(step_ns: int, bound_ns: int, fewest_bytes: bool) -> list[str]:
    if bound_ns < step_ns:
        return [f"not proved optimal: gap {(step_ns - bound_ns) / max(1, bound_ns):.2%}"]
    if not fewest_bytes:
        return ["the shortest step is proved; that none as short moves fewer bytes is not"]
    return ["proved optimal among schedules with whole transfers and without recomputation"]


def _known(request: Request, instance: Instance) -> tuple[Plan, int, int] | None:
    """The quickest plan of the other strategies that is of the kind searched for, with its step and moved bytes."""
    found: list[tuple[int, int, int, Plan]] = []
    for strategy in (hyperoffload.STRATEGY, reactive.STRATEGY):
        options = {o.name: o.default for o in strategy.options}
        if "effort" in options:
            options |= {"effort": "fast", "exact": False}
        with suppress(NoPlacementError):
            packed, height = pack_plan(
                request.graph, strategy.plan(replace(request, options=options)), request.limit_bytes
            )
            moves = sum((s.fetch is not None) + (s.store is not None) for s in packed.stays)
            whole = packed.graph is None and moves == len(packed.transfers)
            homes = all(packed.homes[s] == "pool" for s in bits(instance.offloaded & instance.given))
            if whole and homes and height <= request.limit_bytes:
                step_ns = time_plan(request.graph, packed, request.durations_ns, request.hardware)[2]
                moved = sum(request.graph.storages[t.storage].bytes for t in packed.transfers)
                found.append((step_ns, moved, len(found), packed))
    if not found:
        return None
    step_ns, moved, _, best = min(found, key=lambda f: f[:3])
    return best, step_ns, moved


STRATEGY = Strategy(
    name="optimal",
    title="Optimal (small graphs)",
    help="The proved shortest step of a graph of a few ops, by exhaustive search with bounds.",
    source="Our own; the schedules it ranges over and the proof are in docs/scheduling.md.",
    plan=plan,
    keeps_limit=True,
    options=(
        Option("time_limit_s", 60.0, "seconds to search before the best schedule known is returned", minimum=0.0),
    ),
)
