"""Profile: a timeline of one step or several, predicted by the simulator or measured by the executor.

Columns are int64 numpy arrays of equal length. Times are nanoseconds from the start of the step they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.schedule import Schedule

Column = NDArray[np.int64]
ProfileKind = Literal["predicted", "measured"]
# The `StorageLifetimes.offset` of a stay whose address nobody told.
UNKNOWN_ADDRESS = -1


@dataclass(frozen=True)
class OpEvents:
    """One row per executed op. ``copy_ns`` is the part spent copying outputs into the arena (0 when predicted)."""

    step: Column
    op: Column
    start_ns: Column
    end_ns: Column
    copy_ns: Column


@dataclass(frozen=True)
class TransferEvents:
    """One row per transfer. ``direction`` 0 is out (Store), 1 is in (Prefetch). ``transfer`` is the schedule's id."""

    step: Column
    transfer: Column
    storage: Column
    direction: Column
    bytes: Column
    start_ns: Column
    end_ns: Column


@dataclass(frozen=True)
class StorageLifetimes:
    """One row per stay of a storage on the device: reserved at ``start_ns``, given back at ``end_ns``.

    ``offset`` is its address, or `UNKNOWN_ADDRESS` where MindSpore chose it (graph mode)."""

    step: Column
    storage: Column
    offset: Column
    bytes: Column
    start_ns: Column
    end_ns: Column


@dataclass(frozen=True)
class StepNumbers:
    """One row per step."""

    step_ns: Column
    compute_ns: Column
    exposed_ns: Column
    blocking_ns: Column
    peak_bytes: Column
    bytes_out: Column
    bytes_in: Column


@dataclass(frozen=True)
class Profile:
    """``conditions`` says on what hardware and under which assumptions, in words a person reads beside the numbers.

    ``losses`` holds the step results of a training graph (first graph output, one per measured step), else empty.
    """

    kind: ProfileKind
    schedule: Schedule
    conditions: str
    ops: OpEvents
    transfers: TransferEvents
    lifetimes: StorageLifetimes
    steps: StepNumbers
    losses: tuple[float, ...] = ()

    @property
    def step_count(self) -> int:
        return len(self.steps.step_ns)

    @property
    def median_step(self) -> int:
        """Index of the step whose duration is the (lower) median: the one shown where one step is shown."""
        order = np.argsort(self.steps.step_ns, kind="stable")
        return int(order[(len(order) - 1) // 2])
