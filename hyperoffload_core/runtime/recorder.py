"""The recorder: preallocated columns the executor stamps, and the measured profile made of them.

While a step runs, the recorder costs a few clock reads and integer stores per op; everything else is derived later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Column, OpEvents, Profile, StorageLifetimes, TransferEvents
from hyperoffload_core.runtime.numbers import step_numbers
from hyperoffload_core.runtime.stays import Stays, stays_of
from hyperoffload_core.schedule import Schedule

# Columns of an op's row: when it could have started but for transfers, start, kernel and copy ended, copy time.
READY, START, END, COPY = range(4)
OP_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class StepRows:
    """Where one step's stamps go (perf_counter_ns): ``ops`` by position in the order, four columns each."""

    ops: memoryview
    transfers: NDArray[np.int64]


class Recorder:
    """Room for ``steps`` steps of one schedule; ``recorded`` counts those that were finished."""

    def __init__(self, schedule: Schedule, steps: int) -> None:
        self.schedule = schedule
        self.recorded = 0
        self.losses: list[float] = []
        self._stays = stays_of(schedule)
        # full() rather than zeros(): it touches every page, so that no page fault falls into a recorded step.
        self._ops = np.full((steps, len(schedule.order), OP_COLUMNS), 0, np.int64)
        self._transfers = np.full((steps, len(schedule.transfers), 2), 0, np.int64)
        self._bounds = np.zeros((steps, 2), np.int64)

    @property
    def full(self) -> bool:
        return self.recorded == len(self._bounds)

    def rows(self) -> StepRows:
        """Where the next step is stamped; a step that is not `finish`-ed is stamped over."""
        step = self.recorded
        return StepRows(memoryview(self._ops[step].reshape(-1)), self._transfers[step])

    def finish(self, start_ns: int, end_ns: int, loss: float | None) -> None:
        """The step just stamped ran from ``start_ns`` to ``end_ns``."""
        self._bounds[self.recorded] = start_ns, end_ns
        if loss is not None:
            self.losses.append(loss)
        self.recorded += 1

    def profile(self, conditions: str, first: int = 0, stop: int | None = None) -> Profile:
        """The recorded steps from ``first`` up to ``stop``, numbered as recorded; times from each step's start."""
        steps = np.arange(first, self.recorded if stop is None else min(stop, self.recorded))
        schedule, starts = self.schedule, self._bounds[steps, 0]
        ops = self._ops[steps] - starts[:, None, None]
        ops[:, :, COPY] += starts[:, None]
        transfers = self._transfers[steps] - starts[:, None, None]
        step_ns = self._bounds[steps, 1] - starts
        op_events = OpEvents(
            step=np.repeat(steps, ops.shape[1]),
            op=np.tile(_column(schedule.order), len(steps)),
            start_ns=ops[:, :, START].reshape(-1),
            end_ns=ops[:, :, END].reshape(-1),
            copy_ns=ops[:, :, COPY].reshape(-1),
        )
        planned = schedule.transfers
        transfer_events = TransferEvents(
            step=np.repeat(steps, len(planned)),
            transfer=np.tile(_column([t.id for t in planned]), len(steps)),
            storage=np.tile(_column([t.storage for t in planned]), len(steps)),
            direction=np.tile(_column([int(t.kind == "prefetch") for t in planned]), len(steps)),
            bytes=np.tile(_column([t.bytes for t in planned]), len(steps)),
            start_ns=transfers[:, :, 0].reshape(-1),
            end_ns=transfers[:, :, 1].reshape(-1),
        )
        lifetimes = _lifetimes(schedule, self._stays, steps, ops, transfers, step_ns)
        waited_ns = (ops[:, :, START] - ops[:, :, READY]).sum(axis=1) + step_ns - ops[:, :, END].max(axis=1, initial=0)
        return Profile(
            kind="measured",
            schedule=schedule,
            conditions=conditions,
            ops=op_events,
            transfers=transfer_events,
            lifetimes=lifetimes,
            steps=step_numbers(steps, step_ns, waited_ns, op_events, transfer_events, lifetimes),
            losses=tuple(self.losses[first : first + len(steps)]),
        )


def _column(values: Sequence[int]) -> Column:
    return np.array(values, np.int64)


def _lifetimes(
    schedule: Schedule, stays: Stays, steps: Column, ops: Column, transfers: Column, step_ns: Column
) -> StorageLifetimes:
    """Stays as they really were: each begins and ends with its events' measured times.

    ``ops`` is (steps, ops, 4) in order of position, ``transfers`` (steps, transfers, 2), both from the step's start.
    """
    op_row = {op: row for row, op in enumerate(schedule.order)}
    transfer_row = {t.id: len(op_row) + row for row, t in enumerate(schedule.transfers)}
    step_row = len(op_row) + len(transfer_row)
    zero = np.zeros((len(steps), 1), np.int64)
    starts = np.concatenate([ops[:, :, START], transfers[:, :, 0], zero], axis=1)
    ends = np.concatenate([ops[:, :, END], transfers[:, :, 1], step_ns[:, None], zero], axis=1)
    first = [
        {"op": op_row, "transfer": transfer_row, "step": {-1: step_row}}[s.begins_with][s.first] for s in stays.stays
    ]
    rows: list[int] = []
    heads: list[int] = []
    for stay in stays.stays:
        heads.append(len(rows))
        rows.append(step_row if stay.to_end else step_row + 1)
        rows.extend(op_row[op] for op in stay.ops)
        rows.extend(transfer_row[transfer] for transfer in stay.transfers)
    end_ns = np.maximum.reduceat(ends[:, rows], heads, axis=1) if heads else ends[:, :0]
    return StorageLifetimes(
        step=np.repeat(steps, len(heads)),
        storage=np.tile(_column([s.residency.storage for s in stays.stays]), len(steps)),
        offset=np.tile(_column([s.residency.offset for s in stays.stays]), len(steps)),
        bytes=np.tile(_column([s.bytes for s in stays.stays]), len(steps)),
        start_ns=starts[:, first].reshape(-1),
        end_ns=end_ns.reshape(-1),
    )
