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

SECTIONS = (
    ("bench.demo", "The demo model, measured"),
    ("bench.recorder_overhead", "What recording costs"),
    ("bench.compile", "LLaMA-3-8B on hardware that is not here, predicted"),
    ("bench.database", "The database"),
)
OUTPUT = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main() -> None:
    parts = [
        "# Benchmarks",
        f"Written by `make bench` on {date.today().isoformat()}: {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}. Each section is the output of one command.",
    ]
    for module, title in SECTIONS:
        print(f"== {module}", flush=True)
        environment = dict(EXECUTION_ENVIRONMENT) | dict(os.environ) | {"GLOG_v": "3"}
        run = subprocess.run(
            [sys.executable, "-m", module], stdout=subprocess.PIPE, text=True, check=True, env=environment
        )
        print(run.stdout, flush=True)
        body = run.stdout.strip()
        parts += [f"## {title}", f"`python -m {module}`", body if "|--" in body else f"```\n{body}\n```"]
    OUTPUT.write_text("\n\n".join(parts) + "\n")
    print(f"written to {OUTPUT}")


if __name__ == "__main__":
    main()
