"""Whether a schedule fits a cell's graph, and what of it can move there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hyperoffload_core.capture.roles import all_parameters
from hyperoffload_core.errors import UserError
from hyperoffload_core.ir import Graph
from hyperoffload_core.mindspore_plugin.insertion import tensor_roots
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph
from hyperoffload_core.schedule import Schedule

PAGE_BYTES = 4096
CONSTANT = "a constant of the graph, which MindSpore keeps"
# Ops that MindSpore 2.10 on CPU computes in float16 itself. The others it computes in float32, and hands that on, not
# rounded, to what computes in float32 too; a copy in float16 would round it.
FLOAT16_PRIMITIVES = frozenset(
    (
        "Add",
        "AddN",
        "BroadcastTo",
        "Cast",
        "Concat",
        "Div",
        "Maximum",
        "Mul",
        "Neg",
        "ReLU",
        "Select",
        "Split",
        "Stack",
        "Sub",
        "Tile",
        "Transpose",
    )
)


class AttachError(UserError):
    """A cell and a schedule that do not go together, or a step that failed; one sentence says why."""


def refuse_other_graph(live: Graph, scheduled: Graph) -> None:
    """Raise `AttachError` naming the first difference between the cell's graph and the one of the schedule.

    Names and scopes may differ: MindSpore's depend on what else it has compiled of the same cells before.
    """
    if live.hash == scheduled.hash:
        return
    again = "compile the schedule again for this model and these inputs"
    for ours, theirs in zip(live.ops, scheduled.ops, strict=False):
        if ours.primitive != theirs.primitive:
            raise AttachError(f"the cell's op {ours.id} is {ours.name}, the schedule's is {theirs.name}; {again}")
    if len(live.ops) != len(scheduled.ops):
        raise AttachError(f"the cell has {len(live.ops)} ops, the schedule {len(scheduled.ops)}; {again}")
    for mine, other in zip(live.storages, scheduled.storages, strict=False):
        if (mine.shape, mine.dtype, mine.bytes) != (other.shape, other.dtype, other.bytes):
            raise AttachError(
                f"{mine.name} is {mine.dtype}{list(mine.shape)} in the cell, {other.dtype}{list(other.shape)} in the "
                f"schedule; {again}"
            )
    for ours, theirs in zip(live.ops, scheduled.ops, strict=True):
        if (ours.reads, ours.writes, ours.after) != (theirs.reads, theirs.writes, theirs.after):
            raise AttachError(f"{ours.name} takes other tensors in the cell than in the schedule; {again}")
    if [s.persistent for s in live.storages] != [s.persistent for s in scheduled.storages]:
        raise AttachError(f"the cell has other parameters than the schedule; {again}")


def moved_storages(schedule: Schedule) -> list[int]:
    """The storages that a schedule moves, ascending."""
    return sorted({t.storage for t in schedule.transfers})


def why_fixed(live: LiveGraph, graph: Graph, number: int, roots: Mapping[int, str]) -> str | None:
    """Why nothing put into the graph can move a storage, on any target; None where something can."""
    storage = graph.storages[number]
    if storage.persistent:
        return None if number in live.parameters else CONSTANT
    if storage.tensor_class == "input":
        return "an input, which the caller holds"
    return None if number in roots else "no single op of the graph gives it as a whole"


def fixed_on_cpu(
    live: LiveGraph, graph: Graph, roots: Mapping[int, str], parameters: Collection[str]
) -> dict[int, str]:
    """The storages that stay on the device in graph mode on CPU, whatever a schedule says, and why."""
    reasons = {
        s.id: why_fixed(live, graph, s.id, roots) or _why_fixed_on_cpu(live, graph, s.id, parameters)
        for s in graph.storages
    }
    return {number: reason for number, reason in reasons.items() if reason is not None}


def fixed_storages(live: LiveGraph, cell: Any) -> dict[int, str]:
    """What of a cell cannot move in graph mode on CPU, and why: what a schedule for it had better keep."""
    return fixed_on_cpu(live, live.graph, tensor_roots(live, live.graph), all_parameters(cell))


def movable_storages(
    live: LiveGraph, schedule: Schedule, roots: Mapping[int, str], parameters: Collection[str]
) -> tuple[set[int], dict[str, str]]:
    """The storages that can move in graph mode on CPU, and why each other one that the schedule moves cannot.

    ``parameters`` are names of those that the cell has.
    """
    movable, stays = set(), {}
    fixed = fixed_on_cpu(live, schedule.graph, roots, parameters)
    for number in moved_storages(schedule):
        reason = fixed.get(number)
        if reason is None and schedule.graph.storages[number].tensor_class == "output":
            reason = "a result, which the caller gets" if schedule.homes[number] == "pool" else None
        if reason is None:
            movable.add(number)
        else:
            stays[schedule.graph.storages[number].name] = reason
    return movable, stays


def _why_fixed_on_cpu(live: LiveGraph, graph: Graph, number: int, parameters: Collection[str]) -> str | None:
    storage = graph.storages[number]
    if storage.persistent:
        if live.parameters[number] not in parameters:
            return CONSTANT
        return f"smaller than a page of memory ({PAGE_BYTES} bytes)" if storage.bytes < PAGE_BYTES else None
    if storage.dtype in ("float16", "bfloat16") and not _writers(graph, number) <= FLOAT16_PRIMITIVES:
        return "MindSpore on CPU computes it in float32, which a 16-bit copy would round"
    return None


def _writers(graph: Graph, storage: int) -> set[str]:
    return {graph.ops[a.op].primitive for a in graph.accesses[storage] if a.writes}
