"""MindSpore's own graph mode under our schedules: results, memory of the process and step time, attached and plain.

    .venv/bin/python -m bench.graph_mode [STEPS]

Every row is a fresh interpreter. Memory is the most the process had resident in steps after the sixth, when MindSpore
has settled on how it runs the graph; the pool is a file without a name, so that it does not count. Times are medians of
the same steps, and *waited* is how long their ops waited for transfers, of what the schedule predicts. Copies are paced
to 1 GB/s each way. Schedules are compiled with op durations of graph mode, as `hyperoffload run --graph-mode` does, and
those of the op-by-op executor with its own.

MindSpore computes on all cores, and copies beside it take one from it. A device has copy engines beside its compute
cores. So a last table is measured with MindSpore's threads, all of them and from the start of the process, on one core,
and the copy threads on another, which thus is the copy engine; the plain graph it is compared with has one core too.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.interface import read_schedule

LINK = "1GB/s"
SETTLED = 6
COMMON = (
    "limit",
    "results and parameters",
    "step ms",
    "times plain",
    "waited ms",
    "predicted ms",
    "process peak MiB",
    "lower by MiB",
    "predicted MiB",
    "share",
    "new nodes",
    "storages that stay",
)
ALL_CORES = (*COMMON, "every op recorded", "op by op ms")
LIMITS = (75, 60, 45)
CASES = (("demo", LIMITS), ("tiny-prefill", (60,)), ("tiny-decode", (75,)))
ONE_CORE = ("demo", LIMITS)


def main(steps: int) -> None:
    for workload, limits in CASES:
        print(f"\n### {workload}, {steps} steps\n")
        _table(workload, limits, steps)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        workload, limits = ONE_CORE
        print(f"\n### {workload}, {steps} steps: one core computes, another copies\n")
        _table(workload, limits, steps, cores[:2])


def _table(workload: str, limits: Sequence[int], steps: int, cores: Sequence[int] = ()) -> None:
    """``cores``: the one that computes and the one that copies; none where both take what they get."""
    with tempfile.TemporaryDirectory() as folder:
        op_by_op_ms = _child(cores, "plan", workload, folder, *map(str, limits))
        plain = _child(cores, "plain", workload, folder, str(steps))
        said = f"Plain graph mode: {plain['step_ms']:.1f} ms a step, at most {plain['peak_mib']:,.0f} MiB resident."
        if op_by_op_ms:
            said += f" The op-by-op executor without offload: {op_by_op_ms['none']:.1f} ms."
        columns = ALL_CORES if op_by_op_ms else COMMON
        print(f"{said}\n\n| {' | '.join(columns)} |\n|---|---|{'--:|' * (len(columns) - 2)}")
        for limit in limits:
            ran = _child(cores, "attached", workload, folder, str(steps), str(limit))
            schedule = read_schedule(Path(folder) / f"{limit}.json")
            predicted = (live_peak_bytes(schedule.graph.original) - schedule.metrics.peak_live_bytes) / 2**20
            lower = plain["peak_mib"] - ran["peak_mib"]
            same = ran["results"] == plain["results"] and ran["parameters"] == plain["parameters"]
            cells = [
                f"{limit} %",
                "bit-identical" if same else "**different**",
                f"{ran['step_ms']:.1f}",
                f"{ran['step_ms'] / plain['step_ms']:.3f}",
                f"{ran['waited_ms']:.1f}",
                f"{schedule.metrics.blocking_ns / 1e6:.1f}",
                f"{ran['peak_mib']:,.0f}",
                f"{lower:.0f}",
                f"{predicted:.1f}",
                # Of less than a MiB the process shows nothing.
                f"{100 * lower / predicted:.0f} %" if predicted > 1 else "-",
                str(ran["new_nodes"]),
                str(ran["stays"]),
            ]
            if op_by_op_ms:
                marked = _child(cores, "marked", workload, folder, str(steps), str(limit))
                cells.append(f"{100 * (marked['step_ms'] / ran['step_ms'] - 1):+.1f} %")
                cells.append(f"{op_by_op_ms[str(limit)]:.1f}")
            print(f"| {' | '.join(cells)} |")


def _child(cores: Sequence[int], *words: str) -> dict[str, Any]:
    """What a fresh interpreter says, which is on the first of the cores from its start."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.graph_mode", f"cores={','.join(map(str, cores))}", *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=(lambda: os.sched_setaffinity(0, cores[:1])) if cores else None,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def plan(workload: str, folder: Path, limits: list[str], op_by_op: bool) -> dict[str, float]:
    """Schedules for this machine; and, where it is asked for, what a step takes op by op."""
    import hyperoffload_core.interface as ho
    from hyperoffload_core.graph_session import InGraphMode
    from hyperoffload_core.measure import measure_durations
    from hyperoffload_core.runtime.machine import this_machine
    from hyperoffload_core.sizes import parse_rate
    from hyperoffload_core.workloads import build_workload

    built = build_workload(workload)
    model = ho.capture(built.cell, built.inputs, name=workload)
    hardware = this_machine(parse_rate(LINK))
    batches = (ho.captured_batch(model),)
    step_ms: dict[str, float] = {}
    if op_by_op:
        durations = measure_durations(model, hardware, batches)
        for limit in (*limits, "none"):
            chosen: dict[str, Any] = {"strategy": "none"} if limit == "none" else {"limit": f"{limit}%"}
            schedule = ho.compile(model, link_bandwidth=LINK, durations=durations, **chosen)
            step_ms[limit] = float(np.median(ho.run(model, schedule, steps=5).steps.step_ns)) / 1e6
    durations = InGraphMode(
        built.cell, model.graph, batches, SETTLED, conditions=(), report=lambda _: None, cancelled=lambda: False
    ).measure(hardware)
    for limit in limits:
        schedule = ho.compile(model, link_bandwidth=LINK, durations=durations, limit=f"{limit}%")
        ho.write_schedule(schedule, folder / f"{limit}.json")
    return step_ms


