"""MindSpore's own graph mode under our schedules: results, memory of the process and step time, attached and plain.

    .venv/bin/python -m bench.graph_mode [STEPS]

Every row is a fresh interpreter. Memory is the most the process had resident in steps after the sixth, when MindSpore
has settled on how it runs the graph; the pool is a file without a name, so that it does not count. Times are medians of
the same steps. Copies are paced to 1 GB/s each way.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.interface import read_schedule

LINK = "1GB/s"
SETTLED = 6
COLUMNS = (
    "limit",
    "results and parameters",
    "step ms",
    "times plain",
    "every op recorded",
    "op by op ms",
    "process peak MiB",
    "lower by MiB",
    "predicted MiB",
    "share",
    "new nodes",
    "storages that stay",
)
LIMITS = (75, 60, 45)
CASES = (("demo", LIMITS), ("tiny-prefill", (60,)), ("tiny-decode", (75,)))


def main(steps: int) -> None:
    for workload, limits in CASES:
        with tempfile.TemporaryDirectory() as folder:
            print(f"\n### {workload}, {steps} steps\n")
            op_by_op_ms = _child("plan", workload, folder, *map(str, limits))
            plain = _child("plain", workload, folder, str(steps))
            print(
                f"Plain graph mode: {plain['step_ms']:.1f} ms a step, at most {plain['peak_mib']:,.0f} MiB resident. "
                f"The op-by-op executor without offload: {op_by_op_ms['none']:.1f} ms.\n"
            )
            print(f"| {' | '.join(COLUMNS)} |\n|---|---|{'--:|' * (len(COLUMNS) - 2)}")
            for limit in limits:
                ran = _child("attached", workload, folder, str(steps), str(limit))
                schedule = read_schedule(Path(folder) / f"{limit}.json")
                predicted = (live_peak_bytes(schedule.graph.original) - schedule.metrics.peak_live_bytes) / 2**20
                marked = _child("marked", workload, folder, str(steps), str(limit))
                lower = plain["peak_mib"] - ran["peak_mib"]
                same = ran["results"] == plain["results"] and ran["parameters"] == plain["parameters"]
                # Of less than a MiB the process shows nothing.
                share = f"{100 * lower / predicted:.0f} %" if predicted > 1 else "-"
                cells = (
                    f"{limit} %",
                    "bit-identical" if same else "**different**",
                    f"{ran['step_ms']:.1f}",
                    f"{ran['step_ms'] / plain['step_ms']:.3f}",
                    f"{100 * (marked['step_ms'] / ran['step_ms'] - 1):+.1f} %",
                    f"{op_by_op_ms[str(limit)]:.1f}",
                    f"{ran['peak_mib']:,.0f}",
                    f"{lower:.0f}",
                    f"{predicted:.1f}",
                    share,
                    str(ran["new_nodes"]),
                    str(ran["stays"]),
                )
                print(f"| {' | '.join(cells)} |")


def _child(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.graph_mode", *words], check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def plan(workload: str, folder: Path, limits: list[str]) -> dict[str, Any]:
    """Schedules for this machine, from op durations measured here."""
    import hyperoffload_core.interface as ho
    from hyperoffload_core.measure import measure_durations
    from hyperoffload_core.runtime.machine import this_machine
    from hyperoffload_core.sizes import parse_rate
    from hyperoffload_core.workloads import build_workload

    built = build_workload(workload)
    model = ho.capture(built.cell, built.inputs, name=workload)
    batches = (ho.captured_batch(model),)
    durations = measure_durations(model, this_machine(parse_rate(LINK)), batches)
    step_ms: dict[str, float] = {}
    for limit in (*limits, "none"):
        chosen: dict[str, Any] = {"strategy": "none"} if limit == "none" else {"limit": f"{limit}%"}
        schedule = ho.compile(model, link_bandwidth=LINK, durations=durations, **chosen)
        ho.write_schedule(schedule, folder / f"{limit}.json")
        step_ms[limit] = float(np.median(ho.run(model, schedule, steps=5).steps.step_ns)) / 1e6
    return step_ms


def ran(workload: str, steps: int, schedule: Path | None, marks: bool = False) -> dict[str, Any]:
    """Train, or produce, for so many steps in graph mode, with a schedule or plain."""
    from hyperoffload_core.mindspore_plugin import passes

    passes.prepare()
    import mindspore as ms

    from hyperoffload_core.mindspore_plugin.running import forget_peak, peak_resident_bytes
    from hyperoffload_core.workloads import build_workload

    ms.set_context(mode=ms.GRAPH_MODE)
    built = build_workload(workload)
    said: dict[str, Any] = {}
    if schedule is not None:
        from hyperoffload_core.mindspore_plugin.attach import attach

        attached = attach(built.cell, read_schedule(schedule), pool_folder=schedule.parent, marks=marks)
    results, times_ns = hashlib.sha256(), []
    for step in range(steps):
        if step == SETTLED:
            forget_peak()
        start_ns = perf_counter_ns()
        value = built.cell(*built.batches[step % len(built.batches)]).asnumpy()
        times_ns.append(perf_counter_ns() - start_ns)
        results.update(value.tobytes())
    peak_bytes = peak_resident_bytes()
    parameters = hashlib.sha256()
    for parameter in built.cell.get_parameters():
        parameters.update(parameter.asnumpy().tobytes())
    if schedule is not None and attached.inserted is not None:
        said = {"new_nodes": attached.inserted.new_nodes, "stays": len(attached.inserted.stays)}
    return said | {
        "results": results.hexdigest(),
        "parameters": parameters.hexdigest(),
        "step_ms": float(np.median(times_ns[SETTLED:])) / 1e6,
        "peak_mib": peak_bytes / 2**20,
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["plan", workload, folder, *limits]:
            print(json.dumps(plan(workload, Path(folder), limits)))
        case ["plain", workload, folder, steps]:
            print(json.dumps(ran(workload, int(steps), None)))
        case ["attached", workload, folder, steps, limit]:
            print(json.dumps(ran(workload, int(steps), Path(folder) / f"{limit}.json")))
        case ["marked", workload, folder, steps, limit]:
            print(json.dumps(ran(workload, int(steps), Path(folder) / f"{limit}.json", marks=True)))
        case words:
            main(int(words[0]) if words else 20)
