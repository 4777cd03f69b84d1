"""What the kernels recorded of steps in MindSpore's graph mode, as the profile that the op-by-op executor gives too.

Everything runs in one thread in the chain's order, so an op ran from the end of the last event before it to its mark;
that holds the time in which MindSpore starts it, and what it does that is no op of ours (copies of parameters it reads
and updates). What graph mode does not tell is left out: addresses (`UNKNOWN_ADDRESS`), workspaces, copies of results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.capture import views
from hyperoffload_core.ir import Graph, storages_of
from hyperoffload_core.metrics import exposed_ns, peak_bytes
from hyperoffload_core.mindspore_plugin.chain import Chain, Done, Move, RunOp, Start
from hyperoffload_core.mindspore_plugin.kernels import EVENT_KINDS
from hyperoffload_core.recording import (
    UNKNOWN_ADDRESS,
    Column,
    OpEvents,
    Profile,
    StepNumbers,
    StorageLifetimes,
    TransferEvents,
)
from hyperoffload_core.schedule import Schedule, Transfer

_BEGIN, _END, _MARK, _DONE = (EVENT_KINDS.index(name) for name in ("begin", "end", "mark", "done"))
_MOVES = tuple(EVENT_KINDS.index(name) for name in ("store", "prefetch", "detach"))


def recorded_profile(
    schedule: Schedule, chain: Chain, events: NDArray[np.void], conditions: str, losses: Sequence[float] = ()
) -> Profile:
    """The measured profile of the whole steps among ``events`` (`kernels.EVENT`, with marks), numbered from 0.

    ``chain`` is what was run of the schedule. Moves it lacks have no event: their storages stay on the device, and
    count there. The parts of a split transfer are copied as one, so each has the times of that copy. An op that
    MindSpore's graph does not have takes no time. A step of which events were lost is left out.
    """
    steps = [_Step(schedule, chain, rows) for rows in _whole_steps(events)]
    return Profile(
        kind="measured",
        schedule=schedule,
        conditions=conditions,
        ops=OpEvents(*_columns([step.op_rows() for step in steps], 4)),
        transfers=TransferEvents(*_columns([step.transfer_rows() for step in steps], 6)),
        lifetimes=StorageLifetimes(*_columns([step.lifetime_rows() for step in steps], 5)),
        steps=StepNumbers(*_columns([[step.numbers()] for step in steps], 7)[1:]),
        losses=tuple(losses),
    )


def _whole_steps(events: NDArray[np.void]) -> list[NDArray[np.void]]:
    """Events of each step that has both its ends."""
    result = []
    for step in np.unique(events["step"]):
        rows = events[events["step"] == step]
        if (rows["kind"] == _BEGIN).any() and (rows["kind"] == _END).any():
            result.append(rows)
    return result


def _columns(rows_of_steps: Sequence[Sequence[tuple[int, ...]]], width: int) -> list[Column]:
    """Columns of rows; the first is the step."""
    rows = [(step, *row) for step, rows in enumerate(rows_of_steps) for row in rows]
    table = np.array(rows, np.int64).reshape(-1, width + 1)
    return [np.ascontiguousarray(table[:, column]) for column in range(width + 1)]


@dataclass(slots=True)
class _Stay:
    start_ns: int
    end_ns: int


@dataclass
class _Step:
    """One step's events, times from its begin."""

    schedule: Schedule
    chain: Chain
    events: NDArray[np.void]
    ops: list[tuple[int, int, int]] = field(init=False)
    step_ns: int = field(init=False)

    def __post_init__(self) -> None:
        rows = self.events
        begin_ns = int(rows["start_ns"][rows["kind"] == _BEGIN][0])
        self.step_ns = int(rows["end_ns"][rows["kind"] == _END][0]) - begin_ns
        at = {
            (kind, index): (issued - begin_ns, start - begin_ns, end - begin_ns)
            for kind, index, issued, start, end in zip(
                *(rows[name].tolist() for name in ("kind", "index", "issued_ns", "start_ns", "end_ns")), strict=True
            )
        }
        self.copies = {index: times for (kind, index), times in at.items() if kind in _MOVES}
        self.waited = {index: times[2] for (kind, index), times in at.items() if kind == _DONE}
        self.marks = {index: times[2] for (kind, index), times in at.items() if kind == _MARK}
        moves = np.isin(rows["kind"], _MOVES)
        # When the chain was at some place: a copy's start holds it up for a moment only, its end does not.
        stamps = np.where(moves, rows["issued_ns"], rows["end_ns"])[rows["kind"] != _END] - begin_ns
        self.ops = _op_times(self.schedule, self.marks, np.sort(stamps))

    def op_rows(self) -> list[tuple[int, ...]]:
        return [(op, start, end, 0) for op, start, end in self.ops]

    def transfer_rows(self) -> list[tuple[int, ...]]:
        rows: list[tuple[int, ...]] = []
        for move, parts in moves_of(self.schedule, self.chain):
            if move in self.copies:
                _, start, end = self.copies[move]
                rows += [(t.id, t.storage, int(t.kind == "prefetch"), t.bytes, start, end) for t in parts]
        return rows

    def lifetime_rows(self) -> list[tuple[int, ...]]:
        return [
            (storage, UNKNOWN_ADDRESS, self.schedule.graph.storages[storage].bytes, stay.start_ns, stay.end_ns)
            for storage, stays in sorted(self._stays().items())
            for stay in stays
            if stay.end_ns > stay.start_ns
        ]

    def numbers(self) -> tuple[int, ...]:
        """As `StepNumbers`; what is not compute is blocking, and memory is counted in live bytes."""
        op_start, op_end = [row[1] for row in self.ops], [row[2] for row in self.ops]
        transfers, lives = self.transfer_rows(), self.lifetime_rows()
        compute_ns = sum(op_end) - sum(op_start)
        return (
            self.step_ns,
            compute_ns,
            exposed_ns(op_start, op_end, [t[4] for t in transfers], [t[5] for t in transfers]),
            self.step_ns - compute_ns,
            peak_bytes([row[3] for row in lives], [row[4] for row in lives], [row[2] for row in lives]),
            sum(t[3] for t in transfers if t[2] == 0),
            sum(t[3] for t in transfers if t[2] == 1),
        )

    def _stays(self) -> dict[int, list[_Stay]]:
        graph = self.schedule.graph
        times = {op: (start, end) for op, start, end in self.ops}
        touched = _touched(graph, frozenset(times) - frozenset(self.marks))
        memory = _Memory(self.schedule, {move.storage for move in self.chain.moves}, self.step_ns)
        for item in self.chain.items:
            match item:
                case RunOp(op):
                    for storage in touched[op]:
                        memory.use(storage, *times[op])
                case Start(move) if move.index in self.copies:
                    memory.start(move, *self.copies[move.index])
                case Done(move) if move.index in self.waited:
                    memory.done(move, self.waited[move.index])
        return memory.stays_at_end()