def ran(workload: str, steps: int, schedule: Path | None, copying: list[int], marks: bool = False) -> dict[str, Any]:
    """Train, or produce, for so many steps in graph mode, with a schedule or plain; ``copying``: cores that copy."""
    from hyperoffload_core.mindspore_plugin import passes

    passes.prepare()
    import mindspore as ms

    from hyperoffload_core.mindspore_plugin.kernels import EVENT_KINDS
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
            if schedule is not None:
                attached.take_events()
            if copying:
                _move_copy_threads(copying)
        start_ns = perf_counter_ns()
        value = built.cell(*built.batches[step % len(built.batches)]).asnumpy()
        times_ns.append(perf_counter_ns() - start_ns)
        results.update(value.tobytes())
    peak_bytes = peak_resident_bytes()
    parameters = hashlib.sha256()
    for parameter in built.cell.get_parameters():
        parameters.update(parameter.asnumpy().tobytes())
    if schedule is not None and attached.inserted is not None:
        events = attached.take_events()
        waits = np.isin(events["kind"], [EVENT_KINDS.index("done"), EVENT_KINDS.index("end")])
        said = {
            "new_nodes": attached.inserted.new_nodes,
            "stays": len(attached.inserted.stays),
            "waited_ms": float(events["waited_ns"][waits].sum()) / (steps - SETTLED) / 1e6,
        }
    return said | {
        "results": results.hexdigest(),
        "parameters": parameters.hexdigest(),
        "step_ms": float(np.median(times_ns[SETTLED:])) / 1e6,
        "peak_mib": peak_bytes / 2**20,
    }


def _move_copy_threads(cores: list[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        if (thread / "comm").read_text().startswith("ho-"):
            os.sched_setaffinity(int(thread.name), cores)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not (arguments and arguments[0].startswith("cores=")):
        main(int(arguments[0]) if arguments else 20)
        sys.exit()
    chosen_cores = [int(core) for core in arguments[0].removeprefix("cores=").split(",") if core]
    match arguments[1:]:
        case ["plan", workload, folder, *limits]:
            print(json.dumps(plan(workload, Path(folder), limits, op_by_op=not chosen_cores)))
        case ["plain", workload, folder, steps]:
            print(json.dumps(ran(workload, int(steps), None, chosen_cores[1:])))
        case [how, workload, folder, steps, limit]:
            path = Path(folder) / f"{limit}.json"
            print(json.dumps(ran(workload, int(steps), path, chosen_cores[1:], marks=how == "marked")))
