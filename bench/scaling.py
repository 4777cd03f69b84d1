"""Time and memory of a compile against the size of the graph: made-up training steps of 1,000 to 100,000 ops.

    python -m bench.scaling [--picture FILE.svg] [OPS ...]

Each size is compiled in a fresh process: strategy hyperoffload at normal effort, everything from the rules to the
verifier. Under 60 % of the no-offload peak on Ascend 910C links have time to spare; under 35 % on H100 over PCIe 5 they
decide how long the step takes. Memory is the highest resident size of that process, interpreter and graph
included. A size that is not done after two minutes is ended, and no larger one tried. Prints a Markdown table of each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path

from bench.loglog import Panel, svg_of
from bench.synthetic import synthetic_training
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import roofline_durations
from hyperoffload_core.hardware import load_hardware
from hyperoffload_core.policy import Policy

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
CASES = (("ascend-910c", "60%"), ("h100-pcie5", "35%"))
"""Hardware and limit: the first is the one drawn."""
MOST_SECONDS = 120
TARGET_OPS, TARGET_S, TARGET_BYTES = 100_000, 30.0, 2 * 10**9


@dataclass(frozen=True)
class Measured:
    ops: int
    storages: int
    live_peak_bytes: int
    graph_bytes: int
    transfers: int
    compile_s: float
    peak_rss_bytes: int
    step_ns: int
    bound_ns: int


def measure(op_count: int, hardware_name: str, limit: str) -> Measured:
    """In this process: whatever ran in it before counts in its memory."""
    hardware, policy = load_hardware(hardware_name), Policy(memory_limit=limit, strategy="hyperoffload")
    small, roomy = synthetic_training(1), policy.model_copy(update={"memory_limit": "60%"})
    compile_schedule(small, roofline_durations(small, hardware), hardware, roomy)  # imports what it needs first
    graph = synthetic_training(op_count)
    durations = roofline_durations(graph, hardware)
    before = _peak_rss_bytes()
    began = time.perf_counter()
    schedule = compile_schedule(graph, durations, hardware, policy)
    took = time.perf_counter() - began
    return Measured(
        len(graph.ops),
        len(graph.storages),
        live_peak_bytes(graph),
        before,
        len(schedule.transfers),
        took,
        _peak_rss_bytes(),
        schedule.metrics.step_ns,
        schedule.metrics.lower_bound_ns,
    )


def _peak_rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_apart(op_count: int, hardware_name: str, limit: str) -> Measured | None:
    """In a process of its own; None if it takes too long."""
    command = [sys.executable, "-m", "bench.scaling", "--one", hardware_name, limit, str(op_count)]
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return Measured(**json.loads(done.stdout))


def table(sizes: Sequence[int], found: Sequence[Measured | None]) -> list[str]:
    """Growth is the exponent against the size before: 1 is linear, 2 quadratic."""
    lines = [
        "| ops | storages | no-offload peak GiB | transfers | compiled in s | per op µs | growth | peak memory GB "
        "| of it the graph GB | above bound |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    before: Measured | None = None
    for size, m in zip(sizes, found, strict=True):
        if m is None:
            lines.append(f"| {size:,} | | | | more than {MOST_SECONDS} | | | | | |")
            continue
        growth = f"{log(m.compile_s / before.compile_s) / log(m.ops / before.ops):.2f}" if before else ""
        lines.append(
            f"| {m.ops:,} | {m.storages:,} | {m.live_peak_bytes / 2**30:,.0f} | {m.transfers:,} | {m.compile_s:.2f} "
            f"| {1e6 * m.compile_s / m.ops:.0f} | {growth} | {m.peak_rss_bytes / 1e9:.2f} "
            f"| {m.graph_bytes / 1e9:.2f} | {m.step_ns / m.bound_ns - 1:.1%} |"
        )
        before = m
    return lines


def picture(found: Sequence[Measured]) -> str:
    return svg_of(
        [
            Panel(
                "Compile time, s",
                "ops in the graph",
                [(m.ops, m.compile_s) for m in found],
                (TARGET_OPS, TARGET_S),
                "target: 30 s",
            ),
            Panel(
                "Peak memory of the process, GB",
                "ops in the graph",
                [(m.ops, m.peak_rss_bytes / 1e9) for m in found],
                (TARGET_OPS, TARGET_BYTES / 1e9),
                "target: 2 GB",
            ),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__.split("\n")[0])
    parser.add_argument("sizes", type=int, nargs="*", metavar="OPS", help="sizes instead of 1,000 to 100,000")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the growth into this file")
    parser.add_argument("--one", nargs=2, metavar=("HARDWARE", "LIMIT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(measure(options.sizes[0], *options.one))))
        return
    sizes, all_found = options.sizes or SIZES, list[list[Measured | None]]()
    for hardware_name, limit in CASES:
        found: list[Measured | None] = []
        for size in sizes:
            found.append(measure_apart(size, hardware_name, limit) if None not in found else None)
            print(f"{hardware_name} {limit} {size} ops: {found[-1]}", file=sys.stderr, flush=True)
        all_found.append(found)
        title = f"{load_hardware(hardware_name).title}, {limit.rstrip('%')} % of the no-offload peak:"
        print("\n".join([*([""] if len(all_found) > 1 else []), title, "", *table(sizes, found)]))
    done = [m for m in all_found[0] if m is not None]
    if options.picture and done:
        options.picture.write_text(picture(done))
        print(f"\n![Compile time and memory against the number of ops]({_from_docs(options.picture)})")


def _from_docs(path: Path) -> str:
    """The path as docs/benchmarks.md, which this output becomes part of, has to name it."""
    return path.as_posix().removeprefix("docs/")


if __name__ == "__main__":
    main()
