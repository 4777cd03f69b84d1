"""A schedule played with random durations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate


def simulate_random(schedule: Schedule, rng: np.random.Generator, spread: float = 4.0) -> Profile:
    """Every op and transfer takes its time multiplied by a random factor in [1/spread, spread]."""

    def changed(planned: ArrayLike) -> NDArray[np.int64]:
        base = np.asarray(planned, dtype=np.float64)
        factor = np.exp(rng.uniform(-np.log(spread), np.log(spread), size=base.shape))
        return np.maximum(1, np.rint(base * factor)).astype(np.int64)

    return simulate(
        schedule,
        op_ns=changed(schedule.durations_ns),
        transfer_ns=changed([t.end_ns - t.start_ns for t in schedule.transfers]),
        conditions=f"predicted on {schedule.hardware.title} with random durations (factor up to {spread:g})",
    )
