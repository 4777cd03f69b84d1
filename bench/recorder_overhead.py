"""What recording adds to a step: steps with and without the recorder in turn, no offload, nothing else different.

    .venv/bin/python -m bench.recorder_overhead [WORKLOAD] [PAIRS]

Two measures, as a noisy machine moves whole steps by more than the recorder can: the median of the paired differences
with a 95 % interval (bootstrap), and the recorder's own instructions timed in a loop, times the number of ops.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns

import numpy as np

from hyperoffload_core.capture import capture
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.measure import NO_OFFLOAD_POLICY, measure_durations
from hyperoffload_core.runtime.executor import Executor
from hyperoffload_core.runtime.machine import this_machine
from hyperoffload_core.runtime.recorder import OP_COLUMNS, Recorder
from hyperoffload_core.workloads import build_workload


def main(workload_name: str, pairs: int) -> None:
    workload = build_workload(workload_name)
    captured = capture(workload.cell, workload.inputs, name=workload_name)
    batches = [tuple(v.asnumpy() for v in batch) for batch in workload.batches]
    hardware = this_machine(2_000_000_000)
    durations = measure_durations(captured, hardware, batches)
    schedule = compile_schedule(captured.graph, durations, hardware, NO_OFFLOAD_POLICY)
    recorder = Recorder(schedule, pairs)
    step_ns: dict[bool, list[int]] = {True: [], False: []}
    with Executor(captured, schedule) as executor:
        executor.load()
        executor.run_step(batches[0])
        for pair in range(pairs):
            for recorded in (True, False) if pair % 2 else (False, True):
                result = executor.run_step(batches[pair % len(batches)], recorder=recorder if recorded else None)
                step_ns[recorded].append(result.step_ns)
    on, off = np.array(step_ns[True]), np.array(step_ns[False])
    percent = 100 * (on - off) / np.median(off)
    random = np.random.default_rng(0)
    medians = np.median(random.choice(percent, (2000, pairs)), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    print(f"{workload_name}: {len(captured.graph.ops)} ops, step {np.median(off) / 1e6:.2f} ms (median of {pairs})")
    print(
        f"paired difference: median {np.median(percent):+.2f} % of the step, 95 % interval {low:+.2f} to {high:+.2f} %"
    )
    per_op = stamp_ns(len(captured.graph.ops))
    share = 100 * per_op * len(captured.graph.ops) / np.median(off)
    print(f"stamps alone: {per_op:.0f} ns per op = {share:.3f} % of the step")


def stamp_ns(ops: int) -> float:
    """Nanoseconds of the executor's recording statements per op (best of 20 rounds)."""
    rows = memoryview(np.zeros(ops * OP_COLUMNS, np.int64))
    best = float("inf")
    for _ in range(20):
        row = 0
        start = perf_counter_ns()
        for _ in range(ops):
            rows[row] = rows[row + 1] = perf_counter_ns()
            rows[row + 2] = perf_counter_ns()
            rows[row + 3] = 0
            row += OP_COLUMNS
        best = min(best, (perf_counter_ns() - start) / ops)
    return best


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo", int(sys.argv[2]) if len(sys.argv) > 2 else 40)
