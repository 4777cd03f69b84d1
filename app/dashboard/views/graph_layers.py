"""The layers of a graph as boxes, a row a layer and a column a phase, with the bytes that go from one to another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.dashboard.views.step import StepView
from hyperoffload_core.ir import PHASES, TENSOR_CLASSES, Graph
from profiles.alive import layer_of

Column = NDArray[np.int64]
MOST_BOXES = 200
UNNAMED = "no layer"


@dataclass(frozen=True)
class LayerBox:
    """The ops of one layer in one phase. ``bytes_by_class`` counts each storage that they access once."""

    layer: str
    phase: str
    row: int
    column: int
    ops: int
    time_ns: int
    bytes_by_class: dict[str, int]

    @property
    def bytes(self) -> int:
        return sum(self.bytes_by_class.values())


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes that ops of one box write and ops of another read; numbers index the boxes."""

    before: int
    after: int
    bytes: int


@dataclass(frozen=True)
class Layers:
    """Layers in the order of their first op; ``left_out`` of them found no room."""

    boxes: tuple[LayerBox, ...]
    flows: tuple[Flow, ...]
    phases: tuple[str, ...]
    rows: int
    left_out: int


def layer_named(scope: str) -> str:
    """The layer a scope belongs to, with a name also where it has none."""
    return layer_of(scope) or UNNAMED


def layers_of(view: StepView) -> Layers:
    """The layers of the scheduled graph, with the times of this step."""
    graph = view.profile.schedule.graph
    scopes = dict.fromkeys(op.scope for op in graph.ops)
    layer_by_scope = {scope: layer_named(scope) for scope in scopes}
    present = {op.phase for op in graph.ops}
    phases = tuple(phase for phase in PHASES if phase in present)
    order = {layer: n for n, layer in enumerate(dict.fromkeys(layer_by_scope[op.scope] for op in graph.ops))}
    most_rows = max(1, MOST_BOXES // max(1, len(phases)))
    place = {layer: row for layer, row in order.items() if row < most_rows}
    keys: dict[tuple[int, int], int] = {}
    box_of = np.full(len(graph.ops), -1, dtype=np.int64)
    for op in graph.ops:
        row = place.get(layer_by_scope[op.scope])
        if row is not None:
            box_of[op.id] = keys.setdefault((row, phases.index(op.phase)), len(keys))
    names = list(order)
    counts = np.bincount(box_of[box_of >= 0], minlength=len(keys))
    time = _time(view, box_of, len(keys))
    held = _bytes(graph, box_of, len(keys))
    boxes = tuple(
        LayerBox(names[row], phases[column], row, column, int(counts[number]), int(time[number]), held[number])
        for (row, column), number in keys.items()
    )
    boxes = _alone_on_top(boxes)
    rows = 1 + max((box.row for box in boxes), default=-1)
    return Layers(boxes, _flows(graph, box_of, len(keys)), phases, rows, len(order) - len(place))


def _alone_on_top(boxes: tuple[LayerBox, ...]) -> tuple[LayerBox, ...]:
    """A phase of one layer only, as an optimizer is, stands in the first row, where it is seen; rows that nothing is
    left in are closed."""
    columns = [box.column for box in boxes]
    placed = [replace(box, row=0) if columns.count(box.column) == 1 else box for box in boxes]
    row = {old: new for new, old in enumerate(sorted({box.row for box in placed}))}
    return tuple(replace(box, row=row[box.row]) for box in placed)


def _time(view: StepView, box_of: Column, count: int) -> Column:
    lane = view.lanes.compute
    total = np.zeros(count, dtype=np.int64)
    boxes = box_of[lane.item]
    np.add.at(total, boxes[boxes >= 0], (lane.end_ns - lane.start_ns)[boxes >= 0])
    return total


def _bytes(graph: Graph, box_of: Column, count: int) -> list[dict[str, int]]:
    op, storage, _ = graph.access_columns
    box = box_of[op]
    pairs = np.unique(np.column_stack([box, storage])[box >= 0], axis=0)
    size = np.array([s.bytes for s in graph.storages], dtype=np.int64)[pairs[:, 1]]
    kind = np.array([TENSOR_CLASSES.index(s.tensor_class) for s in graph.storages], dtype=np.int64)[pairs[:, 1]]
    total = np.zeros((count, len(TENSOR_CLASSES)), dtype=np.int64)
    np.add.at(total, (pairs[:, 0], kind), size)
    return [{c: int(b) for c, b in zip(TENSOR_CLASSES, row, strict=True) if b} for row in total]


def _flows(graph: Graph, box_of: Column, count: int) -> tuple[Flow, ...]:
    """Each storage counts once between two boxes, however many ops of the second read it."""
    op, storage, writes = graph.access_columns
    order = np.lexsort((op, storage))
    op, storage, writes = op[order], storage[order], writes[order]
    reads = np.ones(len(op), dtype=np.bool_)
    for row in np.flatnonzero(writes).tolist():
        reads[row] = storage[row] in graph.ops[op[row]].reads
    # The latest earlier access that writes, if it is one of the same storage.
    last = np.maximum.accumulate(np.where(writes, np.arange(len(op)), -1))
    writer = np.concatenate([[-1], last[:-1]]) if len(op) else last
    known = reads & (writer >= 0)
    known[known] &= storage[writer[known]] == storage[known]
    before, after = box_of[op[writer[known]]], box_of[op[known]]
    apart = (before != after) & (before >= 0) & (after >= 0)
    rows = np.unique(np.column_stack([before[apart] * count + after[apart], storage[known][apart]]), axis=0)
    size = np.array([s.bytes for s in graph.storages], dtype=np.int64)[rows[:, 1]]
    pairs, place = np.unique(rows[:, 0], return_inverse=True)
    total = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(total, place.ravel(), size)
    return tuple(
        Flow(pair // count, pair % count, held) for pair, held in zip(pairs.tolist(), total.tolist(), strict=True)
    )
