"""Strategy `mindspore-peak`: MindSpore 2.10's static pass that lowers the modelled peak.

Source and common assumptions: `strategies.mindspore_static`. What the release documents: where the modelled peak is
above MAX_DEVICE_MEMORY - PEAK_MODELED_HEADROOM_BYTES, gaps are selected by a weighted score of size, distance from the
value's creation to the peak, distance from the peak to its next use, and a penalty for neighbouring offloads; adaptive
distances may replace the fixed ones; a target that cannot be reached is reported. No source text of it is public.

Assumed:

- The peak is modelled with static sizes and workspaces, op by op (no `memory_block.csv`, no dynamic shapes). An
  offloaded value is away from RELEASE_DISTANCE ops behind its last user until PREFETCH_DISTANCE ops ahead of the next.
- Candidates are the gaps longer than SELECT_DISTANCE in which the value would be away at the peak; the one with the
  highest score is taken and the peak is modelled again, until it is low enough, none is left, or SELECT_NUM values are
  taken.
- Each term of the score is divided by its largest value among the candidates. The penalty counts the selected gaps
  that end within PREFETCH_DISTANCE ops of this one.
- An adaptive distance is ceil(bytes / bandwidth / kernel time).
- MAX_DEVICE_MEMORY = 0 means the policy's limit and is the default here; MindSpore's default is 40 GiB, and 0 switches
  the selection off there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.analysis.liveness import live_bytes
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.directives import Leave, plan_of_leaves
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.selection import WRAP
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.mindspore_static import (
    OPTIONS,
    Distances,
    offloadable_values,
    remote_leaves,
    value_leaves,
)


@dataclass(frozen=True)
class _Gaps:
    """Candidate gaps, one row each; the value is away at the ops ``low``..``high`` (inclusive)."""

    value: NDArray[np.int64]
    index: NDArray[np.int64]
    bytes: NDArray[np.int64]
    created: NDArray[np.int64]
    next_use: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


def plan(request: Request) -> Plan:
    """Captured order; the plan may exceed the memory limit."""
    graph, options = request.graph, request.options
    order = range(len(graph.ops))
    uses = uses_in_order(graph, order)
    distances = _distances(options)
    leaves = remote_leaves(graph, uses, request.actions, distances)
    curve = live_bytes(graph, order)
    for leave in leaves:
        _take_away(curve, graph, uses[leave.storage], leave)
    values = offloadable_values(graph, uses, request.actions)
    gaps = _candidate_gaps(graph, values, distances, options["SELECT_DISTANCE"])
    limit_bytes = options["MAX_DEVICE_MEMORY"] or request.limit_bytes
    chosen, note = _select(graph, curve, gaps, limit_bytes - options["PEAK_MODELED_HEADROOM_BYTES"], options)
    for value in sorted({int(gaps.value[row]) for row in chosen}):
        indices = [int(gaps.index[row]) for row in chosen if gaps.value[row] == value]
        leaves += value_leaves(graph, values[value], indices, distances)
    found = plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)
    return replace(found, notes=(note,) if note else ())


def _distances(options: Mapping[str, Any]) -> Distances:
    kernel_s = options["DEFAULT_KERNEL_TIME_US"] / 1e6

    def distance(fixed: str, adaptive: str, bandwidth: str) -> Any:
        if not options[adaptive]:
            return lambda _: options[fixed]
        return lambda size: ceil(size / (options[bandwidth] * 1e9) / kernel_s)

    return Distances(
        distance("PREFETCH_DISTANCE", "ENABLE_ADAPTIVE_PREFETCH_DISTANCE", "H2D_BANDWIDTH_GBPS"),
        distance("RELEASE_DISTANCE", "ENABLE_ADAPTIVE_RELEASE_DISTANCE", "D2H_BANDWIDTH_GBPS"),
    )


def _take_away(curve: NDArray[np.int64], graph: Graph, use: Uses, leave: Leave) -> None:
    """Lower the modelled curve by a Remote parameter in one of its gaps."""
    assert leave.wait_before is not None and leave.fetch_after is not None
    size = graph.storages[use.storage].bytes
    if leave.gap == WRAP:
        curve[: max(0, leave.fetch_after + 1)] -= size
        curve[leave.wait_before :] -= size
    elif leave.wait_before <= leave.fetch_after:
        curve[leave.wait_before : leave.fetch_after + 1] -= size


def _candidate_gaps(graph: Graph, values: Sequence[Uses], distances: Distances, select_distance: int) -> _Gaps:
    rows = []
    for value, use in enumerate(values):
        size = graph.storages[use.storage].bytes
        ahead, behind = distances.prefetch(size), distances.release(size)
        rows += [
            (value, index, size, use.positions[0], right, left + 1 + behind, right - 1 - ahead)
            for index, (left, right) in enumerate(pairwise(use.positions))
            if right - left > select_distance
        ]
    return _Gaps(*np.array(rows, np.int64).reshape(len(rows), 7).T)


def _select(
    graph: Graph, curve: NDArray[np.int64], gaps: _Gaps, threshold_bytes: int, options: Mapping[str, Any]
) -> tuple[list[int], str]:
    """Rows of the gaps taken (``curve`` is lowered by them), and a sentence if the threshold was not reached."""
    initial = int(curve.max(initial=0))
    chosen: list[int] = []
    taken_values: set[int] = set()
    available = gaps.low <= gaps.high
    while len(curve) and curve.max() > threshold_bytes:
        peak = int(curve.argmax())
        at_peak = available & (gaps.low <= peak) & (peak <= gaps.high)
        if len(taken_values) >= options["SELECT_NUM"]:
            at_peak &= np.isin(gaps.value, sorted(taken_values))
        rows = np.flatnonzero(at_peak)
        if not len(rows):
            break
        row = int(rows[np.argmax(_scores(gaps, rows, chosen, peak, options))])
        chosen.append(row)
        taken_values.add(int(gaps.value[row]))
        available[row] = False
        curve[gaps.low[row] : gaps.high[row] + 1] -= gaps.bytes[row]
    final = int(curve.max(initial=0))
    if final <= threshold_bytes:
        return chosen, ""
    op = graph.ops[int(curve.argmax())]
    below = "" if threshold_bytes > 0 else ", as the limit is not above PEAK_MODELED_HEADROOM_BYTES"
    return chosen, (
        f"the modelled peak fell from {format_bytes(initial)} to {format_bytes(final)}, not to "
        f"{format_bytes(max(threshold_bytes, 0))}{below}: {len(taken_values)} values selected, "
        f"peak at op {op.id} ({op.name}), workspace there {format_bytes(op.workspace_bytes)}"
    )


def _scores(
    gaps: _Gaps, rows: NDArray[np.int64], chosen: Sequence[int], peak: int, options: Mapping[str, Any]
) -> NDArray[np.float64]:
    ends = gaps.next_use[np.array(chosen, np.int64)]
    near = np.abs(gaps.next_use[rows][:, None] - ends[None, :]) <= options["PREFETCH_DISTANCE"]
    terms = {
        "SIZE": gaps.bytes[rows],
        "COVER_START": peak - gaps.created[rows],
        "COVER_END": gaps.next_use[rows] - peak,
        "NEIGHBOR_IMPACT": -near.sum(axis=1),
    }
    score = np.zeros(len(rows), np.float64)
    for name, term in terms.items():
        score += options[f"SCORE_WEIGHT_{name}"] * term / max(1, int(np.abs(term).max()))
    return score


STRATEGY = Strategy(
    name="mindspore-peak",
    title="MindSpore 2.10, peak",
    help="Values that cover the modelled peak leave, best score first, until it is below the limit less a headroom.",
    source="MindSpore 2.10: documentation and knobs of the peak strategy; its source is not public.",
    plan=plan,
    options=(
        Option("MAX_DEVICE_MEMORY", 0, "Device limit in bytes; 0: the policy's limit.", minimum=0),
        Option(
            "PEAK_MODELED_HEADROOM_BYTES", 4 << 30, "Bytes that the modelled peak stays below the limit.", minimum=0
        ),
        *OPTIONS,
        Option("SCORE_WEIGHT_SIZE", 1.0, "Weight of the size.", minimum=0),
        Option("SCORE_WEIGHT_COVER_START", 1.0, "Weight of how long before the peak the value was made.", minimum=0),
        Option("SCORE_WEIGHT_COVER_END", 1.0, "Weight of how long after the peak it is used again.", minimum=0),
        Option("SCORE_WEIGHT_NEIGHBOR_IMPACT", 1.0, "Weight of the penalty for offloads close together.", minimum=0),
        Option("ENABLE_ADAPTIVE_RELEASE_DISTANCE", False, "Release distance from size, bandwidth and kernel time."),
        Option("ENABLE_ADAPTIVE_PREFETCH_DISTANCE", False, "Prefetch distance from size, bandwidth and kernel time."),
        Option("D2H_BANDWIDTH_GBPS", 20.0, "Bandwidth assumed by the adaptive release distance.", minimum=1e-3),
        Option("H2D_BANDWIDTH_GBPS", 55.0, "Bandwidth assumed by the adaptive prefetch distance.", minimum=1e-3),
        Option("DEFAULT_KERNEL_TIME_US", 400.0, "Duration the adaptive distances assume for every op.", minimum=1e-3),
    ),
)
