"""Database rates: recording, windows, whole profiles, and what the exports cost. Run: python bench/database.py [STEPS]

Uses a made-up profile of 5,000 ops, 5,000 stays and 1,000 transfers a step; 100 steps are 1.1 million events. Prints
one JSON object; times are medians in milliseconds unless named otherwise.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from db.database import open_database
from db.queries import lifetimes_window, list_runs, load_profile, ops_window, transfers_window
from db.recordings import RunDescription, append_profile, finish_run, start_run
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph, Op, Storage
from hyperoffload_core.recording import OpEvents, Profile, StepNumbers, StorageLifetimes, TransferEvents
from hyperoffload_core.schedule import Metrics, OpTime, Residency, Schedule, Transfer
from profiles.chrome_trace import trace_bytes
from profiles.compare import compare
from profiles.comparison import LabelledProfile
from profiles.report import report_html
from profiles.series import downsample, memory_curve

OPS, TRANSFERS, OP_NS = 5_000, 1_000, 10_000


def made_up_schedule() -> Schedule:
    """A chain of ops; every tenth activation leaves at once and comes back 400 ops later."""
    storages = tuple(Storage(i, f"a{i}", 1 << 20, "activation") for i in range(OPS))
    ops = tuple(
        Op(
            i,
            f"op{i}",
            "MatMul",
            f"Default/blocks-CellList/{i // 100}-Block",
            "forward",
            (i - 1,) if i else (),
            (i,),
            (),
        )
        for i in range(OPS)
    )
    moved = range(0, 10 * (TRANSFERS // 2), 10)
    transfers = []
    for n, storage in enumerate(moved):
        out, back = (storage + 1) * OP_NS, (storage + 401) * OP_NS
        transfers.append(Transfer(2 * n, "store", storage, 1 << 20, out, out + 9 * OP_NS))
        transfers.append(Transfer(2 * n + 1, "prefetch", storage, 1 << 20, back, back + 9 * OP_NS))
    end = (OPS + 410) * OP_NS
    return Schedule(
        graph=Graph("bench", ops, storages),
        durations_ns=(OP_NS,) * OPS,
        duration_source="made up",
        hardware=Hardware("bench", "made up", 1 << 36, Link(10**10, 0), Link(10**10, 0), "full"),
        policy={},
        strategy="hyperoffload",
        memory_limit_bytes=1 << 36,
        order=tuple(range(OPS)),
        op_times=tuple(OpTime(i, i * OP_NS, (i + 1) * OP_NS) for i in range(OPS)),
        transfers=tuple(transfers),
        residencies=tuple(Residency(i, i << 20, i * OP_NS, min((i + 800) * OP_NS, end)) for i in range(OPS)),
        homes=("device",) * OPS,
        metrics=Metrics(end, OPS * OP_NS, 800 << 20, OPS << 20, 0, 0, 0, end - OPS * OP_NS, OPS * OP_NS),
    )


def made_up_profile(schedule: Schedule, steps: int) -> Profile:
    """``steps`` equal steps."""

    def tiled(values: list[int]) -> Any:
        return np.tile(np.array(values, dtype=np.int64), steps)

    def step_of(count: int) -> Any:
        return np.repeat(np.arange(steps, dtype=np.int64), count)

    ops, moves, stays, one = schedule.op_times, schedule.transfers, schedule.residencies, np.ones(steps, dtype=np.int64)
    starts, ends = tiled([t.start_ns for t in ops]), tiled([t.end_ns for t in ops])
    m = schedule.metrics
    return Profile(
        kind="measured",
        schedule=schedule,
        conditions="made up",
        ops=OpEvents(step_of(len(ops)), tiled([t.op for t in ops]), starts, ends, np.zeros_like(starts)),
        transfers=TransferEvents(
            step_of(len(moves)),
            tiled([t.id for t in moves]),
            tiled([t.storage for t in moves]),
            tiled([int(t.kind == "prefetch") for t in moves]),
            tiled([t.bytes for t in moves]),
            tiled([t.start_ns for t in moves]),
            tiled([t.end_ns for t in moves]),
        ),
        lifetimes=StorageLifetimes(
            step_of(len(stays)),
            tiled([r.storage for r in stays]),
            tiled([r.offset for r in stays]),
            tiled([1 << 20 for _ in stays]),
            tiled([r.start_ns for r in stays]),
            tiled([r.end_ns for r in stays]),
        ),
        steps=StepNumbers(*(one * v for v in (m.step_ns, m.compute_ns, 0, m.blocking_ns, m.peak_live_bytes, 0, 0))),
    )


def median_ms(action: Callable[[], Any], times: int = 21) -> float:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        taken.append((time.perf_counter() - begin) * 1000)
    return round(statistics.median(taken), 2)


def main(steps: int) -> dict[str, Any]:
    schedule = made_up_schedule()
    profile, ten = made_up_profile(schedule, 10), steps // 10
    events = ten * (len(profile.ops.op) + len(profile.transfers.step) + len(profile.lifetimes.step))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        create = median_ms(lambda: open_database(Path(folder) / f"{time.perf_counter_ns()}.db").close(), 3)
        database = open_database(path)
        begin = time.perf_counter()
        run = start_run(database, RunDescription("measured", schedule, "bench"))
        start_ms = (time.perf_counter() - begin) * 1000
        begin = time.perf_counter()
        for _ in range(ten):
            append_profile(database, run, profile)
        append_s = time.perf_counter() - begin
        finish_run(database, run)
        step, length = steps // 2, schedule.metrics.step_ns // 1000
        middle = schedule.metrics.step_ns // 2
        one = load_profile(database, run, step)
        curve = memory_curve(load_profile(database, run, 0))
        pair = [LabelledProfile("a", one), LabelledProfile("b", one)]
        return {
            "machine": f"{platform.processor() or platform.machine()}, {platform.python_version()}",
            "events": events,
            "events_per_s": round(events / append_s),
            "database_bytes_per_event": round(path.stat().st_size / events, 1),
            "start_run_with_new_schedule_ms": round(start_ms, 1),
            "create_database_ms": create,
            "open_database_ms": median_ms(lambda: open_database(path).close()),
            "ops_window_of_a_thousandth_ms": median_ms(
                lambda: ops_window(database, run, step, middle, middle + length)
            ),
            "transfers_window_of_a_thousandth_ms": median_ms(
                lambda: transfers_window(database, run, step, middle, middle + length)
            ),
            "lifetimes_window_of_a_thousandth_ms": median_ms(
                lambda: lifetimes_window(database, run, step, middle, middle + length)
            ),
            "ops_window_of_a_whole_step_ms": median_ms(
                lambda: ops_window(database, run, step, 0, schedule.metrics.step_ns)
            ),
            "list_runs_ms": median_ms(lambda: list_runs(database)),
            "load_one_step_ms": median_ms(lambda: load_profile(database, run, step), 5),
            "load_everything_ms": median_ms(lambda: load_profile(database, run), 1),
            "memory_curve_ms": median_ms(lambda: memory_curve(one), 5),
            "downsample_to_1200_bins_ms": median_ms(lambda: downsample(curve, 1200), 5),
            "compare_two_steps_ms": median_ms(lambda: compare(pair), 3),
            "report_html_ms": median_ms(lambda: report_html(compare(pair), pair), 3),
            "report_html_bytes": len(report_html(compare(pair), pair).encode()),
            "chrome_trace_of_a_step_ms": median_ms(lambda: trace_bytes(one, "a"), 3),
        }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100), indent=1))
