"""Address assignment on MiniMalloc's hard problems and on as many blocks as a graph of 100,000 ops has.

    python -m bench.pack [FOLDER]

The problems are not part of this repository (github.com/google/minimalloc, benchmarks/challenging); without FOLDER they
are looked for in ../shared/data/minimalloc. Prints Markdown tables.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from hyperoffload_core.packing.minimalloc import read_buffers
from hyperoffload_core.packing.pack import pack
from hyperoffload_core.packing.problem import Block, make_problem
from hyperoffload_core.passes.addresses import assign_addresses

FOLDER = Path(__file__).parent.parent.parent / "shared" / "data" / "minimalloc"
CAPACITY = 1_048_576
SECONDS = 60.0


def problems(folder: Path) -> list[str]:
    """A row per file: within the capacity of its name, and, where the liveness bound is lower, as low as possible."""
    rows = []
    for path in sorted(folder.glob(f"*.{CAPACITY}.csv")):
        blocks = read_buffers(path).blocks
        liveness = make_problem(blocks).liveness_bound
        for capacity in (CAPACITY,) if liveness == CAPACITY else (CAPACITY, None):
            began = time.monotonic()
            packing = pack(blocks, capacity, lambda began=began: time.monotonic() - began > SECONDS)
            took = time.monotonic() - began
            goal = "lowest" if capacity is None else f"{capacity:,}"
            rows.append(
                f"| {path.name.split('.')[0]} | {len(blocks)} | {liveness:,} | {goal} | {packing.height:,} | "
                f"{packing.height / liveness - 1:.2%} | {took:.2f} |"
            )
    return rows


def many(count: int) -> str:
    """A row for ``count`` blocks of random size and heavy-tailed lifetime."""
    random = np.random.default_rng(0)
    steps = count // 2
    start = random.integers(0, steps, count)
    end = np.minimum(steps, start + 1 + (random.pareto(1.0, count) * 3).astype(int))
    size = random.integers(1, 200, count) * 512
    blocks = [Block(int(z), ((int(s), int(e)),), 64) for z, s, e in zip(size, start, end, strict=True)]
    began = time.monotonic()
    _, height = assign_addresses(blocks)
    took = time.monotonic() - began
    return f"| {count:,} | {height / make_problem(blocks).liveness_bound - 1:.2%} | {took:.2f} |"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    found = problems(folder)
    if found:
        print("| file | buffers | liveness bound | goal | height | fragmentation | seconds |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        print("\n".join(found) + "\n")
    print("| blocks of a schedule | fragmentation | seconds |\n|--:|--:|--:|")
    for count in (3_000, 20_000, 200_000):
        print(many(count))


if __name__ == "__main__":
    main()
