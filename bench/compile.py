"""LLaMA-3-8B training step, sequence 4096: capture, then every strategy x hardware x limit, predicted.

    python -m bench.compile

Nothing here ran on the hardware named: durations come from its roofline, transfers from its link description. Prints a
Markdown table.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import roofline_durations
from hyperoffload_core.graphfile import read_graph
from hyperoffload_core.hardware import load_hardware
from hyperoffload_core.policy import Policy
from hyperoffload_core.sizes import format_bytes

MODEL = "llama3-8b-train"
HARDWARE = ("ascend-910c", "ascend-910c-host", "h100-pcie5", "gh200")
LIMITS = ("90%", "75%", "60%", "50%", "35%")
STRATEGIES = ("none", "reactive", "hyperoffload")


def capture_cost(path: Path) -> tuple[float, float]:
    """Seconds and peak GiB of `hyperoffload capture`, the command and its worker."""
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "hyperoffload", "capture", MODEL, "--output", str(path)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json.gz"
        seconds, gib = capture_cost(path)
        graph = read_graph(path).graph
    lines = [
        f"`{MODEL}`: {len(graph.ops):,} ops, {len(graph.storages):,} storages, no-offload live peak "
        f"{format_bytes(live_peak_bytes(graph))}, smallest feasible limit "
        f"{format_bytes(smallest_feasible_limit(graph).bytes)}. Captured in {seconds:.1f} s and {gib:.1f} GiB.",
        "",
        "| hardware | limit | strategy | compiled in s | step ms | bound ms | above bound | exposed ms | peak GiB | "
        "reserved GiB | out GiB | in GiB |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in HARDWARE:
        hardware = load_hardware(name)
        durations = roofline_durations(graph, hardware)
        for limit in LIMITS:
            for strategy in STRATEGIES:
                began = time.monotonic()
                schedule = compile_schedule(graph, durations, hardware, Policy(memory_limit=limit, strategy=strategy))
                took, m = time.monotonic() - began, schedule.metrics
                over = m.reserved_bytes > schedule.memory_limit_bytes
                above = "" if over else f"{m.step_ns / m.lower_bound_ns - 1:.1%}"
                fits = " (over the limit)" if over else ""
                lines.append(
                    f"| {name} | {limit} | {strategy}{fits} | {took:.2f} | {m.step_ns / 1e6:.1f} | "
                    f"{m.lower_bound_ns / 1e6:.1f} | {above} | {m.exposed_ns / 1e6:.1f} | "
                    f"{m.peak_live_bytes / 2**30:.2f} | {m.reserved_bytes / 2**30:.2f} | {m.bytes_out / 2**30:.1f} | "
                    f"{m.bytes_in / 2**30:.1f} |"
                )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
