"""Every measurement, one after the other, into docs/benchmarks.md: `make bench`, or `python -m bench`.

Give it a quiet machine: what else runs on the same cores shows in the numbers.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

from hyperoffload_core.runtime.environment import EXECUTION_ENVIRONMENT

DOCS = Path(__file__).parent.parent / "docs"
OUTPUT = DOCS / "benchmarks.md"
SECTIONS = (
    ("The demo model, measured", "bench.demo"),
    ("What recording costs", "bench.recorder_overhead"),
    ("Every strategy on hardware that is not here, predicted", "bench.compile --csv docs/benchmarks-schedules.csv"),
    ("Compile time and memory against the size of the graph", "bench.scaling --picture docs/images/scaling.svg"),
    ("Small graphs against the proved optimum", "bench.optimum"),
    ("Address assignment", "bench.pack"),
    ("The database", "bench.database"),
)


def main() -> None:
    parts = [
        "# Benchmarks",
        f"Written by `make bench` on {date.today().isoformat()}: {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}. Each section is the output of one command.",
    ]
    for title, command in SECTIONS:
        print(f"== {command}", flush=True)
        environment = dict(EXECUTION_ENVIRONMENT) | dict(os.environ) | {"GLOG_v": "3"}
        run = subprocess.run(
            [sys.executable, "-m", *command.split()],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=environment,
            cwd=DOCS.parent,
        )
        print(run.stdout, flush=True)
        body = run.stdout.strip()
        parts += [f"## {title}", f"`python -m {command}`", body if "|--" in body else f"```\n{body}\n```"]
    OUTPUT.write_text("\n\n".join(parts) + "\n")
    print(f"written to {OUTPUT}")


if __name__ == "__main__":
    main()
