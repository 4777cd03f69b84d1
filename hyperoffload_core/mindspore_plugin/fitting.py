"""Whether a schedule fits a cell's graph, and what of it can move there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperoffload_core.errors import UserError
from hyperoffload_core.ir import Graph
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph
from hyperoffload_core.schedule import Schedule

PAGE_BYTES = 4096
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


def movable_storages(
    live: LiveGraph, schedule: Schedule, roots: Mapping[int, str], parameters: Mapping[str, Any]
) -> tuple[set[int], dict[str, str]]:
    """The storages that can move in graph mode, and why each other one that the schedule moves cannot."""
    movable, stays = set(), {}
    for number in sorted({t.storage for t in schedule.transfers}):
        storage = schedule.graph.storages[number]
        if storage.persistent:
            name = live.parameters.get(number)
            if name is None or name not in parameters:
                stays[storage.name] = "a constant of the graph, which MindSpore keeps"
            elif storage.bytes < PAGE_BYTES:
                stays[storage.name] = f"smaller than a page of memory ({PAGE_BYTES} bytes)"
            else:
                movable.add(number)
        elif storage.tensor_class == "input":
            stays[storage.name] = "an input, which the caller holds"
        elif storage.tensor_class == "output" and schedule.homes[number] == "pool":
            stays[storage.name] = "a result, which the caller gets"
        elif number not in roots:
            stays[storage.name] = "no single op of the graph gives it as a whole"
        elif storage.dtype in ("float16", "bfloat16") and not _writers(live.graph, number) <= FLOAT16_PRIMITIVES:
            stays[storage.name] = "MindSpore on CPU computes it in float32, which a 16-bit copy would round"
        else:
            movable.add(number)
    return movable, stays


def _writers(graph: Graph, storage: int) -> set[str]:
    return {graph.ops[a.op].primitive for a in graph.accesses[storage] if a.writes}
