"""The pipeline: graph + durations + hardware + policy -> checked schedule.

    rules -> strategy -> addresses -> events -> times -> schedule (-> prefetches started earlier by rule) -> verifier

Each step is a plain function from one documented value to the next; the command line, the dashboard, the session and
the tests all call `compile_schedule`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from hyperoffload_core.analysis.bounds import smallest_feasible_limit, step_lower_bound_ns
from hyperoffload_core.analysis.infeasible import Infeasible, explain_infeasible
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.collector import collector_paused
from hyperoffload_core.cost import Durations
from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.metrics import step_metrics
from hyperoffload_core.passes.addresses import pack_plan
from hyperoffload_core.passes.plan import Plan, moved_bytes
from hyperoffload_core.passes.play import NoPlacementError
from hyperoffload_core.passes.timing import stay_spans, time_plan
from hyperoffload_core.policy import Policy, match_rules, policy_to_document, prefetches_earlier
from hyperoffload_core.schedule import OpTime, Residency, Schedule, Transfer
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.sooner import with_earlier_prefetches
from hyperoffload_core.strategies import Request, find_strategy, resolve_options
from hyperoffload_core.verifier import violations


class InfeasibleError(UserError):
    """No schedule meets the limit. ``smallest`` is the smallest limit that can be met and the op that sets it, ``why``
    the op's working set and what would make it fit, ``advice`` the latter in one sentence.
    """

    def __init__(self, message: str, why: Infeasible) -> None:
        super().__init__(message)
        self.why = why
        self.smallest = why.smallest
        self.advice = why.advice


@collector_paused()
def compile_schedule(
    graph: Graph,
    durations: Durations,
    hardware: Hardware,
    policy: Policy,
    *,
    fixed: Mapping[int, str] = MappingProxyType({}),
    progress: Callable[[float, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Schedule:
    """A schedule that the verifier has accepted. ``fixed`` storages, which cannot move where it is to run, with the
    reasons, are kept on the device whatever the rules say.

    Raises `PolicyError` (a rule that matches nothing), `StrategyError`, `InfeasibleError`, `strategies.Cancelled`. A
    strategy that does not promise to keep the limit returns its schedule even when it is over it, with a note that says
    by how much.
    """
    strategy = find_strategy(policy.strategy)
    options = resolve_options(strategy, policy.options)
    actions = tuple("keep" if s in fixed else action for s, action in enumerate(match_rules(graph, policy)))
    limit_bytes = policy.limit_bytes(live_peak_bytes(graph), hardware.device_bytes)
    kept = [s for s, action in enumerate(actions) if action == "keep"]
    smallest = smallest_feasible_limit(graph, kept)
    if strategy.keeps_limit and limit_bytes < smallest.bytes:
        why = explain_infeasible(graph, limit_bytes, kept, smallest, fixed)
        raise InfeasibleError(why.sentence + _fixed_sentence(graph, limit_bytes, set(kept) - fixed.keys()), why)
    request = Request(
        graph=graph,
        durations_ns=durations.ns,
        hardware=hardware,
        limit_bytes=limit_bytes,
        actions=actions,
        options=options,
    )
    if progress is not None:
        request = replace(request, progress=progress)
    if cancelled is not None:
        request = replace(request, cancelled=cancelled)
    try:
        plan = strategy.plan(request)
    except NoPlacementError as error:
        raise InfeasibleError(
            f"strategy {strategy.name!r} found no schedule under {format_bytes(limit_bytes)} with these keep rules; "
            f"keep less, or raise the limit above {format_bytes(smallest.bytes)}",
            explain_infeasible(graph, limit_bytes, kept, smallest, fixed),
        ) from error
    document = policy_to_document(policy.model_copy(update={"options": options}))
    schedule = schedule_of_plan(graph, durations, hardware, plan, document, strategy.name, limit_bytes)
    if sooner := prefetches_earlier(graph, policy):
        request.progress(0.92, "starting prefetches earlier")
        schedule = with_earlier_prefetches(schedule, sooner, request.check_cancelled)
    if fixed:
        size = sum(graph.storages[s].bytes for s in fixed)
        reasons = ", ".join(dict.fromkeys(fixed.values()))
        note = f"planned with {len(fixed)} storages ({format_bytes(size)}) that cannot move: {reasons}"
        schedule = replace(schedule, notes=(*schedule.notes, note))
    over = 0 if strategy.keeps_limit else schedule.metrics.reserved_bytes - limit_bytes
    if over > 0 and strategy.leaves and not (plan.notes or schedule.transfers) and plan.graph is None:
        note = f"nothing but {strategy.leaves} leaves the device under this strategy, and here none of it does"
        schedule = replace(schedule, notes=(*schedule.notes, note))
    if over > 0:
        note = f"over the memory limit of {format_bytes(limit_bytes)} by {format_bytes(over)}"
        schedule = replace(schedule, notes=(*schedule.notes, note))
    request.progress(0.95, "verifying")
    for violation in violations(schedule, graph, fixed):
        if over <= 0 or violation.rule != "limit":
            raise violation
    return schedule


def _fixed_sentence(graph: Graph, limit_bytes: int, kept: set[int]) -> str:
    """Said where the limit could be met if everything but what rules keep could move; "" where it could not."""
    smallest_bytes = smallest_feasible_limit(graph, kept).bytes
    if smallest_bytes > limit_bytes:
        return ""
    return f"; op by op, where all storages can move, it is {format_bytes(smallest_bytes)}"


def schedule_of_plan(
    graph: Graph,
    durations: Durations,
    hardware: Hardware,
    plan: Plan,
    policy_document: dict[str, object],
    strategy: str,
    limit_bytes: int,
) -> Schedule:
    """Addresses, edges and times of a plan: the finished, not yet verified schedule.

    A recomputed op takes as long as the op it runs again. The lower bound of a schedule over the limit is the one for
    the memory that it takes.
    """
    planned = graph if plan.graph is None else plan.graph
    packed, height = pack_plan(planned, plan, limit_bytes)
    lower_bound_ns = step_lower_bound_ns(
        graph,
        durations.ns,
        hardware,
        max(limit_bytes, height),
        recomputed=plan.graph is not None or _may_recompute(policy_document),
    )
    graph, durations = planned, Durations(tuple(durations.ns[o] for o in planned.origins), durations.source)
    edges, times, step_ns = time_plan(graph, packed, durations.ns, hardware)
    op_times = tuple(
        OpTime(op, int(times.op_start[op]), int(times.op_end[op]), tuple(edges.op_waits[op])) for op in packed.order
    )
    transfers = tuple(
        Transfer(
            id=index,
            kind=t.kind,
            storage=t.storage,
            bytes=moved_bytes(graph, t),
            start_ns=int(times.transfer_start[index]),
            end_ns=int(times.transfer_end[index]),
            after_ops=tuple(edges.after_ops[index]),
            after_transfers=tuple(edges.after_transfers[index]),
            partial=t.bytes is not None,
            offset_bytes=t.offset_bytes,
        )
        for index, t in enumerate(packed.transfers)
    )
    assert packed.offsets is not None
    residencies = tuple(
        Residency(stay.storage, offset, start, end)
        for stay, offset, (start, end) in zip(
            packed.stays, packed.offsets, stay_spans(packed, times, step_ns), strict=True
        )
    )
    metrics = step_metrics(
        [s.bytes for s in graph.storages],
        [op.workspace_bytes for op in graph.ops],
        op_times,
        transfers,
        residencies,
        lower_bound_ns,
    )
    return Schedule(
        graph=graph,
        durations_ns=durations.ns,
        duration_source=durations.source,
        hardware=hardware,
        policy=policy_document,
        strategy=strategy,
        memory_limit_bytes=limit_bytes,
        order=packed.order,
        op_times=op_times,
        transfers=transfers,
        residencies=residencies,
        homes=packed.homes,
        # a workspace the address pass put above all stays may lie higher than it has to, by its alignment
        metrics=replace(metrics, reserved_bytes=min(height, metrics.reserved_bytes)),
        notes=packed.notes,
    )


def _may_recompute(policy_document: dict[str, object]) -> bool:
    """Whether the policy allows schedules that run ops again: then bounds on what has to move do not hold."""
    options = policy_document.get("options")
    return isinstance(options, dict) and bool(options.get("recompute", False))
