"""Predictions that are not recorded: one policy, or a sweep of strategies over memory limits.

The dashboard's previews (`app.planner`), its limit curve and the command `sweep` all call `predict`. Policies are
compiled in a hurry: at effort ``fast`` where the strategy knows efforts, and `optimal` with a second to search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from app.actions import Problem
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.errors import UserError
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Metrics, Schedule
from hyperoffload_core.strategies import STRATEGIES

SWEPT = (100, 70, 50, 85, 60, 40, 30, 20, 15, 10, 5)
"""Limits of a sweep in percent of the live peak, in an order that shows the shape of the curve early."""
_SEARCH_SECONDS = 1.0
"""What a strategy that searches until a time limit gets for a preview."""


@dataclass(frozen=True, slots=True)
class Tiers:
    """What a schedule does with each storage of the graph, by id: its home, and bytes moved in a step."""

    pool_home: tuple[bool, ...]
    bytes_out: tuple[int, ...]
    bytes_in: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a policy is predicted to do. ``metrics`` and ``tiers`` are None where there is no schedule; ``problem`` then
    says why in one sentence. ``over_bytes`` is by how much a strategy that does not keep the limit is above it."""

    strategy: str
    limit_bytes: int
    metrics: Metrics | None
    tiers: Tiers | None
    over_bytes: int
    notes: tuple[str, ...]
    problem: str


def predict(problem: Problem, policy: Policy, cancelled: Callable[[], bool] = lambda: False) -> Prediction:
    """Compile the policy in a hurry and verify the schedule. Raises `strategies.Cancelled`; what is wrong with the
    policy becomes the prediction's ``problem``."""
    graph = problem.content.graph
    limit_bytes = policy.limit_bytes(live_peak_bytes(graph), problem.hardware.device_bytes)
    try:
        schedule = compile_schedule(graph, problem.durations, problem.hardware, hurried(policy), cancelled=cancelled)
    except UserError as error:
        return Prediction(policy.strategy, limit_bytes, None, None, 0, (), str(error))
    over = max(0, schedule.metrics.reserved_bytes - schedule.memory_limit_bytes)
    return Prediction(
        policy.strategy,
        limit_bytes,
        schedule.metrics,
        tiers_of(schedule),
        over,
        _shown_notes(schedule.notes),
        problem="",
    )


def _shown_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """The first and the last few: strategies write theirs first, rules come behind."""
    return notes if len(notes) <= 6 else (*notes[:3], *notes[-3:])


def hurried(policy: Policy) -> Policy:
    """The policy with the search times of previews."""
    known = {o.name for o in STRATEGIES[policy.strategy].options} if policy.strategy in STRATEGIES else set()
    options = dict(policy.options)
    if "effort" in known:
        options["effort"] = "fast"
    if "time_limit_s" in known:
        given = options.get("time_limit_s", _SEARCH_SECONDS)
        options["time_limit_s"] = min(_SEARCH_SECONDS, given) if isinstance(given, int | float) else given
    return policy.model_copy(update={"options": options})


def tiers_of(schedule: Schedule) -> Tiers:
    """What a schedule does with the storages of its graph; a second copy that holds a recomputed value counts for the
    storage whose value it is."""
    graph = schedule.graph
    place = {s.id: number for number, s in enumerate(s for s in graph.storages if s.recompute_of is None)}
    owner = np.array([place[s.id if s.recompute_of is None else s.recompute_of] for s in graph.storages], np.int64)
    moved = {"store": np.zeros(len(place), np.int64), "prefetch": np.zeros(len(place), np.int64)}
    for kind, total in moved.items():
        chosen = [(t.storage, t.bytes) for t in schedule.transfers if t.kind == kind]
        rows = np.array(chosen, np.int64).reshape(-1, 2)
        np.add.at(total, owner[rows[:, 0]], rows[:, 1])
    homes = tuple(schedule.homes[s] == "pool" for s in place)
    return Tiers(homes, tuple(moved["store"].tolist()), tuple(moved["prefetch"].tolist()))


def sweep_policies(policy: Policy, strategies: Sequence[str], limits: Sequence[str]) -> tuple[Policy, ...]:
    """Each strategy under each limit, limits outermost: the policy's own strategy with its options, others with their
    defaults; the rules hold for all."""
    return tuple(
        policy.model_copy(
            update={
                "memory_limit": limit,
                "strategy": strategy,
                "options": policy.options if strategy == policy.strategy else {},
            }
        )
        for limit in limits
        for strategy in strategies
    )


def nearest_met(
    policy: Policy, limit_bytes: int, policies: Sequence[Policy], predictions: Sequence[Prediction]
) -> Prediction | None:
    """Of a sweep's predictions so far, the one for the policy under the largest limit that is no larger than
    ``limit_bytes``: its schedule meets this limit as well, so that a step of that length is possible."""
    plain = policy.model_copy(update={"name": "", "memory_limit": None})
    met = [
        p
        for asked, p in zip(policies, predictions, strict=False)
        if p.limit_bytes <= limit_bytes
        and p.metrics is not None
        and not p.over_bytes
        and asked.model_copy(update={"name": "", "memory_limit": None}) == plain
    ]
    return max(met, key=lambda p: p.limit_bytes, default=None)


def sweep_limits(live_peak_bytes: int, smallest_bytes: int) -> tuple[str, ...]:
    """Limits for a curve: shares of the live peak that can be met, in the order of `SWEPT`, the smallest second."""
    floor = -(-1000 * smallest_bytes // max(1, live_peak_bytes)) / 10
    limits = [f"{percent}%" for percent in SWEPT if percent > floor + 1]
    limits.insert(min(1, len(limits)), f"{floor:g}%")
    return tuple(limits)


def sweep(
    problem: Problem, policies: Sequence[Policy], cancelled: Callable[[], bool] = lambda: False
) -> Iterator[Prediction]:
    """One prediction after the other, in order. Raises `strategies.Cancelled`."""
    for policy in policies:
        yield predict(problem, policy, cancelled)
