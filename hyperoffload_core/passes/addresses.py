"""Address assignment: an offset for every stay, so that stays alive at once never share a byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from hyperoffload_core.ir import Graph
from hyperoffload_core.packing.core import core_of, with_core_laid
from hyperoffload_core.packing.firstfit import first_fit, sequences
from hyperoffload_core.packing.overlaps import Overlaps
from hyperoffload_core.packing.problem import Block, Ints, Problem, height_of, make_problem, part_of
from hyperoffload_core.passes.plan import Plan

_LARGEST_ALIGNMENT = 64
_BLOCKS_LAID = 50_000
_HOPELESS = 1.1
"""So many times the capacity no attempt behind the first three makes fit."""
_CORES = ((0.9, 0.0), (0.9, 0.01), (0.8, 0.025), (0.8, 0.05))
"""(share of the peak above which memory is nearly full, share of the capacity by which it may be exceeded), in turn."""
_CORE_NODES = 800
_LARGEST_CORE = 160_000
"""Blocks x slices of the largest core that is searched: larger ones are not laid within so many nodes."""


def alignment_bytes(size: int) -> int:
    """Alignment of a block: the largest power of two that divides its size, at most 64 (a cache line).

    Tied to the size so that blocks sorted by alignment lie without padding between them.
    """
    lowest = size & -size
    return lowest if lowest < _LARGEST_ALIGNMENT else _LARGEST_ALIGNMENT


def assign_addresses(blocks: Sequence[Block], capacity_bytes: int | None = None) -> tuple[list[int], int]:
    """Offsets of the blocks and the height they reach.

    Blocks that exist all the time lie at the bottom. The others are laid by first fit; where that leaves holes, an
    exact search lays those that exist while memory is nearly full, and first fit the rest around them. It ends as soon
    as the height is the most that is alive at once or, after a few tries, within the capacity. How much is tried
    depends on the blocks only, so that the result does not depend on the machine.
    """
    if not blocks:
        return [], 0
    problem = make_problem(blocks)
    offsets = np.zeros(problem.blocks, np.int64)
    step_ns = int(problem.times[-1] - problem.times[0]) if problem.slices else 1
    whole = (problem.durations >= step_ns) & (problem.alignment == _LARGEST_ALIGNMENT)
    whole &= problem.size % _LARGEST_ALIGNMENT == 0
    offsets[whole] = np.cumsum(problem.size[whole]) - problem.size[whole]
    base = int(problem.size[whole].sum())
    if not whole.all():
        rest = part_of(problem, ~whole)
        goal = rest.liveness_bound
        enough = goal if capacity_bytes is None else max(goal, capacity_bytes - base)
        hopeless = None if capacity_bytes is None else int(capacity_bytes * _HOPELESS) - base
        offsets[~whole] = base + _lay(rest, goal, enough, hopeless)
    return offsets.tolist(), height_of(problem, offsets)


def _lay(problem: Problem, goal: int, enough: int, hopeless: int | None) -> Ints:
    """Offsets of the lowest of the attempts, which end early at ``goal`` and, behind the first three, at ``enough`` or
    where all are above ``hopeless``."""
    best, best_height = np.zeros(0, np.int64), -1
    for number, offsets in enumerate(islice(_attempts(problem, enough), max(1, _BLOCKS_LAID // problem.blocks))):
        height = height_of(problem, offsets)
        if best_height < 0 or height < best_height:
            best, best_height = offsets, height
        if best_height <= goal or (best_height <= enough and number >= 2):
            break
        if number >= 2 and hopeless is not None and best_height > hopeless:
            break
    return best


def _attempts(problem: Problem, enough: int) -> Iterator[Ints]:
    """Packings, those that take little time and are often the lowest first."""
    overlaps, orders = Overlaps(problem), sequences(problem)
    yield first_fit(problem, overlaps, orders[0])
    for share, excess in _CORES:
        core = core_of(problem, share)
        if core.problem.blocks * core.problem.slices <= _LARGEST_CORE:
            laid = with_core_laid(problem, core, enough + int(enough * excess), _CORE_NODES)
            if laid is not None:
                yield from (first_fit(laid, overlaps, order) for order in orders[:3])
                if excess:
                    return
        if not excess:
            yield from (first_fit(problem, overlaps, order) for order in orders[1:4])


def pack_plan(graph: Graph, plan: Plan, capacity_bytes: int) -> tuple[Plan, int]:
    """The plan with an address for every stay and workspace, and the height they reach.

    A persistent storage at home on the device ends the step where it began, so that the next step finds it there.
    """
    if plan.offsets is not None:
        tops = [o + graph.storages[s.storage].bytes for s, o in zip(plan.stays, plan.offsets, strict=True)]
        tops += [o + graph.ops[plan.order[p]].workspace_bytes for p, o in plan.workspace_offsets]
        return plan, max(tops, default=0)
    parts = blocks_of_plan(graph, plan)
    found, height = assign_addresses(parts.blocks, capacity_bytes)
    return parts.assigned(plan, found), height


@dataclass(frozen=True)
class PlanBlocks:
    """What of a plan needs addresses: the blocks of its stays, then those of its workspaces.

    ``stays[b]`` are the indices of the stays of block b, ``workspaces`` the positions of the ops that have one.
    """

    blocks: tuple[Block, ...]
    stays: tuple[tuple[int, ...], ...]
    workspaces: tuple[int, ...]

    def assigned(self, plan: Plan, offsets: Sequence[int]) -> Plan:
        """The plan with the block b at ``offsets[b]``."""
        of_stay = [0] * len(plan.stays)
        for offset, indices in zip(offsets, self.stays, strict=False):
            for index in indices:
                of_stay[index] = offset
        workspaces = tuple(zip(self.workspaces, offsets[len(self.stays) :], strict=True))
        return replace(plan, offsets=tuple(of_stay), workspace_offsets=workspaces)


def blocks_of_plan(graph: Graph, plan: Plan) -> PlanBlocks:
    """Every stay is a block by itself, except that the stays of a persistent storage at home on the device that touch
    the step boundary share one."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, stay in enumerate(plan.stays):
        at_home = plan.homes[stay.storage] == "device" and graph.storages[stay.storage].persistent
        at_boundary = at_home and (stay.begin == -1 or stay.to_end)
        groups.setdefault((stay.storage, -1 if at_boundary else index), []).append(index)
    members = tuple(tuple(indices) for indices in groups.values())
    workspaces = tuple(p for p, op in enumerate(plan.order) if graph.ops[op].workspace_bytes)
    blocks = [
        _block(graph.storages[plan.stays[m[0]].storage].bytes, tuple(plan.spans_ns[i] for i in m)) for m in members
    ]
    blocks += [_block(graph.ops[plan.order[p]].workspace_bytes, (plan.op_spans_ns[p],)) for p in workspaces]
    return PlanBlocks(tuple(blocks), members, workspaces)


def _block(size: int, spans: tuple[tuple[int, int], ...]) -> Block:
    return Block(size, spans, alignment_bytes(size))
