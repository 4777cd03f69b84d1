"""Address assignment: an offset for every stay, so that stays alive at once never share a byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hyperoffload_core.ir import Graph
from hyperoffload_core.packing.laying import lay
from hyperoffload_core.packing.problem import Block, height_of, make_problem, part_of
from hyperoffload_core.passes.plan import Plan

_LARGEST_ALIGNMENT = 64


def alignment_bytes(size: int) -> int:
    """Alignment of a block: the largest power of two that divides its size, at most 64 (a cache line).

    Tied to the size so that blocks sorted by alignment lie without padding between them.
    """
    lowest = size & -size
    return lowest if lowest < _LARGEST_ALIGNMENT else _LARGEST_ALIGNMENT


def assign_addresses(
    blocks: Sequence[Block], capacity_bytes: int | None = None, *, hurried: bool = False
) -> tuple[list[int], int]:
    """Offsets of the blocks and the height they reach.

    Blocks that exist all the time lie at the bottom, the others as `packing.laying.lay` finds places for them. It ends
    as soon as the height is the most that is alive at once or within the capacity. How much is tried (less if
    ``hurried``) depends on the blocks only, so that the result does not depend on the machine.
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
        enough = rest.liveness_bound if capacity_bytes is None else max(rest.liveness_bound, capacity_bytes - base)
        offsets[~whole] = base + lay(rest, enough, hurried=hurried)
    return offsets.tolist(), height_of(problem, offsets)


def pack_plan(graph: Graph, plan: Plan, capacity_bytes: int, *, hurried: bool = False) -> tuple[Plan, int]:
    """The plan with an address for every stay and workspace, and the height they reach.

    A persistent storage at home on the device ends the step where it began, so that the next step finds it there.
    """
    if plan.offsets is not None:
        tops = [o + graph.storages[s.storage].bytes for s, o in zip(plan.stays, plan.offsets, strict=True)]
        tops += [o + graph.ops[plan.order[p]].workspace_bytes for p, o in plan.workspace_offsets]
        return plan, max(tops, default=0)
    parts = blocks_of_plan(graph, plan)
    found, height = assign_addresses(parts.blocks, capacity_bytes, hurried=hurried)
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
