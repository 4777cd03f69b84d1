"""Workload x hardware x limit x strategy: the time of a step, predicted, against the bound no schedule can beat.

    python -m bench.compile [--graphs FOLDER] [--csv FILE]
    python -m bench.compile --workload llama3-8b-train --hardware gh200 --limit 35% --strategy reactive

Nothing here ran on the hardware named: op durations come from its roofline, transfers from its link description. Every
schedule passed the verifier. The first form measures the whole matrix: two processes for the other strategies, then
`hyperoffload` alone, so that its time to compile is that of a quiet machine, then where it is more than 3 % above the
bound once more with effort best. Any of --workload, --hardware, --limit and
--strategy narrows it down; one cell, or given strategies, are printed with every number. Captured graphs are kept in
FOLDER, if given.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.cells import (
    AT_BEST,
    HARDWARE,
    LIMITS,
    OURS,
    RECOMPUTING,
    WORKLOADS,
    Row,
    compile_cell,
    compile_others,
    load_problem,
)
from bench.tables import csv_text, full_table, matrix_table, summary
from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.errors import UserError
from hyperoffload_core.graphfile import read_graph
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.strategies import STRATEGIES
from hyperoffload_core.workloads import workload_names

# Exponential in the size of the graph: for small graphs only.
NOT_FOR_LARGE_GRAPHS = ("optimal",)
FAR = 0.03
"""So far above the bound a cell is tried with effort best as well."""


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        return _run(_options(arguments))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        graphs = options.graphs or Path(temporary)
        described = {workload: _describe(workload, graphs) for workload in options.workload or WORKLOADS}
        rows = measure(
            graphs,
            options.workload or list(WORKLOADS),
            options.hardware or list(HARDWARE),
            options.limit or list(LIMITS),
            options.strategy or [*(s for s in STRATEGIES if s not in NOT_FOR_LARGE_GRAPHS), RECOMPUTING[0], AT_BEST],
        )
    if options.csv:
        options.csv.write_text(csv_text(rows))
    whole = not options.strategy and len({r.cell for r in rows}) > 1
    print("\n\n".join(_report(rows, described, whole=whole)))
    return int(any(r.outcome == "invalid" for r in rows))


def measure(
    graphs: Path, workloads: list[str], hardware: list[str], limits: list[str], strategies: list[str]
) -> list[Row]:
    """Rows in the order workload, hardware, limit, strategy."""
    others = [s for s in strategies if s not in (OURS, AT_BEST)]
    places = [(workload, name) for workload in workloads for name in hardware]
    rows: list[Row] = []
    if others:
        # Fresh interpreters: this one may have loaded much by now. The slowest first.
        largest_first = sorted(places, key=lambda p: -(graphs / f"{p[0]}.json.gz").stat().st_size)
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            running = [pool.submit(compile_others, w, h, graphs, limits, others) for w, h in largest_first]
            for (workload, name), task in zip(largest_first, running, strict=True):
                rows += task.result()
                _say(f"{workload} on {name}: {len(others)} strategies under {len(limits)} limits")
    if OURS in strategies:
        compile_cell(load_problem(*places[0], graphs), limits[0], OURS)  # what is imported on first use is no compiling
        for workload, name in places:
            problem = load_problem(workload, name, graphs)
            for limit in limits:
                row = compile_cell(problem, limit, OURS)
                rows.append(row)
                _say(f"{workload} on {name}, {limit}: {row.above_bound:.1%} above the bound in {row.compile_s:.2f} s")
    if OURS in strategies and AT_BEST in strategies:
        far = [r for r in rows if r.strategy == OURS and r.above_bound > FAR]
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            tries = [pool.submit(_at_best, r.workload, r.hardware, r.limit, graphs) for r in far]
            for row, best in zip(far, tries, strict=True):
                rows.append(best.result())
                _say(f"{row.workload} on {row.hardware}, {row.limit}: {rows[-1].above_bound:.1%} with effort best")
    order = {cell: n for n, cell in enumerate((w, h, m) for w, h in places for m in limits)}
    rank = {strategy: n for n, strategy in enumerate([OURS, AT_BEST, *others])}
    return sorted(rows, key=lambda r: (order[r.cell], rank[r.strategy]))


def _at_best(workload: str, hardware: str, limit: str, graphs: Path) -> Row:
    return compile_cell(load_problem(workload, hardware, graphs), limit, AT_BEST)


def _report(rows: list[Row], described: dict[str, str], *, whole: bool) -> list[str]:
    parts = summary(rows) if whole else []
    if whole:
        parts.append(
            "Entries are the step over the bound of schedules that meet the limit, and by how much the others are over "
            "it. Their steps, and all other numbers, are in [benchmarks-schedules.csv](benchmarks-schedules.csv). The "
            "bound is for schedules that run every op once; those of `recompute` may be below it."
        )
    for workload in dict.fromkeys(r.workload for r in rows):
        own = [r for r in rows if r.workload == workload]
        parts += [f"### {workload}", described[workload]]
        if whole:
            parts.append("\n".join(matrix_table(own)))
            parts.append("\n".join(full_table(r for r in own if r.strategy in (OURS, AT_BEST))))
        else:
            parts.append("\n".join(full_table(own)))
    return parts


def _describe(workload: str, graphs: Path) -> str:
    """Capture the workload unless its graph is there, and say what it is."""
    path, cost = graphs / f"{workload}.json.gz", ""
    if not path.exists():
        graphs.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "hyperoffload", "capture", workload, "--output", str(path)]
        began = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        # The largest child so far: workloads are captured from small to large.
        gib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        cost = f" Captured in {time.monotonic() - began:.1f} s, at most {gib:.1f} GiB."
    graph = read_graph(path).graph
    return (
        f"{len(graph.ops):,} ops, {len(graph.storages):,} storages, no-offload live peak "
        f"{format_bytes(live_peak_bytes(graph))}, smallest feasible limit "
        f"{format_bytes(smallest_feasible_limit(graph).bytes)}.{cost}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compile", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--graphs", type=Path, help="folder of captured graphs, WORKLOAD.json.gz; missing ones are made"
    )
    parser.add_argument("--csv", type=Path, help="every number of every row, to this file")
    parser.add_argument("--workload", action="append", choices=workload_names(), help="may be repeated")
    parser.add_argument("--hardware", action="append", help="a hardware description; may be repeated")
    parser.add_argument("--limit", action="append", help="a memory limit such as 50%% or 48GiB; may be repeated")
    parser.add_argument("--strategy", action="append", choices=list(STRATEGIES), help="may be repeated")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
