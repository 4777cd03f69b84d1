"""Numbers of a measured step, derived from its events."""

from __future__ import annotations

import numpy as np

from hyperoffload_core.metrics import exposed_ns
from hyperoffload_core.recording import Column, OpEvents, StepNumbers, StorageLifetimes, TransferEvents


def step_numbers(
    steps: Column,
    step_ns: Column,
    blocking_ns: Column,
    ops: OpEvents,
    transfers: TransferEvents,
    lifetimes: StorageLifetimes,
) -> StepNumbers:
    """One row per step of ``steps``.

    ``compute_ns`` is the time the compute stream was busy, copies of results into the arena included. ``peak_bytes``
    is `used_peak_bytes`: all device memory the step needed, fragmentation included.
    """
    rows = []
    for step, duration_ns, waited_ns in zip(steps, step_ns, blocking_ns, strict=True):
        op, transfer, stay = ops.step == step, transfers.step == step, lifetimes.step == step
        op_start, op_end = ops.start_ns[op], ops.end_ns[op]
        size, into_device = transfers.bytes[transfer], transfers.direction[transfer] == 1
        rows.append(
            (
                duration_ns,
                (op_end - op_start).sum(),
                exposed_ns(op_start, op_end, transfers.start_ns[transfer], transfers.end_ns[transfer]),
                waited_ns,
                used_peak_bytes(lifetimes.offset[stay], lifetimes.bytes[stay], lifetimes.end_ns[stay]),
                size[~into_device].sum(),
                size[into_device].sum(),
            )
        )
    table = np.array(rows, np.int64).reshape(-1, 7)
    return StepNumbers(*(np.ascontiguousarray(table[:, column]) for column in range(7)))


def used_peak_bytes(offset: Column, size: Column, end_ns: Column) -> int:
    """Highest arena byte held by a stay that really was: the smallest device memory the step could have run in.

    This, not the sum of live bytes, is what a device must have: addresses are fixed by the plan, so an arena one byte
    smaller could not run the step. Only recorded stays count, and the arena has exactly the planned size with every
    access checked to lie inside it, so it equals ``reserved_bytes`` (less the workspace, which MindSpore's CPU kernels
    allocate themselves) exactly when every planned stay happened. The live peak of the same events is
    ``hyperoffload_core.metrics.peak_bytes`` of the lifetimes; under real timing it may differ from the planned one, as
    a Store ends earlier or later than predicted, but it cannot pass the reserved bytes.
    """
    return int((offset + size)[end_ns > 0].max(initial=0))