class _Memory:
    """Stays on the device as the chain's items make and end them, in order.

    A tensor's memory is there from its op, or from when its Prefetch is issued, to its last use. A parameter's is there
    until it is detached, and again from when its copy back begins, or from the op that writes it anew.
    """

    def __init__(self, schedule: Schedule, moved: Set[int], step_ns: int) -> None:
        self.graph, self.step_ns = schedule.graph, step_ns
        self.stays: dict[int, list[_Stay]] = defaultdict(list)
        self.coming: dict[int, _Stay] = {}
        self.away = {s for s in moved if self.graph.exists_at_start(s) and schedule.homes[s] == "pool"}
        for storage in range(len(self.graph.storages)):
            if self.graph.exists_at_start(storage) and storage not in self.away:
                self.stays[storage].append(_Stay(0, step_ns))

    def use(self, storage: int, start_ns: int, end_ns: int) -> None:
        if self.graph.exists_at_start(storage):
            if storage in self.away:
                self._arrives(storage, start_ns)
        elif not self.stays[storage]:
            self.stays[storage].append(_Stay(start_ns, end_ns))
        else:
            self._until(storage, end_ns)

    def start(self, move: Move, issued_ns: int, start_ns: int, end_ns: int) -> None:
        storage = move.storage
        if move.kind == "detach":
            if storage not in self.away:
                self.stays[storage][-1].end_ns = end_ns
                self.away.add(storage)
        elif self.graph.exists_at_start(storage):
            if move.kind == "prefetch" and storage in self.away:
                self._arrives(storage, start_ns)
        elif move.kind == "prefetch":
            self.coming[storage] = _Stay(issued_ns, end_ns)
        else:
            self._until(storage, end_ns)

    def done(self, move: Move, end_ns: int) -> None:
        if self.graph.exists_at_start(move.storage):
            return
        if move.kind == "store":
            self._until(move.storage, end_ns)
        elif move.storage in self.coming:
            self.stays[move.storage].append(self.coming.pop(move.storage))

    def stays_at_end(self) -> dict[int, list[_Stay]]:
        for storage, stay in self.coming.items():
            self.stays[storage].append(stay)
        for storage, stays in self.stays.items():
            if stays and not self.graph.exists_at_start(storage) and self.graph.lives_to_end(storage):
                stays[-1].end_ns = self.step_ns
        return self.stays

    def _arrives(self, storage: int, start_ns: int) -> None:
        self.stays[storage].append(_Stay(start_ns, self.step_ns))
        self.away.discard(storage)

    def _until(self, storage: int, end_ns: int) -> None:
        stay = self.stays[storage][-1]
        stay.end_ns = max(stay.end_ns, end_ns)


def moves_of(schedule: Schedule, chain: Chain) -> list[tuple[int, tuple[Transfer, ...]]]:
    """The index of each Store and Prefetch of a chain with the transfers of the schedule that it does."""
    moved = {move.storage for move in chain.moves}
    return list(enumerate(parts for parts in schedule.moves if parts[0].storage in moved))


def _op_times(schedule: Schedule, marks: Mapping[int, int], stamps: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """(op, start, end) in order. One without a mark has no kernel of its own: no time, where the op before it ends."""
    result, now = [], 0
    for op in schedule.order:
        start = now
        if op in marks:
            now = marks[op]
            start = int(stamps[max(0, int(np.searchsorted(stamps, now)) - 1)])
        result.append((op, min(start, now), now))
    return result


def _touched(graph: Graph, absent: frozenset[int]) -> list[tuple[int, ...]]:
    """Storages whose memory each op uses: those it accesses, and what they only show differently. What only ``absent``
    ops write has no memory of its own."""
    shows: dict[int, set[int]] = defaultdict(set)
    writers: dict[int, set[int]] = defaultdict(set)
    for op in graph.ops:
        for storage in op.writes:
            writers[storage].add(op.id)
        if views.is_view(op.primitive):
            for shown in op.writes:
                shows[shown].update(op.reads, *(shows[base] for base in op.reads))
    nowhere = {storage for storage, ops in writers.items() if ops <= absent and not graph.exists_at_start(storage)}
    return [
        tuple(sorted({*storages_of(op), *(base for s in storages_of(op) for base in shows[s])} - nowhere))
        for op in graph.ops
    ]
