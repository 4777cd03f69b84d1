"""Measurements, one after the other, into docs/benchmarks.md: `make bench` runs all, `python -m bench pack` one.

Each section is replaced as soon as it is measured; the others stay as they are. Give it a quiet machine: what else runs
on the same cores shows in the numbers.
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
    ("A prediction on the Tune page", "bench.preview"),
    ("The dashboard in a browser", "bench.dashboard"),
)
HEAD = "# Benchmarks\n\nWritten by `make bench`. Each section is the output of one command."


def main() -> None:
    wanted = sys.argv[1:]
    names = [command.split()[0].removeprefix("bench.") for _, command in SECTIONS]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"there is no measurement {unknown[0]!r}; they are {', '.join(names)}")
    sections = _written(OUTPUT.read_text()) if OUTPUT.exists() else {}
    for name, (title, command) in zip(names, SECTIONS, strict=True):
        if wanted and name not in wanted:
            continue
        print(f"== {command}", flush=True)
        sections[title] = _measured(command)
        print(sections[title], flush=True)
        bodies = [f"## {t}\n\n{sections[t]}" for t, _ in SECTIONS if t in sections]
        OUTPUT.write_text("\n\n".join([HEAD, *bodies]) + "\n")
    print(f"written to {OUTPUT}")


def _measured(command: str) -> str:
    environment = dict(EXECUTION_ENVIRONMENT) | dict(os.environ) | {"GLOG_v": "3"}
    run = subprocess.run(
        [sys.executable, "-m", *command.split()],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment,
        cwd=DOCS.parent,
    )
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    body = run.stdout.strip()
    shown = body if "|--" in body else f"```\n{body}\n```"
    return f"`python -m {command}` on {date.today().isoformat()}: {machine}\n\n{shown}"


def _written(text: str) -> dict[str, str]:
    """The sections of the file by title."""
    parts = text.split("\n## ")[1:]
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


if __name__ == "__main__":
    main()
