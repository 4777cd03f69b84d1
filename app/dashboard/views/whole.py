"""The steps of a run one by one: what each took, and which of them a person may want to open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperoffload_core.recording import StepNumbers
from hyperoffload_core.sizes import format_bytes, format_ns

MOST_STEPS = 200
"""Rows of the list; of more steps the slowest are shown."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """``step`` counts from 0; ``mark`` says what is special about it, mostly nothing."""

    step: int
    time: str
    blocking: str
    exposed: str
    peak: str
    mark: str


def step_rows(steps: StepNumbers, median: int) -> tuple[list[StepRow], str]:
    """The steps in their order, and a sentence where not all are there."""
    times = steps.step_ns
    slowest, fastest, fullest = (int(found) for found in (times.argmax(), times.argmin(), steps.peak_bytes.argmax()))
    kept = np.sort(np.argsort(-times, kind="stable")[:MOST_STEPS]).tolist()
    rows = []
    for step in kept:
        marks = [
            word
            for word, at in (("median", median), ("slowest", slowest), ("fastest", fastest), ("highest peak", fullest))
            if at == step
        ]
        rows.append(
            StepRow(
                step,
                format_ns(int(times[step])),
                format_ns(int(steps.blocking_ns[step])),
                format_ns(int(steps.exposed_ns[step])),
                format_bytes(int(steps.peak_bytes[step])),
                ", ".join(marks),
            )
        )
    more = f"The {MOST_STEPS} slowest of {len(times):,} steps." if len(times) > MOST_STEPS else ""
    return rows, more
