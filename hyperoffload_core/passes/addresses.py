"""Address assignment: an offset for every stay, so that stays alive at once never share a byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hyperoffload_core.ir import Graph
from hyperoffload_core.packing.firstfit import first_fit, promoted, sequences
from hyperoffload_core.packing.overlaps import Overlaps
from hyperoffload_core.packing.problem import Block, Ints, Problem, height_of, make_problem, part_of
from hyperoffload_core.passes.plan import Plan

_LARGEST_ALIGNMENT = 64
_BLOCKS_LAID = 50_000


def alignment_bytes(size: int) -> int:
    """Alignment of a block: the largest power of two that divides its size, at most 64 (a cache line).

    Tied to the size so that blocks sorted by alignment lie without padding between them.
    """
    return min(_LARGEST_ALIGNMENT, size & -size)


def assign_addresses(blocks: Sequence[Block], capacity_bytes: int | None = None) -> tuple[list[int], int]:
    """Offsets of the blocks and the height they reach.

    Blocks that exist all the time lie at the bottom; the others are laid by first fit in several sequences until the
    height is the most that is alive at once. Given a capacity, and a height within it, fewer are tried. How many
    depends on the number of blocks only, so that the result does not depend on the machine.
    """
    if not blocks:
        return [], 0
    problem = make_problem(blocks)
    offsets = np.zeros(problem.blocks, np.int64)
    step_ns = int(problem.times[-1] - problem.times[0]) if problem.slices else 1
    whole = (problem.durations >= step_ns) & (problem.alignment == _LARGEST_ALIGNMENT)
    offsets[whole] = np.cumsum(problem.size[whole]) - problem.size[whole]
    base = int(problem.size[whole].sum())
    if not whole.all():
        rest = part_of(problem, ~whole)
        goal = rest.liveness_bound
        offsets[~whole] = base + _lay(rest, goal, goal if capacity_bytes is None else capacity_bytes - base)
    return offsets.tolist(), height_of(problem, offsets)


def _lay(problem: Problem, goal: int, enough: int) -> Ints:
    overlaps = Overlaps(problem)
    tries = max(1, _BLOCKS_LAID // problem.blocks)
    waiting = [(sequence, 0) for sequence in sequences(problem)]
    best, best_height = np.zeros(0, np.int64), -1
    for number in range(tries):
        if not waiting:
            break
        sequence, repairs = waiting.pop(0)
        offsets = first_fit(problem, overlaps, sequence)
        height = height_of(problem, offsets)
        if best_height < 0 or height < best_height:
            best, best_height = offsets, height
        if best_height <= goal or (best_height <= enough and number >= 3):
            break
        if repairs < 3:
            waiting.append((promoted(problem, sequence, offsets, goal), repairs + 1))
    return best


def pack_plan(graph: Graph, plan: Plan, capacity_bytes: int) -> tuple[Plan, int]:
    """The plan with an address for every stay and workspace, and the height they reach.

    A persistent storage at home on the device ends the step where it began, so that the next step finds it there.
    """
    if plan.offsets is not None:
        tops = [o + graph.storages[s.storage].bytes for s, o in zip(plan.stays, plan.offsets, strict=True)]
        tops += [o + graph.ops[plan.order[p]].workspace_bytes for p, o in plan.workspace_offsets]
        return plan, max(tops, default=0)
    groups: dict[tuple[int, int], list[int]] = {}
    for index, stay in enumerate(plan.stays):
        home = plan.homes[stay.storage] == "device" and graph.storages[stay.storage].persistent
        at_boundary = home and (stay.begin == -1 or stay.to_end)
        groups.setdefault((stay.storage, -1 if at_boundary else index), []).append(index)
    members = list(groups.values())
    blocks = [
        _block(graph.storages[plan.stays[m[0]].storage].bytes, tuple(plan.spans_ns[i] for i in m)) for m in members
    ]
    spaces = [
        (position, graph.ops[op].workspace_bytes)
        for position, op in enumerate(plan.order)
        if graph.ops[op].workspace_bytes
    ]
    blocks += [_block(size, (plan.op_spans_ns[position],)) for position, size in spaces]
    found, height = assign_addresses(blocks, capacity_bytes)
    offsets = [0] * len(plan.stays)
    for block_index, indices in enumerate(members):
        for index in indices:
            offsets[index] = found[block_index]
    workspaces = tuple((position, found[len(members) + k]) for k, (position, _) in enumerate(spaces))
    return replace(plan, offsets=tuple(offsets), workspace_offsets=workspaces), height


def _block(size: int, spans: tuple[tuple[int, int], ...]) -> Block:
    return Block(size, spans, alignment_bytes(size))
